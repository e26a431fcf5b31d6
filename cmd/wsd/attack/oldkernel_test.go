//go:build attack && linux

package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/protocol"
)

// oldKernelWord has this binary become a program on a kernel that has no Landlock.
const oldKernelWord = "attack-old-kernel"

func init() {
	if len(os.Args) > 2 && os.Args[1] == oldKernelWord {
		fmt.Fprintln(os.Stderr, withoutLandlock(os.Args[2:]))
		os.Exit(1)
	}
}

// withoutLandlock executes argv, for which there are no system calls of Landlock. It
// returns when it fails.
func withoutLandlock(argv []string) error {
	runtime.LockOSThread() // which the filter is for
	number := func(n uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: n}
	}
	const errno = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		number(unix.SYS_LANDLOCK_CREATE_RULESET), number(unix.SYS_LANDLOCK_ADD_RULE), number(unix.SYS_LANDLOCK_RESTRICT_SELF),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: errno},
	}
	for i := 1; i <= 3; i++ {
		code[i].Jt = uint8(len(code) - 2 - i)
	}
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec(argv[0], argv, os.Environ())
}

// Without Landlock, as before Linux 6.12 without its version 6, commands can signal other
// processes of their user: that is the case, wsd doctor says it, and docs/security.md
// does. All else holds, or is refused.
func TestSL13WithoutLandlock(t *testing.T) {
	text, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, open, _ := strings.Cut(string(text), "## What a sandbox promises")
	_, open, _ = strings.Cut(open, "Not promised:")
	open, _, _ = strings.Cut(open, "\n## ")
	for _, want := range []string{"signals before Linux 6.12", "Ubuntu 24.04", "`wsd doctor`", "/dev/shm", "fork bomb"} {
		if !strings.Contains(open, want) {
			t.Errorf("docs/security.md does not say that it does not promise %q", want)
		}
	}
	each(t, func(w *world) {
		old := filepath.Join(w.home, "old-kernel")
		w.write(old, fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s' \"$@\"\n", tool, oldKernelWord, program), 0o755)
		doctor := func(path string) string {
			cmd := w.command("doctor", "--json")
			cmd.Path = path
			out, _ := cmd.Output() // its status says whether all is there
			return strings.Join(strings.Fields(string(out)), "")
		}
		if out := doctor(old); !strings.Contains(out, `"signals":{"ok":false,`) || !strings.Contains(out, `"landlockAbi":0`) {
			w.Errorf("wsd doctor without Landlock: %s", out)
		}
		s := &server{w: w, log: new(strings.Builder)}
		s.Server, err = target.Start(w.Context(), target.Config{
			Kind: target.Wsd, Path: old, Dir: w.dir, Home: w.home, Log: s.log, Attributes: credential(w.uid),
		})
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = s.Stop() })
		c, kept := s.dial(nil), secret()
		w.write(w.sub(".env"), kept, 0o600)
		for _, box := range []*protocol.Sandbox{w.ro(), w.ww(w.dir, glob(w.sub("**/.env")))} {
			for _, pid := range []int{s.PID, w.victim()} {
				p := fmt.Sprintf("/proc/%d/", pid)
				s.tries(c, box,
					try{fmt.Sprint("kill ", pid), "ok"}, // as documented
					try{fmt.Sprint("prlimit ", pid), "EPERM"}, try{fmt.Sprint("setpriority 0 ", pid), "EPERM"},
					try{"read " + p + "mem", "EACCES|EPERM"}, try{"rdwr " + p + "mem", "EACCES|EPERM|EROFS"}, try{"read " + p + "environ", "EACCES|EPERM"},
					try{"readlink " + p + "fd/0", "EACCES|EPERM"}, try{"socket", "EPERM"},
				)
			}
		}
		s.denied(c, w.ww(w.dir, glob(w.sub("**/.env"))), kept, w.sub(".env"))
		// What needs Landlock is refused.
		for _, box := range []*protocol.Sandbox{network("external"), network(protocol.PermissionsManaged)} {
			if r, err := s.run(c, box, "true"); err == nil || !strings.Contains(err.Error(), "Landlock") {
				w.Errorf("a policy that needs Landlock: %+v, %v", r, err)
			}
		}
		// A sandbox has a /dev/shm of its own.
		name := filepath.Base(w.home) + fmt.Sprint(s.PID)
		if r := s.sh(c, w.ww(w.dir), "echo shared >/dev/shm/"+name+" && cat /dev/shm/"+name); r.stdout != "shared\n" {
			w.Errorf("/dev/shm: %+v", r)
		}
		w.gone("/dev/shm/" + name)
		if r := s.sh(c, w.ww(w.dir), "cat /dev/shm/"+name); r.code == 0 {
			w.Errorf("/dev/shm of another sandbox: %+v", r)
		}
	})
}
