//go:build attack && linux

package attack

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// user is the ordinary user that the tests run servers as when they run as root
// themselves; stranger is another one.
const (
	user     = 65533
	stranger = 65532
)

// program is the binary that the tests attack, where every user can execute it.
var program string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == toolWord {
		os.Exit(runTool(os.Args[2:]))
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "wsd-attack-")
		if err == nil {
			err = os.Chmod(dir, 0o755)
		}
		if err == nil {
			defer os.RemoveAll(dir)
			program, err = install(dir)
		}
		if err == nil {
			tool = filepath.Join(dir, "tool")
			err = copyProgram("/proc/self/exe", tool)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// install puts a copy of the binary into dir: the one of make may be in a directory
// that an ordinary user cannot enter.
func install(dir string) (string, error) {
	built, err := target.WsdPath(context.Background(), dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "wsd-under-attack")
	return path, copyProgram(built, path)
}

func copyProgram(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// A world is what one user has on this machine: a home, a runtime directory and a
// directory to work in, which belong to the user.
type world struct {
	*testing.T
	uid  int
	home string // HOME, XDG_RUNTIME_DIR and, in state, XDG_STATE_HOME of its programs
	dir  string // w of the findings
}

// each runs test as root and as an ordinary user, or as the only one that there is.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Run("root", func(t *testing.T) { test(newWorld(t, 0)) })
		t.Run("user", func(t *testing.T) { test(newWorld(t, user)) })
		return
	}
	t.Run("user", func(t *testing.T) { test(newWorld(t, os.Geteuid())) })
}

func newWorld(t *testing.T, uid int) *world {
	t.Helper()
	top := scratch(t)
	w := &world{T: t, uid: uid, home: filepath.Join(top, "home"), dir: filepath.Join(top, "w")}
	w.mkdir(w.home)
	w.mkdir(filepath.Join(w.home, ".codex"))
	w.mkdir(w.dir)
	return w
}

// scratch makes a directory that every user can enter and that goes with the test. It
// is not below /tmp, which some policies make writable.
func scratch(t *testing.T) string { return scratchIn(t, "/var/tmp") }

func scratchIn(t *testing.T, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "wsd-attack-") //nolint:usetesting // t.TempDir is closed to other users
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// mkdir makes a directory of the world's user with mode 0700, and those above it.
func (w *world) mkdir(path string) {
	w.Helper()
	if _, err := os.Lstat(path); err == nil {
		return
	}
	if _, err := os.Lstat(filepath.Dir(path)); err != nil {
		w.mkdir(filepath.Dir(path))
	}
	err := os.Mkdir(path, 0o700)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(path, w.uid, w.uid)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// write makes a file of the world's user, and the directories that it needs.
func (w *world) write(path, content string, mode os.FileMode) {
	w.Helper()
	if _, err := os.Lstat(filepath.Dir(path)); err != nil {
		w.mkdir(filepath.Dir(path))
	}
	err := os.WriteFile(path, []byte(content), mode)
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(path, w.uid, w.uid)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// credential is for programs that run as uid.
func credential(uid int) *syscall.SysProcAttr {
	if uid == os.Geteuid() {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
}

// environ is the environment of the world's programs.
func (w *world) environ(more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + w.home, "XDG_RUNTIME_DIR=" + w.home,
		"XDG_STATE_HOME=" + filepath.Join(w.home, "state"), "TMPDIR=/tmp",
	}, more...)
}

// command is wsd with args, run as the world's user in its directory.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(w.Context(), program, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = w.dir, w.environ(), credential(w.uid)
	return cmd
}

// A server is a `wsd serve` of the world's user. It ends with the test.
type server struct {
	*target.Server
	w   *world
	log *strings.Builder // complete once Stop has returned
}

// serve starts `wsd serve --listen ws://127.0.0.1:PORT args`; env is added to its
// environment.
func (w *world) serve(env []string, args ...string) *server {
	w.Helper()
	return w.serveBy(program, env, args...)
}

// serveBy is serve with another program at path, which starts the one that is tried.
func (w *world) serveBy(path string, env []string, args ...string) *server {
	w.Helper()
	s := &server{w: w, log: new(strings.Builder)}
	var err error
	s.Server, err = target.Start(w.Context(), target.Config{
		Kind: target.Wsd, Path: path, Args: args, Dir: w.dir, Home: w.home, Env: env, Log: s.log, Attributes: credential(w.uid),
	})
	if err != nil {
		w.Fatalf("%v\n%s", err, s.log)
	}
	w.Cleanup(func() {
		_ = s.Stop()
		if w.Failed() {
			w.Logf("log of the server:\n%s", s.log)
		}
	})
	return s
}

// dial opens an initialized connection of the client library.
func (s *server) dial(options *client.Options) *client.Client {
	s.w.Helper()
	c, err := client.Dial(s.w.Context(), s.URL, options)
	if err != nil {
		s.w.Fatal(err)
	}
	s.w.Cleanup(func() { _ = c.Close() })
	return c
}

// raw opens an initialized connection that sends what it is given.
func (s *server) raw() *raw.Client {
	s.w.Helper()
	c, err := raw.Dial(s.w.Context(), s.Addr, raw.Config{})
	if err == nil {
		_, err = c.Initialize("")
	}
	if err != nil {
		s.w.Fatal(err)
	}
	s.w.Cleanup(func() { _ = c.Close() })
	return c
}

// A result is how a command ended.
type result struct {
	stdout, stderr string
	code           int
}

// text is all that the command printed.
func (r result) text() string { return r.stdout + r.stderr }

// run runs argv in the world's directory, confined by sandbox unless that is nil. An
// error is the server's refusal to start it.
func (s *server) run(c *client.Client, sandbox *protocol.Sandbox, argv ...string) (result, error) {
	s.w.Helper()
	p, err := c.Start(s.w.Context(), client.Command{Argv: argv, Dir: s.w.dir, Sandbox: sandbox})
	if err != nil {
		return result{}, err
	}
	var r result
	errs := make(chan error, 2)
	collect := func(into *string, from io.Reader) {
		data, err := io.ReadAll(from)
		*into = string(data)
		errs <- err
	}
	go collect(&r.stdout, p.Stdout) // both end with the process and are awaited below
	go collect(&r.stderr, p.Stderr)
	for range 2 {
		if err := <-errs; err != nil {
			s.w.Fatal(err)
		}
	}
	status, err := p.Wait(s.w.Context())
	if err != nil {
		s.w.Fatal(err)
	}
	r.code = status.Code
	return r, nil
}

// sh is run for a shell script that the server must not refuse.
func (s *server) sh(c *client.Client, sandbox *protocol.Sandbox, script string) result {
	s.w.Helper()
	r, err := s.run(c, sandbox, "sh", "-c", script)
	if err != nil {
		s.w.Fatalf("%s: %v", script, err)
	}
	return r
}

// readFile is fs/readFile of path with sandbox.
func readFile(c *raw.Client, path string, sandbox *protocol.Sandbox) (string, error) {
	var answer struct {
		Data string `json:"dataBase64"`
	}
	err := c.Call("fs/readFile", map[string]any{"path": fileuri.Format(path), "sandbox": sandbox}, &answer)
	if err != nil {
		return "", err
	}
	data, err := base64.StdEncoding.DecodeString(answer.Data)
	return string(data), err
}

// An entry of a policy.
type entry = protocol.PermissionEntry

func at(path, access string) entry {
	uri := fileuri.Format(path)
	return entry{Path: protocol.PermissionPath{Type: "path", Path: &uri}, Access: access}
}

func glob(pattern string) entry {
	return entry{Path: protocol.PermissionPath{Type: "glob_pattern", Pattern: &pattern}, Access: protocol.AccessDeny}
}

func root(access string) entry {
	return entry{Path: protocol.PermissionPath{Type: "special", Value: &protocol.SpecialPath{Kind: "root"}}, Access: access}
}

// policy is a managed sandbox in w's directory without a network.
func (w *world) policy(entries ...entry) *protocol.Sandbox {
	uri := fileuri.Format(w.dir)
	return &protocol.Sandbox{
		Permissions: protocol.Permissions{
			Type: protocol.PermissionsManaged, Network: protocol.NetworkRestricted,
			FileSystem: &protocol.FileSystemPermissions{Type: protocol.FileSystemRestricted, Entries: entries},
		},
		WindowsSandboxLevel: "disabled", Cwd: &uri, WorkspaceRoots: []string{uri},
	}
}

// ro is RO of the findings: everything can be read, nothing written, no network.
func (w *world) ro() *protocol.Sandbox { return w.policy(root(protocol.AccessRead)) }

// ww is WW of the findings: everything can be read, dir written, and more.
func (w *world) ww(dir string, more ...entry) *protocol.Sandbox {
	return w.policy(append([]entry{root(protocol.AccessRead), at(dir, protocol.AccessWrite)}, more...)...)
}

// secrets numbers the contents that must not leak, so that each is unique.
var secrets atomic.Int64

// secret returns a new content that must not leak.
func secret() string { return fmt.Sprintf("TOPSECRET-%d-%d", os.Getpid(), secrets.Add(1)) }

// hidden fails the test if text has secret.
func hidden(t testing.TB, where, text, secret string) {
	t.Helper()
	if strings.Contains(text, secret) {
		t.Errorf("%s gives what is denied: %q", where, text)
	}
}
