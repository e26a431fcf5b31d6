package limit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestUnifiedDir(t *testing.T) {
	for _, tt := range []struct{ groups, mounts, want string }{
		{"0::/user.slice/a.scope\n", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"8:pids:/x\n0::/\n", "29 23 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"0::/docker/c/sub\n", "30 23 0:26 /docker/c /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/sub"},
		{"0::/\n", "30 23 0:26 /docker/c /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", ""},
		{"8:pids:/x\n", "29 23 0:25 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", ""},
		{"0::/\n", "", ""},
	} {
		got := ""
		if path, ok := unifiedPath(tt.groups); ok {
			got, _ = unifiedDir(tt.mounts, path)
		}
		if got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.groups, tt.mounts, got, tt.want)
		}
	}
}

// A home that a killed server left is removed by the next, and that of a server that
// runs is not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	self, err := statOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	mine, err := homeName(self)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := homePrefix + "999999999.5.1" // in another process namespace
	self.start++
	reused, _ := homeName(self)
	gone, _ := homeName(stat{pid: 999999999, start: 5})
	for _, name := range []string{mine, reused, gone, elsewhere, "other", homePrefix + "strange"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "1"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sweep(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"other", mine, elsewhere, homePrefix + "strange"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// The tree of a command has what left its session and its parent, and is killed whole.
// It has nobody else.
func TestTree(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "sleep 600 & setsid sh -c 'sleep 600 & sleep 600 & echo $$; wait' & wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it was killed
	far, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()         //nolint:errcheck // it was killed
	defer other.Process.Kill() //nolint:errcheck // ends the test
	tree := new(tree)
	if err := tree.began(cmd.Process.Pid, nil); err != nil {
		t.Fatal(err)
	}
	if u, empty := tree.measure(); empty || u.processes != 5 {
		t.Errorf("%+v, empty %v, want 5 processes", u, empty)
	}
	if _, in := tree.known[os.Getpid()]; !in || tree.known[os.Getpid()].member || tree.known[other.Process.Pid].member {
		t.Error("a stranger is a member")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(far))
	if err != nil || !tree.known[pid].member {
		t.Errorf("%d, which left the session, is no member: %v", pid, err)
	}
	tree.kill()
	for empty := false; !empty && t.Context().Err() == nil; {
		_, empty = tree.measure()
	}
	if _, err := statOf(pid); err == nil {
		t.Error("what left the session lives")
	}
	if _, err := statOf(other.Process.Pid); err != nil {
		t.Error("a stranger was killed")
	}
}

// Any number is a limit: the kernel gets one that it takes.
func TestKernelLimits(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"memory.oom.group", "memory.max", "pids.max"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := &cgroup{home: &home{memory: true, pids: true}, dir: dir, limits: Limits{Memory: 1, Processes: 1<<64 - 1}}
	if err := c.began(1, nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.oom.group": "1", "memory.max": "1", "pids.max": "4194304"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}

// A tree is killed without this program, should one of its processes be in the same
// process group.
func TestKillSparesThisProgram(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s, err := statOf(cmd.Process.Pid)
	if err != nil || s.group != syscall.Getpgrp() {
		t.Fatalf("%+v, %v", s, err)
	}
	tree := &tree{sessions: map[int]bool{}, known: map[int]candidate{s.pid: {s, true}}}
	tree.kill()
	if err := cmd.Wait(); err == nil || !cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Errorf("it was not killed: %v", err)
	}
}

// A command is not taken for one that has ended when it cannot be looked at.
func TestNothingCanBeRead(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()         //nolint:errcheck // it was killed
	defer cmd.Process.Kill() //nolint:errcheck // ends the test
	dir := t.TempDir()
	tree := new(tree)
	if err := tree.began(cmd.Process.Pid, nil); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]members{"tree": tree, "cgroup": &cgroup{home: new(home), dir: dir}} {
		withoutDescriptors(t, func() {
			if _, empty := m.measure(); empty {
				t.Errorf("%s: it is empty", name)
			}
		})
	}
	if _, empty := tree.measure(); empty {
		t.Error("it is empty afterwards")
	}
	if _, empty := (&cgroup{home: new(home), dir: filepath.Join(dir, "none")}).measure(); !empty {
		t.Error("a cgroup that is gone is not empty")
	}
}

// A process that is hidden, as those of other users with the option hidepid of /proc,
// keeps nobody from finding the others.
func TestHiddenProcesses(t *testing.T) {
	for _, tt := range []struct {
		errno     syscall.Errno
		exhausted bool
	}{{syscall.EPERM, false}, {syscall.EACCES, false}, {syscall.ENOENT, false}, {syscall.ESRCH, false}, {syscall.EMFILE, true}, {syscall.ENFILE, true}, {syscall.ENOMEM, true}} {
		if got := exhausted(&os.PathError{Op: "open", Path: "/proc/1/stat", Err: tt.errno}); got != tt.exhausted {
			t.Errorf("%v: %v", tt.errno, got)
		}
	}
}

// withoutDescriptors runs fn while this program can open nothing.
func withoutDescriptors(t *testing.T, fn func()) {
	t.Helper()
	var before syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: before.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	fn()
}

// A limit is never more than what this program is held to itself, and the kernel tells
// of the limit of processor time before it kills.
func TestResourceSet(t *testing.T) {
	if text := os.Getenv("WSD_TEST_SET"); text != "" { // the program below
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range []int{syscall.RLIMIT_FSIZE, syscall.RLIMIT_CPU} {
			var got syscall.Rlimit
			if err := errors.Join(Resource{number, n}.Set(), syscall.Getrlimit(number, &got)); err != nil {
				t.Fatal(err)
			}
			fmt.Println("got", got.Cur, got.Max)
		}
		return
	}
	for _, tt := range []struct {
		wanted string
		want   string
	}{
		{"3000", "got 3000 3000\ngot 3000 3001\n"},
		{strconv.FormatUint(1<<63, 10), "got 10240 10240\ngot 4000 5000\n"},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `ulimit -f 20; ulimit -t 5000; ulimit -S -t 4000; exec "$0" -test.run='^TestResourceSet$'`, os.Args[0])
		cmd.Env = append(os.Environ(), "WSD_TEST_SET="+tt.wanted)
		out, err := cmd.Output()
		if text, _, _ := strings.Cut(string(out), "PASS"); err != nil || text != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.wanted, out, err, tt.want)
		}
	}
}

// Memory that processes have in common counts once, also while its address space grows.
func TestMemoryOf(t *testing.T) {
	self := os.Getpid()
	held := bytes.Repeat([]byte{1}, 32<<20) // what else changes is little beside it
	defer runtime.KeepAlive(held)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for range 1 << 14 {
			select {
			case <-stop:
				return
			default:
			}
			m, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
			if err != nil {
				t.Error(err)
				return
			}
			defer syscall.Munmap(m)
		}
	}()
	defer func() { close(stop); <-ended }()
	one := memoryOf([]int{self}, 0)
	if one < 1<<20 || one > 4<<30 {
		t.Errorf("this process has %d bytes", one)
	}
	const gone = 999999999
	for _, pids := range [][]int{{self, self}, {self, gone, self}, {gone, self, gone, self, gone, self}} {
		if n := memoryOf(slices.Clone(pids), one*5/4); n > one*3/2 {
			t.Errorf("once %d bytes, that of %v %d", one, pids, n)
		}
	}
	if n := memoryOf([]int{gone}, 0); n != 0 {
		t.Errorf("a process that is gone has %d bytes", n)
	}
}

// Processes are found again among others, some of which have ended since.
func TestByMemory(t *testing.T) {
	var l byMemory
	ends := make([]func(), 20)
	var pids []int
	for i := range ends {
		cmd := exec.CommandContext(t.Context(), "cat")
		stdin, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = sync.OnceFunc(func() {
			_ = stdin.Close()
			_ = cmd.Wait()
		})
		defer ends[i]()
		pids = append(pids, cmd.Process.Pid)
		if !l.add(cmd.Process.Pid) {
			t.Error("one is taken for another")
		}
	}
	for i := 0; i < len(ends); i += 3 {
		ends[i]()
	}
	for i, pid := range pids {
		if l.add(pid) != (i%3 == 0) {
			t.Errorf("process %d of them is new: %v", i, i%3 != 0)
		}
	}
}
