package process

import (
	"errors"
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
	var mounts mountView
	f.enter = func() error { return mounts.join() }
	f.threads++
	f.wg.Go(func() { // ended by Close
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		err := mounts.make(dir, point)
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
	return &Namespace{forker: f, mounts: &mounts}, nil
}

// A mountView is a mount namespace, and the root directory in it.
type mountView struct{ namespace, root *os.File }

// make takes the thread into a mount namespace of its own and binds dir there.
func (v *mountView) make(dir, point string) (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// From the host, not to it.
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return os.NewSyscallError("make the mounts private", err)
	}
	if err := unix.Mount(dir, point, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", dir, point, err)
	}
	if v.root, err = os.Open("/"); err != nil {
		return err
	}
	// A file that a thread opens by thread-self is of that thread's namespace.
	if v.namespace, err = os.Open("/proc/thread-self/ns/mnt"); err != nil {
		_ = v.root.Close() // it was only opened
	}
	return err
}

// join takes the thread into a namespace that another one has made.
func (v *mountView) join() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // else the kernel refuses setns
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Setns(int(v.namespace.Fd()), unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("setns", err)
	}
	// The kernel has taken the thread to the root of the namespace. This program may be
	// in a chroot.
	if err := unix.Fchdir(int(v.root.Fd())); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	return os.NewSyscallError("chroot", unix.Chroot("."))
}

// Close is called when no thread is left that may join.
func (v *mountView) Close() error { return errors.Join(v.namespace.Close(), v.root.Close()) }
