package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/sandbox"
	"github.com/wsd-dev/wsd/relay/rendezvous/openstate"
	"github.com/wsd-dev/wsd/relay/trust"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// privatePaths is the one list of what belongs to the user's wsd programs and to no
// sandbox: their directories, and the files and sockets that flags put elsewhere. A
// program adds its own before it serves; those of the others are in the runtime files.
type privatePaths struct {
	made     []string // wsd's directories as this environment has them: made where missing
	found    []string // where another wsd of the user may have them
	runtimes []string // those of them that have runtime files
	own      []string // files, sockets and directories of content of this process

	mu    sync.Mutex
	known map[string]knownRuntimeDir
}

// A knownRuntimeDir is what the files of a runtime directory named, when it was last
// changed at that time.
type knownRuntimeDir struct {
	changed time.Time
	paths   []string
}

func newPrivatePaths() *privatePaths {
	p := &privatePaths{known: make(map[string]knownRuntimeDir)}
	add := func(list *[]string, dir string, more ...string) {
		if path := filepath.Join(append([]string{dir}, more...)...); filepath.IsAbs(dir) && !slices.Contains(*list, path) {
			*list = append(*list, path)
		}
	}
	if cache, err := os.UserCacheDir(); err == nil {
		add(&p.made, cache, "wsd")
		add(&p.runtimes, cache, "wsd", "run")
	}
	if config, err := trust.DefaultDir(); err == nil {
		add(&p.made, config)
	}
	if state, err := workspace.StateDir(); err == nil {
		add(&p.made, state)
	}
	for _, runtime := range []string{os.Getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", strconv.Itoa(os.Getuid()))} {
		add(&p.runtimes, runtime, "wsd")
	}
	add(&p.made, os.Getenv("XDG_RUNTIME_DIR"), "wsd")

	homes := []string{os.Getenv("HOME")}
	if entry, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		homes = append(homes, entry.HomeDir)
	}
	for _, home := range homes {
		for _, dir := range []string{".cache", ".config", ".local/state"} {
			add(&p.found, home, dir, "wsd")
		}
		add(&p.runtimes, home, ".cache/wsd/run")
	}
	add(&p.found, "/run/user", strconv.Itoa(os.Getuid()), "wsd")
	if os.Getuid() == 0 {
		add(&p.found, "/var/lib/wsd")
	}
	p.found = slices.DeleteFunc(p.found, func(dir string) bool { return slices.Contains(p.made, dir) })
	if state, err := openstate.Parse(""); err == nil {
		p.addStore(state.File)
	}
	return p
}

// add adds files, sockets and directories, which need not be there yet. Empty names are passed over.
func (p *privatePaths) add(files ...string) {
	for _, file := range files {
		if file = absolute(file); file == "" {
			continue
		}
		for _, path := range []string{file, realPath(file)} {
			if path != "" && hasContent(path) && !slices.Contains(p.own, path) {
				p.own = append(p.own, path)
			}
		}
	}
}

// addStore adds a SQLite file, those that stand beside it, and the directory of its content.
func (p *privatePaths) addStore(file string) {
	if file == "" {
		return
	}
	names := []string{file}
	if real := realPath(absolute(file)); real != "" {
		names = append(names, real) // what stands beside it has its name, not the link's
	}
	for _, name := range names {
		for _, path := range sqlite.Files(name) {
			p.add(path)
		}
		p.add(sqlite.ObjectsPath(name))
	}
}

// realPath is path without links; "" when it leads nowhere.
func realPath(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}

// hasContent reports whether something at path could be kept from a sandbox: a pipe of
// a shell, such as /dev/fd/63, could not.
func hasContent(path string) bool {
	if strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/") {
		return false
	}
	info, err := os.Stat(path)
	return err != nil || info.IsDir() || info.Mode().IsRegular() || info.Mode().Type() == os.ModeSocket
}

// list is what no sandbox gives access to now. Missing directories are made, so that a
// sandbox that is older than another wsd does not see what that one will put there.
func (p *privatePaths) list() []sandbox.PrivatePath {
	var list []sandbox.PrivatePath
	add := func(path string, dir bool) {
		list = append(list, sandbox.PrivatePath{Path: path, Dir: dir})
	}
	for _, dir := range p.made {
		if _, err := os.Lstat(dir); err != nil {
			_ = os.MkdirAll(dir, 0o700) // where that fails no program of the user keeps anything
		}
		add(dir, true)
	}
	for _, dir := range p.found {
		if _, err := os.Lstat(dir); err == nil {
			add(dir, true)
		}
	}
	for _, file := range p.own {
		add(file, false)
	}
	for _, dir := range p.runtimes {
		for _, file := range p.ofOthers(dir) {
			if !slices.Contains(p.own, file) {
				add(file, false)
			}
		}
	}
	return list
}

// settledTime is how old a directory's time must be for a later change to show in it.
const settledTime = time.Second

// ofOthers returns what the runtime files in dir name. It reads them when the
// directory has changed since the last time.
func (p *privatePaths) ofOthers(dir string) []string {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known, ok := p.known[dir]; ok && known.changed.Equal(info.ModTime()) {
		return known.paths
	}
	now := time.Now()
	paths := &privatePaths{}
	if checkPrivate(dir) == nil { // or somebody else might name what is whose
		files, _ := filepath.Glob(filepath.Join(escapePattern(dir), "*.json"))
		for _, file := range files {
			paths.addServer(file)
		}
	}
	delete(p.known, dir)
	if now.Sub(info.ModTime()) > settledTime {
		p.known[dir] = knownRuntimeDir{info.ModTime(), paths.own}
	}
	return paths.own
}

// escapePattern is path as a pattern that matches nothing else.
func escapePattern(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// addServer adds what a runtime file names. It counts also when its server is gone: the
// token and the store are still there.
func (p *privatePaths) addServer(file string) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	var s runningServer
	raw, err := io.ReadAll(io.LimitReader(f, maxRuntimeFileBytes))
	if err != nil || json.Unmarshal(raw, &s) != nil {
		return
	}
	p.add(s.Private...)
	// A version that does not list them has these.
	p.add(s.TokenFile, socketPath(s.URL))
	p.addStore(s.Store)
}

// socketPath is the path of a unix:// URL; "" for others.
func socketPath(url string) string {
	path, is := strings.CutPrefix(url, "unix://")
	if !is {
		return ""
	}
	return path
}

// register tells the user's other wsd programs of the files of this process until
// withdraw is called. It is for programs that no client command is to find.
func (p *privatePaths) register(log *slog.Logger) (withdraw func()) {
	dir, err := userRuntimeDir()
	var reg *registration
	if err == nil {
		reg, err = dir.register(runningServer{PID: os.Getpid(), StartedAt: time.Now(), Version: readBuildInfo().Version, Private: p.own})
	}
	if err != nil {
		log.Info("the sandboxes of other servers do not know the files of this program", "err", err)
		return func() {}
	}
	return func() {
		if err := reg.Close(); err != nil {
			log.Warn("runtime file was not removed", "err", err)
		}
	}
}
