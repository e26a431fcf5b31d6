package process_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

func init() {
	helpers["signals"] = printChildSignals
	helpers["parent"] = startAndWait
	helpers["reap"] = reapOrphans
	helpers["unprivileged"] = startInClosedDirectory
}

// spawn runs argv with a HostSpawner and returns its output and how it ended.
func spawn(cmd process.Command) (string, process.WaitStatus, error) {
	var spawner process.HostSpawner
	defer spawner.Close()
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	child, err := spawner.Start(cmd)
	if err != nil {
		return "", process.WaitStatus{}, err
	}
	defer child.Process.Close()
	var out strings.Builder
	for {
		chunk, err := child.Outputs[0].Read()
		if chunk.Stream != protocol.StreamStderr {
			out.Write(chunk.Data)
		}
		if err != nil {
			break
		}
	}
	for _, o := range child.Outputs {
		o.Close()
	}
	return out.String(), child.Process.Wait(), nil
}

func sh(script string) process.Command {
	return process.Command{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + searchPath}}
}

// printChildSignals prints the blocked and ignored signals of children, which this
// helper was started with some of.
func printChildSignals() error {
	for _, terminal := range []*process.Size{nil, {Rows: 24, Cols: 80}} {
		cmd := process.Command{Path: "/bin/grep", Argv: []string{"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"}, Terminal: terminal}
		out, _, err := spawn(cmd)
		if err != nil {
			return err
		}
		fmt.Print(out)
	}
	if signal.Ignored(syscall.SIGINT) {
		return errors.New("the server still ignores SIGINT by the system's means")
	}
	// But what it was told to ignore does not end it.
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			return err
		}
	}
	fmt.Println("alive")
	return nil
}

// TestChildSignals: the server was started with ignored and blocked signals, its
// children have none.
func TestChildSignals(t *testing.T) {
	t.Parallel()
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	out := runHelper(t, helper(t, "signals", env, "--block-signal=USR1,TERM", "--ignore-signal=INT,HUP,TSTP,PIPE,RTMAX"))
	if !strings.HasSuffix(out, "alive\n") {
		t.Errorf("the helper printed %q", out)
	}
	lines := strings.FieldsFunc(strings.TrimSuffix(out, "alive\n"), func(r rune) bool { return r == '\r' || r == '\n' })
	if len(lines) != 4 {
		t.Fatalf("the helper printed %q", out)
	}
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) != 2 || strings.Trim(fields[1], "0") != "" {
			t.Errorf("a child has %s", line)
		}
	}
}

// TestChildHasOnlyItsDescriptors and leads a session and a group.
func TestChildHasOnlyItsDescriptors(t *testing.T) {
	// A descriptor that somebody has left open for this program. It is sealed when the
	// first of the services that share the forker starts a child.
	forgotten, err := unix.FcntlInt(0, unix.F_DUPFD, 200)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(forgotten)
	c := connect(t)
	for range 5 { // others, whose pipes must not leak
		c.start(pipeStdin(c.params(fmt.Sprint("other", len(c.list(nil))), "sleep", "100")))
	}
	for _, p := range []*protocol.StartParams{
		c.sh("null", "ls /proc/$$/fd"), pipeStdin(c.sh("pipe", "ls /proc/$$/fd")), tty(c.sh("tty", "ls /proc/$$/fd")),
	} {
		r := c.run(p)
		if got := strings.Fields(string(r.out)); strings.Join(got, " ") != "0 1 2" {
			t.Errorf("%s: descriptors %v", p.ProcessID, got)
		}
	}
	for _, p := range []*protocol.StartParams{c.sh("ids", "cat /proc/$$/stat"), tty(c.sh("ids-tty", "cat /proc/$$/stat"))} {
		stat := strings.Fields(string(c.run(p).out)) // pid (sh) state parent group session
		if stat[0] != stat[4] || stat[0] != stat[5] {
			t.Errorf("%s: pid %s, group %s, session %s", p.ProcessID, stat[0], stat[4], stat[5])
		}
	}
}

// TestExtraFiles become descriptors 3 and up.
func TestExtraFiles(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := sh("echo hi >&3; ls /proc/$$/fd")
	cmd.Files = []*os.File{w}
	out, status, err := spawn(cmd)
	w.Close()
	if err != nil || status.Code != 0 || strings.Join(strings.Fields(out), " ") != "0 1 2 3" {
		t.Errorf("%q, %+v, %v", out, status, err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "hi\n" {
		t.Errorf("descriptor 3 got %q, %v", got, err)
	}
}

// startAndWait starts two children, prints their pids and waits to be killed.
func startAndWait() error {
	var spawner process.HostSpawner
	for _, terminal := range []*process.Size{nil, {Rows: 24, Cols: 80}} {
		child, err := spawner.Start(process.Command{Path: "/bin/sleep", Argv: []string{"sleep", "300"}, Dir: "/", Terminal: terminal})
		if err != nil {
			return err
		}
		fmt.Println(child.PID)
	}
	select {}
}

// TestChildrenEndWithTheServer, however that ends.
func TestChildrenEndWithTheServer(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); len(pids) < 2 && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 2 {
		t.Fatal("the helper did not start its children")
	}
	for _, pid := range pids {
		if unix.Kill(pid, 0) != nil {
			t.Errorf("child %d does not run", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, pid := range pids {
		eventually(t, "end of the children", func() bool { return unix.Kill(pid, 0) == unix.ESRCH || isZombie(pid) })
	}
}

// reapOrphans runs Reap beside a service and checks that orphans are collected and
// no status of a child is lost.
func reapOrphans() error {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become a subreaper: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- process.Reap(ctx, nil) }()
	defer func() { cancel(); <-done }()

	var spawner process.HostSpawner
	defer spawner.Close()
	const count = 200
	ends := make(chan error, count)
	for i := range count {
		// Leaves an orphan, which leaves another in a session of its own.
		cmd := sh(fmt.Sprintf("(sleep 0.05; setsid sh -c 'sleep 0.05' &) & exit %d", i%256))
		child, err := spawner.Start(cmd)
		if err != nil {
			return err
		}
		go func() {
			status := child.Process.Wait()
			if status.Lost || status.Code != i%256 {
				ends <- fmt.Errorf("child %d ended with %+v", i, status)
				return
			}
			ends <- nil
		}()
	}
	for range count {
		if err := <-ends; err != nil {
			return err
		}
	}
	// A child of package os/exec that nobody has waited for yet keeps its status, and
	// so does one in a session of its own that is waited for.
	other := exec.Command("/bin/sh", "-c", "exit 7")
	if err := other.Start(); err != nil {
		return err
	}
	for range 100 {
		leader := exec.Command("/bin/sh", "-c", "exit 8")
		leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		var exit *exec.ExitError
		if err := leader.Run(); !errors.As(err, &exit) || exit.ExitCode() != 8 {
			return fmt.Errorf("the status of a session leader: %w", err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		left := 0
		for _, pid := range childrenOf(os.Getpid()) {
			if pid != other.Process.Pid {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d orphans are left", left)
		}
	}
	var exit *exec.ExitError
	if err := other.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		return fmt.Errorf("the status of another child: %w", err)
	}
	select {
	case err := <-done:
		return fmt.Errorf("Reap returned early: %w", err)
	default:
	}
	fmt.Println("clean", os.Getpid())
	return nil
}

// childrenOf lists the children of a process, zombies included.
func childrenOf(parent int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		pid, numErr := strconv.Atoi(entry.Name())
		if err != nil || numErr != nil {
			continue
		}
		fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
		if fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestReapAsSubreaper(t *testing.T) {
	t.Parallel()
	if out := runHelper(t, helper(t, "reap")); !strings.HasPrefix(out, "clean") {
		t.Errorf("the helper printed %q", out)
	}
}

// TestReapAsPID1 is the same as the first process of a PID namespace. Where those are
// not to be had, TestReapAsSubreaper stands for it.
func TestReapAsPID1(t *testing.T) {
	t.Parallel()
	wrap := []string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"}
	if os.Geteuid() == 0 {
		wrap = []string{"unshare", "--pid", "--fork", "--mount-proc"}
	}
	if err := exec.CommandContext(t.Context(), wrap[0], append(wrap[1:], "true")...).Run(); err != nil {
		t.Skipf("no PID namespaces here (%v); TestReapAsSubreaper runs the same", err)
	}
	if out := runHelper(t, helper(t, "reap", wrap...)); out != "clean 1\n" {
		t.Errorf("the helper printed %q", out)
	}
}

func TestReapElsewhere(t *testing.T) {
	if err := process.Reap(t.Context(), nil); err != nil { // returns: nothing is inherited here
		t.Error(err)
	}
}

// startInClosedDirectory is what C-013 needs an ordinary user for.
func startInClosedDirectory() error {
	dir, err := os.MkdirTemp("", "closed")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := os.Chmod(dir, 0); err != nil {
		return err
	}
	service := process.NewService(newCounter(), process.Config{})
	defer service.Close()
	_, err = process.StartOn(service, &protocol.StartParams{
		ProcessID: "p1", Argv: []string{"sh"}, Cwd: "file://" + dir, Env: map[string]string{"PATH": searchPath},
	})
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok || !strings.Contains(failure.Message, dir) {
		return fmt.Errorf("got %w, want an error that names %s", err, dir)
	}
	fmt.Println(failure.Code, failure.Data.(protocol.SpawnErrorData).Kind)
	return nil
}

// TestC013DirectoryWithoutPermission is the part of the case for ordinary users.
func TestC013DirectoryWithoutPermission(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "unprivileged")
	if os.Geteuid() == 0 {
		cmd.Path = "/proc/self/exe" // the binary may lie in a directory of root's
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
		cmd.Env = append(cmd.Env, "TMPDIR=/tmp")
	}
	if out := runHelper(t, cmd); out != "-32603 spawnPermissionDenied\n" {
		t.Errorf("the helper printed %q", out)
	}
}

// TestSignalAfterTheLeader: the group of a child that is gone still gets signals.
func TestSignalAfterTheLeader(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(*process.Child){"pidfd": nil, "number": process.DropPidfd} {
		t.Run(name, func(t *testing.T) {
			var spawner process.HostSpawner
			defer spawner.Close()
			child, err := spawner.Start(sh("sleep 100 & echo $!"))
			if err != nil {
				t.Fatal(err)
			}
			defer child.Process.Close()
			if prepare != nil {
				prepare(child)
			}
			line, err := child.Outputs[0].Read()
			if err != nil {
				t.Fatal(err)
			}
			if status := child.Process.Wait(); status != (process.WaitStatus{}) {
				t.Errorf("it ended with %+v", status)
			}
			if err := child.Process.Signal(syscall.SIGKILL, false); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal to the child: %v", err)
			}
			if err := child.Process.Signal(syscall.SIGKILL, true); err != nil {
				t.Errorf("signal to the group: %v", err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(line.Data)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := child.Outputs[0].Read(); err != io.EOF {
				t.Errorf("the descendant lives: %v", err)
			}
			eventually(t, "end of the descendant", func() bool { return unix.Kill(pid, 0) == unix.ESRCH || isZombie(pid) })
			eventually(t, "end of the group", func() bool {
				return errors.Is(child.Process.Signal(syscall.SIGKILL, true), os.ErrProcessDone)
			})
		})
	}
}

// TestWaitWithoutPidfd is what old kernels get.
func TestWaitWithoutPidfd(t *testing.T) {
	var spawner process.HostSpawner
	defer spawner.Close()
	child, err := spawner.Start(sh("kill -TERM $$"))
	if err != nil {
		t.Fatal(err)
	}
	process.DropPidfd(child)
	if status := child.Process.Wait(); status.Signal != syscall.SIGTERM {
		t.Errorf("it ended with %+v", status)
	}
	for _, out := range child.Outputs {
		out.Close()
	}
	if err := child.Process.Close(); err != nil {
		t.Error(err)
	}
}

func TestSpawnErrors(t *testing.T) {
	var spawner process.HostSpawner
	defer spawner.Close()
	for _, terminal := range []*process.Size{nil, {Rows: 1, Cols: 1}} {
		for path, want := range map[string]syscall.Errno{"/no/such/program": syscall.ENOENT, "/": syscall.EACCES} {
			before := openFiles(t)
			_, err := spawner.Start(process.Command{Path: path, Argv: []string{"x"}, Dir: "/", Terminal: terminal, PipeStdin: true})
			var failure *process.SpawnError
			if !errors.As(err, &failure) || !errors.Is(err, want) {
				t.Errorf("%s: %v", path, err)
			}
			if after := openFiles(t); after > before {
				t.Errorf("%s: %d descriptors, %d before", path, after, before)
			}
		}
	}
	if left := childrenOf(os.Getpid()); len(left) != 0 {
		t.Errorf("children are left: %v", left)
	}
}

// TestDescriptorsRunOut: a start without descriptors fails as a start, and harms no
// other.
func TestDescriptorsRunOut(t *testing.T) {
	c := connect(t)
	c.start(pipeStdin(c.params("cat", "cat")))
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	free, err := unix.Dup(0) // the lowest number
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free) + 3, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*protocol.StartParams{c.params("p1", "true"), tty(c.params("p1", "true"))} {
		_, err := c.tryStart(p)
		if failure := wantError(t, err, protocol.CodeInternal, protocol.KindSpawnFailed); !strings.Contains(failure.Message, "open files") {
			t.Errorf("message is %q", failure.Message)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	c.write("cat", "still here\n")
	c.awaitOutput("cat", "still here\n")
	c.run(c.params("p1", "true")).want(t, "", 0)
}

// openFiles counts the descriptors of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries) - 1 // the directory itself
}
