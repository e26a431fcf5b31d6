//go:build attack && linux

package attack

import (
	"bytes"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// opsWord has this binary do what a confined command would, instead of tests.
const opsWord = "attack-deny-ops"

func init() {
	if len(os.Args) > 2 && os.Args[1] == opsWord {
		undress()
		look(os.Args[2])
		for _, op := range os.Args[3:] {
			do(strings.Fields(op))
		}
		os.Exit(0)
	}
}

// look opens what its owner may open below dir, and prints every secret that it can
// read by any name or through a link that it makes.
func look(dir string) {
	_ = os.Chmod(dir, 0o700)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if e.IsDir() {
			look(at)
			continue
		}
		tell(at, at)
		switch {
		case e.Type().IsRegular():
			_ = os.Chmod(at, 0o600)
			lookAt(at)
		case e.Type()&os.ModeSymlink != 0: // to a directory that has one outside, perhaps
			tell(at, at+"/secret")
		}
	}
}

// lookAt tries to read a file by all other ways there are.
func lookAt(at string) {
	tell(at, at)
	tell(at, "/proc/self/root"+at)
	stolen := filepath.Join(os.Args[2], "stolen")
	if fd, err := unix.Open(at, unix.O_PATH|unix.O_NOFOLLOW, 0); err == nil {
		open := fmt.Sprintf("/proc/self/fd/%d", fd)
		tell(at, open)
		for _, flags := range []int{unix.AT_SYMLINK_FOLLOW, unix.AT_EMPTY_PATH} {
			from, name := unix.AT_FDCWD, open
			if flags == unix.AT_EMPTY_PATH {
				from, name = fd, ""
			}
			if unix.Linkat(from, name, unix.AT_FDCWD, stolen, flags) == nil {
				tell(at, stolen)
				_ = os.Remove(stolen)
			}
		}
		_ = unix.Close(fd)
	}
	if fd, err := unix.Open(filepath.Dir(at), unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
		tell(at, fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(at)))
		if handle, _, err := unix.NameToHandleAt(fd, filepath.Base(at), 0); err == nil {
			if opened, err := unix.OpenByHandleAt(fd, handle, unix.O_RDONLY); err == nil {
				tell(at, fmt.Sprintf("/proc/self/fd/%d", opened))
				_ = unix.Close(opened)
			}
		}
		_ = unix.Close(fd)
	}
	if os.Symlink(at, stolen) == nil {
		tell(at, stolen)
		_ = os.Remove(stolen)
	}
	if os.WriteFile(stolen, nil, 0o600) == nil {
		if unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, stolen, unix.RENAME_EXCHANGE) == nil {
			tell(at, stolen)
			_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, stolen, unix.RENAME_EXCHANGE)
		}
		_ = os.Remove(stolen)
	}
	if os.Link(at, stolen) == nil || os.Rename(at, stolen) == nil {
		tell(at, stolen)
		if _, err := os.Lstat(at); err == nil {
			_ = os.Remove(stolen)
		} else {
			_ = os.Rename(stolen, at)
		}
	}
}

// tell prints the secret of a file that can be read by name.
func tell(at, name string) {
	if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte("TOPSECRET")) {
		fmt.Printf("%s as %s: %s\n", at, name, data)
	}
}

// undress tries to get out of the mounts that deny.
func undress() {
	runtime.LockOSThread()
	for _, flags := range []int{unix.CLONE_NEWNS, unix.CLONE_NEWUSER | unix.CLONE_NEWNS} {
		if unix.Unshare(flags) == nil {
			fmt.Println("TOPSECRET: namespaces can be made")
		}
	}
}

func do(op []string) {
	a, b := op[1], op[2]
	switch op[0] {
	case "chmod":
		mode, _ := strconv.ParseUint(b, 8, 32)
		_ = unix.Chmod(a, uint32(mode))
	case "mv":
		_ = unix.Rename(a, b)
	case "exchange":
		_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	case "ln":
		_ = unix.Link(a, b)
	case "symlink":
		_ = unix.Symlink(a, b)
	case "mkdir":
		_ = unix.Mkdir(a, 0o755)
	case "rm":
		_ = os.RemoveAll(a)
	case "write":
		_ = os.WriteFile(a, []byte("made"), 0o644)
	case "mount":
		_ = unix.Mount(a, b, "", unix.MS_BIND, "")
		_ = unix.Unmount(a, unix.MNT_DETACH)
	}
}

// A denyModel is a workspace with a random policy.
type denyModel struct {
	*world
	rng      *rand.Rand
	s        *server
	c        *client.Client
	rc       *raw.Client
	tool     string
	dir      string
	denied   []string // paths relative to dir
	patterns []string
	box      *protocol.Sandbox
	outside  string // a file that the policy does not let be read, or ""
	trace    []string
}

var (
	modelDirs  = []string{"a", "a/b", "b", "b/c", "c", "keys", "new"}
	modelNames = []string{"secret", "x.env", "y.key", "z.pem", "plain", ".env", "l"}
	modelModes = []string{"000", "1555", "555", "1111", "300", "400", "600", "700", "755", "7000"}
	modelGlobs = []string{"**/*.env", "keys/*.key", "*/b/*.pem", "{a,b}/**/x*.env", "**/c", "*/secret", "a/**/l"}
	modelOps   = []string{"chmod", "chmod", "mv", "mv", "exchange", "ln", "symlink", "mkdir", "rm", "write", "mount"}
)

func pick(rng *rand.Rand, from []string) string { return from[rng.IntN(len(from))] }

// name is a path of the model, of a directory or of a file.
func (m *denyModel) name() string {
	switch m.rng.IntN(3) {
	case 0:
		return pick(m.rng, modelDirs)
	case 1:
		return pick(m.rng, modelNames)
	}
	return pick(m.rng, modelDirs) + "/" + pick(m.rng, modelNames)
}

// isDenied reports whether the policy denies a path.
func (m *denyModel) isDenied(rel string) bool {
	for at := rel; at != "."; at = filepath.Dir(at) {
		for _, d := range m.denied {
			if d == at {
				return true
			}
		}
		for _, p := range m.patterns {
			if ok, _ := doublestar.Match(p, at); ok {
				return true
			}
		}
	}
	return false
}

// plant writes a secret into every regular file that is denied by its name.
func (m *denyModel) plant() {
	_ = filepath.WalkDir(m.dir, func(at string, d iofs.DirEntry, err error) error {
		rel, _ := filepath.Rel(m.dir, at)
		if err == nil && d.Type().IsRegular() && m.isDenied(rel) {
			_ = os.WriteFile(at, []byte(secret()), 0o644)
		}
		return nil
	})
}

func (m *denyModel) start(seed uint64) {
	m.rng = rand.New(rand.NewPCG(seed, 11))
	m.trace = nil
	m.denied, m.patterns = nil, nil
	m.dir = filepath.Join(m.world.dir, strconv.FormatUint(seed, 10))
	for _, d := range modelDirs {
		if d == "new" {
			continue
		}
		m.mkdir(filepath.Join(m.dir, d))
		for _, n := range modelNames {
			if m.rng.IntN(3) == 0 {
				m.write(filepath.Join(m.dir, d, n), "plain", 0o644)
			}
		}
	}
	entries := []entry{at(m.tool, protocol.AccessRead)}
	for range 1 + m.rng.IntN(3) {
		if m.rng.IntN(2) == 0 {
			rel := m.name()
			m.denied = append(m.denied, rel)
			entries = append(entries, at(filepath.Join(m.dir, rel), protocol.AccessDeny))
		} else {
			p := pick(m.rng, modelGlobs)
			m.patterns = append(m.patterns, p)
			entries = append(entries, glob(filepath.Join(m.dir, p)))
		}
	}
	for range m.rng.IntN(3) { // what has a rule of its own within the workspace
		if rel := m.name(); !m.isDenied(rel) {
			entries = append(entries, at(filepath.Join(m.dir, rel), []string{protocol.AccessRead, protocol.AccessWrite}[m.rng.IntN(2)]))
		}
	}
	m.box = m.ww(m.dir, entries...)
	m.outside = ""
	if m.rng.IntN(3) == 0 { // nothing else can be read
		m.box = m.policy(append(entries, minimal(), at(m.dir, protocol.AccessWrite))...)
		m.outside = filepath.Join(m.world.dir, "secret")
		m.write(m.outside, secret(), 0o644)
	}
}

// ask does an operation by fs/*.
func (m *denyModel) ask(op, a, b string) {
	from, to := fileuri.Format(a), fileuri.Format(b)
	method, params := "fs/rename", map[string]any{"sandbox": m.box, "sourcePath": from, "destinationPath": to, "path": from}
	switch op {
	case "chmod":
		method, params["mode"] = "fs/chmod", must(strconv.ParseUint(b, 8, 32))
	case "ln":
		method, params["recursive"] = "fs/copy", true
	case "symlink":
		method, params["path"], params["target"] = "fs/symlink", to, a
	case "mkdir":
		method = "fs/createDirectory"
	case "rm":
		method = "fs/remove"
	case "write":
		method, params["dataBase64"] = "fs/writeFile", ""
	}
	_ = m.rc.Call(method, params, nil) // many are refused
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// secrets are the regular files below dir that have one.
func (m *denyModel) secrets(dir string) (all []string) {
	_ = filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if data, _ := os.ReadFile(path); bytes.Contains(data, []byte("TOPSECRET")) {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// step runs a command that looks for secrets and then does ops, and tries fs/*.
func (m *denyModel) step(ops ...string) bool {
	m.plant()
	m.trace = append(m.trace, fmt.Sprintf("%q", ops))
	r, err := m.s.run(m.c, m.box, append([]string{m.tool, opsWord, m.dir}, ops...)...)
	if err != nil {
		m.Errorf("the command is not started: %v", err)
		return false
	}
	text := r.text()
	var found struct{ Matches []any }
	_ = m.rc.Call("fs/grep", map[string]any{"path": fileuri.Format(m.dir), "pattern": "TOPSECRET", "sandbox": m.box}, &found)
	if len(found.Matches) > 0 {
		text += fmt.Sprintf("TOPSECRET by fs/grep: %v", found.Matches)
	}
	inside, copied := *m.world, filepath.Join(m.dir, "copies")
	inside.dir = m.dir // where copies may be made
	secrets := m.secrets(m.dir)
	if m.outside != "" {
		secrets = append(secrets, m.outside)
	}
	for _, path := range secrets {
		for how, got := range inside.fileTries(m.rc, path, m.box) {
			if strings.Contains(got, "TOPSECRET") {
				text += fmt.Sprintf("%s by %s: %s", path, how, got)
			}
		}
	}
	tree := pick(m.rng, modelDirs) // a copy of it is without what is denied
	_ = m.rc.Call("fs/copy", map[string]any{
		"sourcePath": fileuri.Format(filepath.Join(m.dir, tree)), "destinationPath": fileuri.Format(copied), "recursive": true, "sandbox": m.box,
	}, nil)
	for _, path := range m.secrets(copied) {
		text += fmt.Sprintf("TOPSECRET by fs/copy of %s: %s", tree, path)
	}
	_ = os.RemoveAll(copied)
	if strings.Contains(text, "TOPSECRET") {
		m.Errorf("what is denied leaks: %s", text)
		return false
	}
	return true
}

func (m *denyModel) sequence(seed uint64) bool {
	m.start(seed)
	defer func() {
		_ = os.RemoveAll(m.dir) // the world's clean-up does it too
		_ = os.Remove(m.outside)
	}()
	for range 2 + m.rng.IntN(2) {
		var ops []string
		for range 1 + m.rng.IntN(6) {
			op, a, b := pick(m.rng, modelOps), filepath.Join(m.dir, m.name()), filepath.Join(m.dir, m.name())
			switch op {
			case "chmod":
				b = pick(m.rng, modelModes)
				if m.rng.IntN(6) == 0 {
					a = m.dir
				}
			case "symlink":
				a = []string{a, m.name(), "..", "/", "/usr"}[m.rng.IntN(5)]
			}
			if m.rng.IntN(6) == 0 {
				m.trace = append(m.trace, fmt.Sprintf("fs: %s %s %s", op, a, b))
				m.ask(op, a, b)
				continue
			}
			ops = append(ops, op+" "+a+" "+b)
		}
		if !m.step(ops...) {
			return false
		}
	}
	return m.step()
}

// Whatever confined commands do to modes, names and links, no later one in the same
// sandbox reads what is denied, and each is started.
func TestDenyModel(t *testing.T) {
	sequences, limit := 5000, time.Hour // for root and for a user
	if testing.Short() {
		sequences, limit = 300, 12*time.Second
	}
	seed := uint64(time.Now().UnixNano()) / 1000
	if text := os.Getenv("WSD_SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	each(t, func(w *world) {
		w.Parallel() // with the other user's
		m := &denyModel{world: w, s: w.serve(nil)}
		m.c, m.rc = m.s.dial(nil), m.s.raw()
		m.tool = filepath.Join(filepath.Dir(w.dir), "tool")
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			w.Fatal(err)
		}
		w.write(m.tool, string(self), 0o755)
		begin := time.Now()
		n := 0
		for ; n < sequences && time.Since(begin) < limit; n++ {
			if !m.sequence(seed + uint64(n)) {
				w.Fatalf("WSD_SEED=%d\ndenied %q, patterns %q\n%s", seed+uint64(n), m.denied, m.patterns, strings.Join(m.trace, "\n"))
			}
		}
		w.Logf("%d sequences from WSD_SEED=%d, 0 leaks", n, seed)
	})
}
