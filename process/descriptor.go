package process

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A descriptor is one that does not block, for a goroutine that reads. While the system's
// poller watches a pipe, each write of the child wakes a thread of this program, whether
// anybody waits or not. So one that hardly ever has to be waited for can be taken away
// from the poller; it is given back when there is nothing to read.
type descriptor struct {
	name string

	mu       sync.Mutex
	file     *os.File        // nil while the poller does not have it
	raw      syscall.RawConn // of file
	fd       int             // while there is no file
	closed   bool
	deadline time.Time
}

// newDescriptor takes a file over.
func newDescriptor(file *os.File) (*descriptor, error) {
	raw, err := file.SyscallConn()
	return &descriptor{name: file.Name(), file: file, raw: raw}, err
}

// read calls try until it returns true, which it does unless there is nothing to read yet.
// One goroutine calls it at a time. Errors are those of an os.File.
func (d *descriptor) read(try func(fd uintptr) bool) error {
	wait, err := d.readNow(try)
	if wait == nil || err != nil {
		return err
	}
	return wait.Read(try)
}

// readNow reads without the poller, if that does not have the descriptor. If there is
// nothing to read, or the poller has it, it returns where to wait.
func (d *descriptor) readNow(try func(fd uintptr) bool) (wait syscall.RawConn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, os.ErrClosed
	case d.file != nil:
		return d.raw, nil
	case !d.deadline.IsZero() && !time.Now().Before(d.deadline):
		return nil, os.ErrDeadlineExceeded
	case try(uintptr(d.fd)):
		return nil, nil
	}
	d.file = os.NewFile(uintptr(d.fd), d.name)
	if d.raw, err = d.file.SyscallConn(); err != nil {
		return nil, err
	}
	return d.raw, d.file.SetReadDeadline(d.deadline)
}

// leave takes the descriptor away from the poller. Its reader calls it.
func (d *descriptor) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.file == nil {
		return
	}
	// The poller forgets what is closed, and a copy is none of its own.
	var dup int
	var err error
	ctlErr := d.raw.Control(func(fd uintptr) { dup, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if ctlErr != nil || err != nil {
		return // it stays
	}
	_ = d.file.Close() // has nothing to write
	d.file, d.raw, d.fd = nil, nil, dup
}

// control calls fn, which does not wait, with the descriptor.
func (d *descriptor) control(fn func(fd uintptr)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return os.ErrClosed
	case d.file != nil:
		return d.raw.Control(fn)
	}
	fn(uintptr(d.fd))
	return nil
}

// setDeadline sets when read gives up.
func (d *descriptor) setDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return os.ErrClosed
	}
	d.deadline = t
	if d.file != nil {
		return d.file.SetReadDeadline(t)
	}
	return nil
}

func (d *descriptor) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return os.ErrClosed
	case d.file != nil:
		d.closed = true
		return d.file.Close()
	}
	d.closed = true
	return os.NewSyscallError("close", unix.Close(d.fd))
}
