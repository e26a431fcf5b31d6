package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A request that ends while this machine is being tried does not have the next one try it
// again, and hears why it has no answer.
func TestTriesAreOfTheEnforcer(t *testing.T) {
	e := enforcer(t, Config{})
	var q question
	var tries atomic.Int32
	begun, goOn := make(chan struct{}), make(chan struct{})
	try := func(ctx context.Context) *attempt {
		tries.Add(1)
		close(begun)
		<-goOn
		return &attempt{way: wayRoot, err: ctx.Err()}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the connection is gone")
	ended := make(chan *attempt, 1)
	go func() { ended <- e.tryOnce(ctx, &q, try) }() // ends with cancel
	<-begun
	cancel(gone)
	if got := <-ended; got.ok() || !errors.Is(got.err, gone) || got.reason != gone.Error() {
		t.Errorf("a request that ended got %+v", got)
	}
	close(goOn)
	for range 3 {
		if got := e.tryOnce(t.Context(), &q, try); got.way != wayRoot || got.err != nil {
			t.Errorf("a later request got %+v", got)
		}
	}
	if n := tries.Load(); n != 1 {
		t.Errorf("tried %d times", n)
	}
}

// An answer is kept, but one that says that there was no room is asked for again soon.
func TestPassingAnswersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := enforcer(t, Config{})
		for _, tt := range []struct {
			answer *attempt
			kept   bool
		}{
			{&attempt{way: wayUser}, true},
			{&attempt{reason: "switched off"}, true},
			{&attempt{err: unavailablef("make a user namespace: %w", unix.EPERM)}, true},
			{&attempt{err: &unavailable{"unshare: no space left on device", unix.ENOSPC}}, true},
			{&attempt{err: fmt.Errorf("exec: %w", unix.ENOENT)}, true},
			{&attempt{err: unavailablef("make a user namespace: %w", unix.EAGAIN)}, false},
			{&attempt{err: unavailablef("hear from the helper: %w", os.NewSyscallError("socketpair", unix.EMFILE))}, false},
			{&attempt{err: &unavailable{"watch the sandbox: cannot allocate memory", unix.ENOMEM}}, false},
			{&attempt{err: errUnconfined}, false},
			{&attempt{err: &exec.ExitError{}}, false},
		} {
			var q question
			tries := 0
			ask := func() *attempt {
				return e.tryOnce(t.Context(), &q, func(context.Context) *attempt {
					tries++
					if tries > 1 {
						return &attempt{way: wayRoot}
					}
					return tt.answer
				})
			}
			for range 3 {
				time.Sleep(passingTime / 4)
				if got := ask(); got != tt.answer {
					t.Errorf("%+v: got %+v", tt.answer, got)
				}
			}
			time.Sleep(passingTime)
			if got := ask(); (got == tt.answer) != tt.kept {
				t.Errorf("%+v: got %+v later", tt.answer, got)
			}
			time.Sleep(time.Hour)
			if got := ask(); (got == tt.answer) != tt.kept || tries > 2 {
				t.Errorf("%+v: got %+v after %d tries", tt.answer, got, tries)
			}
		}
	})
}

// A server that had no descriptors when it was first asked what this machine allows confines
// once it has some.
func TestFirstTryWithoutDescriptors(t *testing.T) {
	for _, w := range []string{"user", "root"} {
		if kernelNamespaces(w) != nil {
			continue
		}
		t.Run(w, func(t *testing.T) {
			e := enforcer(t, Config{force: w})
			var a *attempt
			withoutDescriptors(t, func() { a = e.namespaces(t.Context()) })
			if a.ok() || !errors.Is(a.err, unix.EMFILE) {
				t.Fatalf("got %+v", a)
			}
			last := e.ways.namespaces.last
			if last.expires.IsZero() {
				t.Fatal("the answer is kept for good")
			}
			last.expires = time.Now().Add(time.Hour)
			dir := workspace(t)
			b := &box{t: t, e: e, dir: dir, sandbox: policy(at("root", "read"), entry(dir, "write"))}
			wantUnavailable(t, b.refused("/bin/true"), "too many open files")
			last.expires = time.Now()
			b.want(ok("write f"), fails("write /etc/new", "EROFS"))
		})
	}
}

// Requests that end while this machine is being tried leave no mount in the mount namespace
// of this program.
func TestMountsAreOfTheHelper(t *testing.T) {
	mounts := func() int {
		t.Helper()
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte("\n"))
	}
	before := mounts()
	p, err := Resolve(policy(at("root", "read")), Context{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e := New(Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		if pl, masks, w, err := e.planFor(ctx, p); err == nil {
			pl.Role = roleNothing
			if h, err := e.start(t.Context(), pl, masks, w, nil); err == nil {
				_ = h.finish()
			}
		}
		cancel()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := mounts(); after != before {
		t.Errorf("%d mounts before, %d after: the rest is to be unmounted by hand", before, after)
	}
}

// pipes counts the descriptors of pipes that this process has.
func pipes(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

// A way that this machine refuses costs no descriptors, however often it is tried.
func TestRefusedWaysCostNothing(t *testing.T) {
	e := enforcer(t, Config{})
	pl := &plan{Mechanism: mechanismNamespaces, Base: Read}
	before := pipes(t)
	var err error
	for range 5 {
		err = e.try(t.Context(), pl, wayUser)
	}
	if after := pipes(t); after > before {
		t.Errorf("%d pipes more after five tries that ended with: %v", after-before, err)
	}
}

// refusalVariable tells TestRefusedStartsCostLittle that it may keep its process from making
// user namespaces.
const refusalVariable = "WSD_TEST_REFUSAL"

// Starts that the system refuses for the time being, as it does with too many processes,
// cost no more than two descriptors altogether.
func TestRefusedStartsCostLittle(t *testing.T) {
	if os.Getenv(refusalVariable) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRefusedStartsCostLittle$")
		cmd.Env = append(append(os.Environ(), refusalVariable+"=1"), quickExit...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
		return
	}
	e := enforcer(t, Config{force: "user"})
	needNamespaces(t, e, "user")
	b := &box{t: t, e: e, dir: "/", sandbox: policy(at("root", "read"))}
	b.want(ok("read /etc/passwd"))
	before := pipes(t)
	refuseUserNamespaces(t)
	for range 20 {
		confined, err := e.Confine(t.Context(), b.sandbox, nil, false, launchOf("/bin/true"))
		if err != nil {
			wantUnavailable(t, err, "make a user namespace: resource temporarily unavailable")
			continue
		}
		cmd := &exec.Cmd{Path: confined.Launch.Path, Args: confined.Launch.Argv, ExtraFiles: confined.Files, SysProcAttr: &syscall.SysProcAttr{}}
		confined.Attr(cmd.SysProcAttr)
		if err := cmd.Run(); !errors.Is(err, unix.EAGAIN) {
			t.Errorf("fork: %v", err)
		}
		for _, f := range confined.Files {
			_ = f.Close()
		}
		if _, err := confined.Started(); err == nil {
			t.Error("started")
		}
	}
	for range 20 {
		if _, err := e.Start(t.Context(), b.sandbox); err == nil {
			t.Error("a helper was started")
		}
	}
	if after := pipes(t); after > before+2 {
		t.Errorf("%d pipes before, %d after", before, after)
	}
}

// refuseUserNamespaces has the kernel refuse this process children in user namespaces.
func refuseUserNamespaces(t *testing.T) {
	t.Helper()
	program, err := bpf.Assemble(slices.Concat(
		[]bpf.Instruction{bpf.LoadAbsolute{Off: offNumber, Size: 4}},
		onCall(unix.SYS_CLONE,
			bpf.LoadAbsolute{Off: offArgLow, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLONE_NEWUSER, SkipTrue: 1},
			bpf.RetConstant{Val: retErrno | uint32(unix.EAGAIN)},
		),
		[]bpf.Instruction{bpf.RetConstant{Val: retAllow}},
	))
	if err != nil {
		t.Fatal(err)
	}
	filters := make([]unix.SockFilter, len(program))
	for i, r := range program {
		filters[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := noNewPrivileges(); err != nil {
		t.Fatal(err)
	}
	filter := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 || r != 0 {
		t.Fatalf("install a filter: %v, thread %d", errno, r)
	}
}

// A start that succeeds after all ends the doubt about the next.
func TestDoubtEnds(t *testing.T) {
	e := enforcer(t, Config{force: "user"})
	needNamespaces(t, e, "user")
	e.ways.doubt.Store(true)
	b := &box{t: t, e: e, dir: "/", sandbox: policy(at("root", "read"))}
	b.want(ok("read /etc/passwd"))
	if e.ways.doubt.Load() {
		t.Error("still in doubt")
	}
}
