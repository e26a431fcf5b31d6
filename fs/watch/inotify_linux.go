package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// inotify is the backend of Linux. A watch of it is of a directory, not of a path:
// it stays when the directory is renamed, and is the same for all paths to it.
type inotify struct {
	file *os.File
	raw  syscall.RawConn
	mask uint32
	done chan struct{}
	told func(backend, []Event, bool)

	// reading is held while events are read and told, so that they are told in order.
	reading sync.Mutex
	buf     []byte
}

const inotifyMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

func newSystemBackend(told func(backend, []Event, bool)) (backend, error) {
	return newInotify(inotifyMask, told)
}

func newClosingBackend(told func(backend, []Event, bool)) (backend, error) {
	return newInotify(inotifyMask|unix.IN_CLOSE_WRITE, told)
}

func newInotify(mask uint32, told func(backend, []Event, bool)) (backend, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		if errors.Is(err, unix.EMFILE) {
			return nil, limitError("fs.inotify.max_user_instances, or the open files of this process", err)
		}
		return nil, fmt.Errorf("start inotify: %w", err)
	}
	n := &inotify{
		file: os.NewFile(uintptr(fd), "inotify"), mask: mask, done: make(chan struct{}), told: told,
		buf: make([]byte, 32<<10),
	}
	if n.raw, err = n.file.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("start inotify: %w", err), n.file.Close())
	}
	go n.read() // ends when close closes the file
	return n, nil
}

// control runs fn with the descriptor, which stays open meanwhile.
func (n *inotify) control(fn func(fd int) error) error {
	var fnErr error
	if err := n.raw.Control(func(fd uintptr) { fnErr = fn(int(fd)) }); err != nil {
		return err
	}
	return fnErr
}

func (n *inotify) add(path string, follow bool) (ID, error) {
	mask := n.mask
	if !follow {
		mask |= unix.IN_DONT_FOLLOW
	}
	var wd int
	err := n.control(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, path, mask)
		return err
	})
	if errors.Is(err, unix.ENOSPC) {
		return 0, limitError("fs.inotify.max_user_watches", err)
	}
	return ID(wd), err
}

func (n *inotify) remove(id ID) {
	_ = n.control(func(fd int) error { // of a directory that has gone there is nothing to remove
		_, err := unix.InotifyRmWatch(fd, uint32(id))
		return err
	})
}

func (n *inotify) close() {
	_ = n.file.Close()
	<-n.done
}

func (n *inotify) read() {
	defer close(n.done)
	for {
		var end error
		// The function is called whenever there may be something to read.
		err := n.raw.Read(func(fd uintptr) bool {
			var some bool
			some, end = n.drain(int(fd), 1)
			return some || end != nil
		})
		if err != nil || end != nil {
			return
		}
	}
}

// drain tells what is queued, at least so many bytes of it. It reports whether there was
// any.
func (n *inotify) drain(fd, least int) (some bool, err error) {
	n.reading.Lock()
	defer n.reading.Unlock()
	for least > 0 {
		size, err := unix.Read(fd, n.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return some, nil
		case err != nil:
			return some, err
		case size <= 0:
			return some, io.EOF
		}
		some, least = true, least-size
		events, overflow := parse(n.buf[:size])
		n.told(n, events, overflow)
	}
	return some, nil
}

// sync tells all that is queued now: the kernel queues an event before the call that
// causes it returns. What another goroutine has read before is told by the time that it
// gives up the lock.
func (n *inotify) sync() bool {
	return n.control(func(fd int) error {
		size, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err == nil {
			_, err = n.drain(fd, max(size, 1))
		}
		return err
	}) == nil
}

// parse decodes struct inotify_event: wd, mask, cookie, len, name padded with NULs.
func parse(b []byte) (events []Event, overflow bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if end > len(b) {
			break
		}
		name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
		b = b[end:]
		if mask&(unix.IN_Q_OVERFLOW|unix.IN_UNMOUNT) != 0 {
			// What has come to the place of what was unmounted, or will, nobody tells;
			// IN_IGNORED follows.
			overflow = true
			continue
		}
		e := Event{ID: ID(wd), Name: name, IsDir: mask&unix.IN_ISDIR != 0}
		switch {
		case mask&unix.IN_IGNORED != 0:
			e.Op = gone
		case mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF) != 0:
			e.Op, e.Name = Remove, ""
		case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			e.Op = Create
		case mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) != 0:
			e.Op, e.Moved = Remove, mask&unix.IN_MOVED_FROM != 0
		default:
			e.Op, e.Closed = Modify, mask&unix.IN_CLOSE_WRITE != 0
		}
		events = append(events, e)
	}
	return events, overflow
}
