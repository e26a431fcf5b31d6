package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// ask sends a line to a helper that serves the role of the tests, and returns its answer.
func ask(t *testing.T, c rpc.Connection, line string) string {
	t.Helper()
	if err := c.Write(t.Context(), []byte(line)); err != nil {
		t.Fatal(err)
	}
	answer, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// children lists the processes that this one has started and that still run.
func children(t *testing.T) []string {
	t.Helper()
	var pids []string
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

func TestFileHelper(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "f", "secret/k", ".git/c", "w/")
		s := inRoot(policy(at("root", "read"), at("project_roots", "write"), entry(dir+"/secret", "deny")), dir)
		c, err := e.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for line, want := range map[string]string{
			"read " + dir + "/f": "ok", "write " + dir + "/f": "ok", "write " + dir + "/.git/c": "EROFS", "write /etc/new": "EROFS",
			"list " + dir + "/secret": "EACCES", "mkdir " + dir + "/.codex": "EEXIST", "remount": "EPERM", "socket 2": "EPERM",
		} {
			if got := ask(t, c, line); got != want {
				t.Errorf("%s: %s, want %s", line, got, want)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		e.wg.Wait() // for the end of the helper and of its sandbox
		if left := children(t); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		if exists(dir + "/.codex") {
			t.Error("a mask is left behind")
		}
	})
}

func TestFileHelperOfARestrictedList(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		fill(t, dir, "f", "w/")
		c, err := e.Start(t.Context(), policy(at("minimal", "read"), entry(dir+"/w", "write")))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close() //nolint:errcheck // test
		for line, want := range map[string]string{
			"read " + dir + "/f": "ENOENT", "write " + dir + "/w/x": "ok", "write " + dir + "/x": "EROFS", "list /home": "ENOENT",
		} {
			if got := ask(t, c, line); got != want {
				t.Errorf("%s: %s, want %s", line, got, want)
			}
		}
	})
}

func TestFileHelperUnderLandlock(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "f")
	c, err := landlockOnly(t).Start(t.Context(), policy(at("minimal", "read"), entry(dir, "read")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // test
	for line, want := range map[string]string{"read " + dir + "/f": "ok", "write " + dir + "/f": "EACCES", "list /": "EACCES"} {
		if got := ask(t, c, line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// Two at a time on one workspace do not get in each other's way.
func TestFileHelpersShareMasks(t *testing.T) {
	e := enforcer(t, Config{})
	dir := workspace(t)
	s := policy(at("root", "read"), entry(dir, "write"))
	first, err := e.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	second, err := e.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	for range 20 { // while the first one's end is under way, and after it
		if got := ask(t, second, "mkdir "+dir+"/.git"); got != "EEXIST" {
			t.Fatalf("mkdir: %s", got)
		}
	}
	_ = second.Close()
	e.wg.Wait()
	if exists(dir + "/.git") {
		t.Error("a mask is left behind")
	}
}

// A helper that does not end when its input does is killed, and is gone then, not before.
func TestFileHelperThatHangs(t *testing.T) {
	e := enforcer(t, Config{Role: "hang"})
	c, err := e.Start(t.Context(), policy(at("root", "read")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(t.Context()); err != nil { // it says that it hangs
		t.Fatal(err)
	}
	gone := c.(interface{ Gone() <-chan struct{} }).Gone()
	select {
	case <-gone:
		t.Error("it is gone while it has its input")
	default:
	}
	_ = c.Close()
	<-gone
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left when it is gone", left)
	}
	e.wg.Wait()
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// Closing the Enforcer ends its helpers.
func TestCloseEndsFileHelpers(t *testing.T) {
	e := New(Config{})
	c, err := e.Start(t.Context(), policy(at("root", "read")))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // test
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(t.Context()); err == nil {
		t.Error("still connected")
	}
}

// When the server is killed its helpers end too.
func TestFileHelperEndsWithTheServer(t *testing.T) {
	server := exec.Command(os.Args[0], toolWord, "serve hang")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := out.Read(buf) // the pid of its helper
	if err != nil {
		t.Fatal(err)
	}
	pid := 0
	for _, c := range strings.TrimSpace(string(buf[:n])) {
		pid = pid*10 + int(c-'0')
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd) //nolint:errcheck // test
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = server.Wait()
	ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
	if err != nil || ready != 1 {
		t.Errorf("the helper lives on: %v", err)
	}
}

func TestStartIsCutShort(t *testing.T) {
	e := enforcer(t, Config{})
	e.namespaces(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := e.Start(ctx, policy(at("root", "read")))
	if err == nil {
		_ = c.Close() // it was quicker
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	e.wg.Wait()
	if left := children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestDirect(t *testing.T) {
	e := enforcer(t, Config{})
	unconfined := policy()
	unconfined.Permissions.FileSystem.Type = protocol.FileSystemUnrestricted
	for _, tt := range []struct {
		name string
		s    *protocol.Sandbox
		want bool
	}{
		{"none", nil, true},
		{"disabled", decode(t, `{"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}`), true},
		{"external", decode(t, `{"permissions":{"type":"external","network":"restricted"},"windowsSandboxLevel":"disabled"}`), true},
		{"unrestricted", unconfined, true},
		{"root write", policy(at("root", "write")), false},
		{"read-only", policy(at("root", "read")), false},
		{"workspace", policy(at("root", "read"), entry("/w", "write")), false},
		{"denied", policy(at("root", "read"), entry("/w", "deny")), false},
		{"denied glob", policy(at("root", "write"), denyGlob("/w/*")), false},
		{"restricted list", policy(entry("/w", "read")), false},
	} {
		got, err := e.Direct(tt.s)
		if err != nil {
			t.Error(err)
		}
		if got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if _, err := e.Direct(policy(at("project_roots", "write"))); !errors.Is(err, errNeedsCwd) {
		t.Error(err)
	}
}

func TestProbe(t *testing.T) {
	e := enforcer(t, Config{})
	r := e.report(t.Context())
	if r.System != "linux" || r.Kernel == "" {
		t.Errorf("system %q, kernel %q", r.System, r.Kernel)
	}
	if can := e.namespaces(t.Context()).ok(); can != r.WorkspaceWrite.OK || can && !r.OK() {
		t.Errorf("namespaces %v, report %+v", can, r)
	}
	weak := enforcer(t, Config{force: "landlock"}).report(t.Context())
	if weak.OK() || weak.WorkspaceWrite.OK || !strings.Contains(weak.WorkspaceWrite.Says, "takes a mount namespace") || weak.ReadOnly.OK != r.Landlock.OK {
		t.Errorf("with Landlock alone: %+v", weak)
	}
	nothing := enforcer(t, Config{force: "none"}).report(t.Context())
	for _, f := range []Finding{nothing.ReadOnly, nothing.WorkspaceWrite, nothing.RestrictedRead, nothing.DenyEntries, nothing.NoNetwork} {
		if f.OK || f.Says == "" {
			t.Errorf("with nothing: %+v", f)
		}
	}
}

// A probe that finds its sandbox open says so.
func TestProbeNotices(t *testing.T) {
	dir := workspace(t)
	for _, try := range []trial{
		{"write", dir + "/x", []unix.Errno{unix.EROFS}},
		{"read", dir + "/missing", nil},
		{"socket", "", []unix.Errno{unix.EPERM}},
		{"mkdir", "/", []unix.Errno{unix.EROFS}},
	} {
		if err := try.run(); err == nil {
			t.Errorf("%+v is fine", try)
		}
	}
}
