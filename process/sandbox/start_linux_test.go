package sandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process"
)

func TestErrorsOfExec(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "text", "dir/")
		if err := os.WriteFile(dir+"/noexec", []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"))}
		for path, want := range map[string]syscall.Errno{
			"/nonexistent/program": syscall.ENOENT, dir + "/text": syscall.EACCES, dir + "/dir": syscall.EACCES,
			dir + "/noexec": syscall.ENOEXEC, dir + "/text/x": syscall.ENOTDIR,
		} {
			if err := b.refused(path); !isErrno(err, want) {
				t.Errorf("%s: %v, want %v", path, err, want)
			}
		}
		b.sandbox = policy(at("root", "read"), entry(dir+"/noexec", "deny"))
		if err := b.refused(dir + "/noexec"); !isErrno(err, syscall.EACCES) {
			t.Errorf("denied program: %v", err)
		}
	})
}

// The program is the process that was started: its pid, its group, its status.
func TestTheProgramTakesTheHelpersPlace(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		b := &box{t: t, e: e, dir: "/", sandbox: policy(at("root", "read")), env: []string{"X=\xff y", "GODEBUG=x=1"}}
		var out bytes.Buffer
		cmd, err := b.start(&out, "/bin/sh", "-c", `echo $$ "$0" "$X" $GODEBUG; cat /proc/self/stat | cut -d' ' -f5,6; exit 42`, "a b", "c")
		if err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 42 {
			t.Error(err)
		}
		pid := strconv.Itoa(cmd.Process.Pid)
		if want := pid + " a b \xff y x=1\n" + pid + " " + pid + "\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		cmd, err = b.start(io.Discard, "/bin/sh", "-c", "kill -9 $$")
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
			t.Errorf("ended by %v", ws)
		}
	})
}

func TestSignalsReachTheGroup(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		b := &box{t: t, e: e, dir: "/", sandbox: policy(at("root", "read"))}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close() //nolint:errcheck // test
		cmd, err := b.start(w, "/bin/sh", "-c", "sleep 1000 & sleep 1000 & echo go; wait")
		if err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // sleep in the background ignores SIGINT
		_ = cmd.Wait()
		if _, err := io.ReadAll(r); err != nil { // ends when all of them have
			t.Error(err)
		}
	})
}

// parentDeath prints the signal the process gets when its parent dies.
func TestParentDeathSignalIsKept(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		confined, err := e.Confine(t.Context(), policy(at("root", "read")), nil, false, process.Launch{
			Path: os.Args[0], Argv: []string{os.Args[0], toolWord, "pdeathsig"}, Dir: "/",
		})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd := &exec.Cmd{
			Path: confined.Launch.Path, Args: confined.Launch.Argv, Env: confined.Launch.Env, Stdout: &out,
			ExtraFiles: confined.Files, SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
		}
		if confined.Attr != nil {
			confined.Attr(cmd.SysProcAttr)
		}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		for _, f := range confined.Files {
			_ = f.Close()
		}
		if _, err := confined.Started(); err != nil || strings.TrimSpace(out.String()) != "SIGTERM" {
			t.Errorf("got %s, %v", out.String(), err)
		}
	})
}

// Nothing of the helper is left in the program: no descriptor, no ignored signal, no
// raised limit. (Blocked signals are those of the thread that forked, in either case.)
func TestTheProgramStartsClean(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		b := &box{t: t, e: e, dir: "/", sandbox: policy(at("root", "read"))}
		plain := exec.Command("/bin/sh", "-c", cleanScript)
		plain.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		want, err := plain.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got, code := b.sh(cleanScript); code != 0 || got != string(want) {
			t.Errorf("status %d: confined\n%snot confined\n%s", code, got, want)
		}
	})
}

const cleanScript = `ls /proc/$$/fd; ulimit -n; ulimit -Hn; umask; grep -E '^Sig(Ign|Cgt)' /proc/$$/status`

func TestTerminal(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		confined, err := e.Confine(t.Context(), policy(at("root", "read")), nil, false, process.Launch{
			Path: "/bin/sh", Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
			Argv: []string{"sh", "-c", "set -m; test -t 0 && echo terminal; echo hi >/dev/tty; stty size; sleep 1000 & kill -TERM %1; wait %1; echo status $?; cat"},
		})
		if err != nil {
			t.Fatal(err)
		}
		cmd := &exec.Cmd{
			Path: confined.Launch.Path, Args: confined.Launch.Argv, Env: confined.Launch.Env,
			ExtraFiles: confined.Files, SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
		}
		if confined.Attr != nil {
			confined.Attr(cmd.SysProcAttr)
		}
		terminal, err := pty.StartWithAttrs(cmd, &pty.Winsize{Rows: 31, Cols: 77}, cmd.SysProcAttr)
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.Close() //nolint:errcheck // test
		for _, f := range confined.Files {
			_ = f.Close()
		}
		if _, err := confined.Started(); err != nil {
			t.Fatal(err)
		}
		var out []byte
		for typed, buf := false, make([]byte, 4096); ; {
			n, err := terminal.Read(buf)
			if out = append(out, buf[:n]...); err != nil { // EIO at the end
				break
			}
			// What is typed while a line is printed may show in the middle of it.
			if !typed && bytes.Contains(out, []byte("status ")) && bytes.HasSuffix(out, []byte("\r\n")) {
				if _, err := terminal.Write([]byte("typed\n\x04")); err != nil {
					t.Fatal(err)
				}
				typed = true
			}
		}
		_ = cmd.Wait()
		for _, want := range []string{"terminal\r\n", "hi\r\n", "31 77\r\n", "status 143\r\ntyped\r\ntyped\r\n"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("no %q in %q", want, out)
			}
		}
	})
}

func TestTerminalsOfItsOwn(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		b := &box{t: t, e: e, dir: "/", sandbox: policy(at("root", "read"))}
		b.want(ok("openpty"))
		if out, _ := b.sh("ls /dev/pts"); strings.TrimSpace(out) != "ptmx" {
			t.Errorf("terminals of others: %s", out)
		}
	})
}

// A helper that cannot carry its plan out, or dies, starts nothing.
func TestFailedHelpersStartNothing(t *testing.T) {
	e := enforcer(t, Config{})
	for name, pl := range map[string]*plan{
		"unknown mechanism": {Mechanism: "zz"},
		"missing place":     {Mechanism: mechanismNamespaces, Base: Read, Places: []planPlace{{Path: []byte("/nonexistent"), Access: Read}}},
		"a place by a link": {Mechanism: mechanismNamespaces, Base: Read, Places: []planPlace{{Path: []byte("/proc/self/root"), Access: Write}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := e.namespaces(t.Context()).way
			if err := e.try(t.Context(), pl, w); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("no plan", func(t *testing.T) {
		out, err := exec.Command(os.Args[0], helperWord, "/bin/echo", "hi").CombinedOutput()
		if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != exitHelper || bytes.Contains(out, []byte("hi")) {
			t.Errorf("%s, %v", out, err)
		}
	})
	t.Run("half a plan", func(t *testing.T) {
		b, status, err := newBirth(&plan{Mechanism: mechanismNetwork}, wayPlain)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.files[0].Truncate(5); err != nil {
			t.Fatal(err)
		}
		e.wg.Go(func() { e.follow(b, status, nil) })
		cmd := exec.Command(os.Args[0], helperWord, "/bin/echo", "hi")
		cmd.ExtraFiles = b.files
		out, _ := cmd.CombinedOutput()
		for _, f := range b.files {
			_ = f.Close()
		}
		if err := b.wait(t.Context()); !errors.Is(err, ErrUnavailable) || len(out) > 0 {
			t.Errorf("%s, %v", out, err)
		}
	})
	t.Run("mounts without a namespace of its own", func(t *testing.T) {
		pl := &plan{Mechanism: mechanismNamespaces, Base: Read, Unshare: true}
		if err := e.try(t.Context(), pl, wayPlain); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("killed", func(t *testing.T) {
		b, status, err := newBirth(&plan{}, wayPlain)
		if err != nil {
			t.Fatal(err)
		}
		e.wg.Go(func() { e.follow(b, status, nil) })
		for _, f := range b.files {
			_ = f.Close() // as when the helper is gone, or was never started
		}
		if err := b.wait(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
	})
	t.Run("unknown role", func(t *testing.T) {
		out, err := exec.Command(os.Args[0], serveWord, "zz").CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte(`no role "zz"`)) {
			t.Errorf("%s, %v", out, err)
		}
	})
}

func TestWithoutAnyWay(t *testing.T) {
	e := enforcer(t, Config{force: "none"})
	dir := workspace(t)
	b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"))}
	wantUnavailable(t, b.refused("/bin/true"), "restricting files takes a mount namespace (namespaces are switched off) or Landlock")
	b.sandbox = policy(at("root", "write"))
	wantUnavailable(t, b.refused("/bin/true"), "seccomp is switched off")
	if _, err := e.Start(t.Context(), policy(at("root", "read"))); err == nil {
		t.Error("files are served without a sandbox")
	}
}
