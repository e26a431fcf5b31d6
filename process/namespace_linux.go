package process

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// NewNamespace makes a Namespace in which dir is at point, which must be a directory,
// too. It needs CAP_SYS_ADMIN: a program with more than one thread cannot make a user
// namespace for itself. Without, the error is an ErrNoNamespace.
func NewNamespace(dir, point string) (*Namespace, error) {
	f := newForker()
	made := make(chan error, 1)
	var ns *os.File // closed when no thread is left
	f.enter = func() error { return joinNamespace(ns) }
	f.threads++
	f.wg.Go(func() { // ended by Close
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var err error
		ns, err = makeNamespace(dir, point)
		made <- err
		if err == nil {
			f.serve()
		}
	})
	if err := <-made; err != nil {
		f.wg.Wait()
		return nil, fmt.Errorf("%w: %w", ErrNoNamespace, err)
	}
	unignore()
	return &Namespace{forker: f, ns: ns}, nil
}

// makeNamespace takes the thread into a mount namespace of its own and binds dir there.
func makeNamespace(dir, point string) (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, os.NewSyscallError("unshare", err)
	}
	// From the host, not to it.
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, os.NewSyscallError("make the mounts private", err)
	}
	if err := unix.Mount(dir, point, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return nil, fmt.Errorf("bind %s to %s: %w", dir, point, err)
	}
	// A file that a thread opens by thread-self is of that thread's namespace.
	return os.Open("/proc/thread-self/ns/mnt")
}

// joinNamespace takes the thread into a namespace that another one has made.
func joinNamespace(ns *os.File) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // else the kernel refuses setns
		return os.NewSyscallError("unshare", err)
	}
	return os.NewSyscallError("setns", unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS))
}
