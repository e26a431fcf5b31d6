package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nobodyID is the user that a userWorld runs wsd as if the tests are the superuser's, who
// may read and write everything.
const nobodyID = 65534

// A userWorld is a directory and a served workspace of a user who is not the superuser.
type userWorld struct {
	t           *testing.T
	dir         string
	bin         string
	here, there string
	server      *realServer
}

func newUserWorld(t *testing.T) *userWorld {
	t.Helper()
	program(t) // skips where there is none
	path, err := realBinary()
	if err != nil {
		t.Fatal(err)
	}
	w := &userWorld{t: t, dir: shortDir(t)}
	w.here, w.there, w.bin = filepath.Join(w.dir, "l"), filepath.Join(w.dir, "s"), filepath.Join(w.dir, "wsd")
	t.Cleanup(func() {
		_ = filepath.WalkDir(w.dir, func(path string, d os.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
	})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.bin, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{w.here, w.there} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.own(w.dir, w.here, w.there)
	w.server = startReal(t, w.command("serve", "--workspace", w.there, "--store", filepath.Join(w.dir, "s.db"), "--listen", "unix://"+filepath.Join(w.dir, "u")))
	return w
}

// own gives paths to the user.
func (w *userWorld) own(paths ...string) {
	w.t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	for _, path := range paths {
		if err := os.Lchown(path, nobodyID, nobodyID); err != nil {
			w.t.Fatal(err)
		}
	}
}

// take makes a path somebody else's.
func (w *userWorld) take(path string) {
	w.t.Helper()
	if os.Geteuid() != 0 {
		w.t.Skip("only the superuser makes what another user owns")
	}
	if err := os.Lchown(path, 1, 1); err != nil {
		w.t.Fatal(err)
	}
}

// write makes a file of the user's, with its directories.
func (w *userWorld) write(dir, name, text string) {
	w.t.Helper()
	writeFile(w.t, filepath.Join(dir, name), text)
	for path := filepath.Join(dir, name); path != dir; path = filepath.Dir(path) {
		w.own(path)
	}
}

func (w *userWorld) chmod(path string, mode os.FileMode) {
	w.t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		w.t.Fatal(err)
	}
}

// command is wsd as the user runs it.
func (w *userWorld) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.bin, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "HOME="+w.dir, "TMPDIR="+w.dir, "XDG_RUNTIME_DIR="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, "state"))
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	}
	return cmd
}

// sync runs wsd sync with some flags, and returns what it printed with its exit status.
func (w *userWorld) sync(flags ...string) (string, int) {
	w.t.Helper()
	return w.run(append(append([]string{"sync"}, flags...), "--state", filepath.Join(w.dir, "l.db"), w.here, w.server.url)...)
}

// exec runs a command with wsd exec --sync.
func (w *userWorld) exec(argv ...string) (string, int) {
	w.t.Helper()
	flags := []string{"exec", "--sync", "--connect", w.server.url, "--dir", w.here, "--state", filepath.Join(w.dir, "l.db"), "--"}
	return w.run(append(flags, argv...)...)
}

func (w *userWorld) run(args ...string) (string, int) {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), failed.ExitCode()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return string(out), 0
}

// wantSync is sync that ends with a status and says some lines.
func (w *userWorld) wantSync(status int, lines ...string) {
	w.t.Helper()
	out, code := w.sync()
	w.wantLines(out, code, status, lines...)
}

func (w *userWorld) wantLines(out string, code, status int, lines ...string) {
	w.t.Helper()
	if code != status {
		w.t.Errorf("exit status %d, want %d:\n%s", code, status, out)
	}
	for _, line := range lines {
		if !strings.Contains("\n"+out, "\n"+line+"\n") {
			w.t.Errorf("it did not say %q:\n%s", line, out)
		}
	}
}

// wantFile checks a file's content, "" for none.
func (w *userWorld) wantFile(path, text string) {
	w.t.Helper()
	got, err := os.ReadFile(path)
	if text == "" && errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil || string(got) != text {
		w.t.Errorf("%s: %q, %v; want %q", path, got, err, text)
	}
}
