package sandbox

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// follows begins a birth with a mask, and returns it with the helper's end of its status socket.
func follows(t *testing.T, e *Enforcer, pl *plan, masks ...*mask) (b *birth, helper *os.File) {
	t.Helper()
	b, status, err := newBirth(pl, wayUser)
	if err != nil {
		t.Fatal(err)
	}
	e.wg.Go(func() { e.follow(b, status, masks) }) // ends with the birth, or with Close
	_ = b.files[0].Close()
	return b, b.files[1]
}

// say sends a message of a helper, with descriptors, unless the server hears no more.
func say(t *testing.T, helper *os.File, what byte, fds ...int) {
	t.Helper()
	if err := unix.Sendmsg(int(helper.Fd()), []byte{what}, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL); err != nil && !errors.Is(err, unix.EPIPE) {
		t.Fatal(err)
	}
}

// becomes says that a helper is ready and has executed its program.
func becomes(t *testing.T, helper *os.File) {
	t.Helper()
	say(t, helper, statusReady)
	if err := unix.Shutdown(int(helper.Fd()), unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
}

// heard returns the messages from the server until it closes the socket.
func heard(t *testing.T, helper *os.File) string {
	t.Helper()
	text, err := io.ReadAll(helper)
	if err != nil && !errors.Is(err, unix.ECONNRESET) { // it has not read all
		t.Fatal(err)
	}
	return string(text)
}

// A helper whose descriptors did not arrive is not let go on, and its start fails.
func TestHelperWithoutItsDescriptors(t *testing.T) {
	watched, limited := plan{Mechanism: mechanismNamespaces, Watch: true}, plan{Mechanism: mechanismNamespaces, Limited: true}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close() //nolint:errcheck // only read
	fd := int(null.Fd())
	for name, tt := range map[string]struct {
		plan plan
		say  func(t *testing.T, helper *os.File)
	}{
		"no watch":               {watched, func(t *testing.T, h *os.File) { say(t, h, statusWatch) }},
		"no namespace":           {limited, func(t *testing.T, h *os.File) { say(t, h, statusApart) }},
		"watch not sent":         {watched, func(*testing.T, *os.File) {}},
		"namespace not sent":     {limited, func(*testing.T, *os.File) {}},
		"too many":               {limited, func(t *testing.T, h *os.File) { say(t, h, statusApart, fd, fd, fd, fd) }},
		"what is not waited for": {watched, func(t *testing.T, h *os.File) { say(t, h, statusWatch, fd) }},
	} {
		t.Run(name, func(t *testing.T) {
			at := workspace(t) + "/.git"
			e := enforcer(t, Config{})
			b, helper := follows(t, e, &tt.plan, mustHold(t, at))
			tt.say(t, helper)
			becomes(t, helper)
			if got := heard(t, helper); got != "" {
				t.Errorf("the helper was told %q", got)
			}
			_ = helper.Close()
			if err := b.wait(t.Context()); !errors.Is(err, ErrUnavailable) {
				t.Errorf("started: %v", err)
			}
			<-b.over
			if exists(at) {
				t.Error("the mask is left behind")
			}
		})
	}
}

// A server that can have no more descriptors does not run a program whose end it would
// not learn of: it would take away the masks of a sandbox that lives.
func TestNoDescriptorForTheWatch(t *testing.T) {
	onEveryWay(t, func(t *testing.T, e *Enforcer) {
		dir := workspace(t)
		p, err := e.resolve(policy(at("root", "read"), entry(dir, "write")), Context{Cwd: dir})
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.prepare(t.Context(), p, func(pl *plan) { pl.Path, pl.Dir = []byte("/bin/sh"), []byte(dir) })
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(b.files[0])
		if err != nil {
			t.Fatal(err)
		}
		planRead, planWrite, err := os.Pipe() // the helper waits for its plan
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], helperWord, "-c", "echo ran; until mkdir -p .git/hooks; do sleep 0.01; done 2>/dev/null")
		var out strings.Builder
		cmd.Stdout = &out
		cmd.ExtraFiles = []*os.File{planRead, b.files[1]}
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		if b.attr != nil {
			b.attr(cmd.SysProcAttr)
		}
		err = cmd.Start()
		for _, f := range append(b.files, planRead) {
			_ = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		withoutDescriptors(t, func() {
			_, err = planWrite.Write(text)
			err = errors.Join(err, planWrite.Close())
			<-b.done
		})
		if err != nil {
			t.Error(err)
		}
		if err := b.wait(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("the program was started: %v", err)
		}
		_ = cmd.Wait()
		<-b.over
		if out.Len() > 0 {
			t.Errorf("the program ran: %q", out.String())
		}
		if exists(dir + "/.git") {
			t.Error("the mask is left behind")
		}
	})
}

// withoutDescriptors runs do while this process can have no more descriptors.
func withoutDescriptors(t *testing.T, do func()) {
	t.Helper()
	var before unix.Rlimit
	// Without the syscall package, which would keep the new limit for all children.
	set := func(limit, old *unix.Rlimit) error {
		if _, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(old)), 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
	if err := set(nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := set(&unix.Rlimit{Cur: 0, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := set(&before, nil); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// A server that ends before a sandbox leaves its masks where they are.
func TestMasksStayWithTheSandbox(t *testing.T) {
	at := workspace(t) + "/.git"
	e := New(Config{})
	e.grace = time.Millisecond
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch) //nolint:errcheck // test
	b, helper := follows(t, e, &plan{Mechanism: mechanismNamespaces, Watch: true}, mustHold(t, at))
	say(t, helper, statusWatch, watch)
	becomes(t, helper)
	if err := b.wait(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if got := heard(t, helper); got != string(orderGo) {
		t.Errorf("the helper was told %q", got)
	}
	_ = helper.Close()
	if !exists(at) {
		t.Error("the mask is gone before its sandbox")
	}
	mustHold(t, at).release() // as the next server does
}
