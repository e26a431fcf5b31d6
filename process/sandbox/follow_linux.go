package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errNoDescriptor says that a message of a helper came without its descriptor.
var errNoDescriptor = errors.New("a descriptor was lost: this server may have too many open")

// errUnconfined says that a helper ended, or was never born.
var errUnconfined = unavailablef("the helper ended before it was confined")

// maxStatus bounds one message of a helper.
const maxStatus = 64 << 10

// follow hears what a helper says until it has become its program or has ended. With
// masks it goes on until the last process of the sandbox is gone, and releases them.
func (e *Enforcer) follow(b *birth, status *os.File, masks []*mask) {
	watch, apart, err := hear(status, b.masked, b.limited)
	_ = status.Close()
	b.apart, b.err = apart, err
	if errors.Is(err, errUnconfined) && b.attr != nil {
		e.ways.doubt.Store(true)
	}
	close(b.done)
	if err != nil {
		e.cfg.Logger.Debug("sandbox helper failed", "err", err)
	}
	ended := true // without a watch the program has not been executed
	if watch != nil {
		ended = len(masks) == 0 || e.awaitEnd(watch)
		_ = watch.Close()
	}
	if ended {
		releaseMasks(masks)
	} else {
		abandonMasks(masks)
	}
	close(b.over)
}

// awaitEnd waits for the end of a sandbox, but not for long once the Enforcer closes. It
// reports whether the sandbox has ended.
func (e *Enforcer) awaitEnd(watch *os.File) bool {
	over := make(chan struct{})
	hurry := make(chan struct{})
	go func() { // ends with over
		defer close(hurry)
		select {
		case <-e.stop:
			_ = watch.SetReadDeadline(time.Now().Add(e.grace))
		case <-over:
		}
	}()
	_, err := watch.Read(make([]byte, 4096)) // the only event there is, or the deadline
	if err != nil {
		<-e.stop // nothing tells of the end
	}
	close(over)
	<-hurry
	return err == nil
}

// hear reads the messages of a helper, whose plan may ask it for a watch and for a
// namespace. It lets the helper go on when it has them. Both are returned also with an error.
func hear(status *os.File, wantsWatch, wantsApart bool) (watch, apart *os.File, err error) {
	lacks := func() bool { return wantsWatch && watch == nil || wantsApart && apart == nil }
	ready := false
	buf := make([]byte, maxStatus)
	for {
		n, fd, err := receive(status, buf)
		switch {
		case errors.Is(err, io.EOF) && ready:
			return watch, apart, nil
		case errors.Is(err, io.EOF):
			return watch, apart, errUnconfined
		case err != nil:
			return watch, apart, unavailablef("hear from the helper: %w", err)
		}
		switch buf[0] {
		case statusWatch, statusApart:
			if buf[0] == statusApart {
				apart = os.NewFile(uintptr(fd), "namespace")
			} else {
				watch, err = newWatch(fd)
			}
			if err == nil && !lacks() {
				_, err = status.Write([]byte{orderGo})
			}
			if err != nil {
				return watch, apart, unavailablef("answer the helper: %w", err)
			}
		case statusReady:
			if lacks() {
				return watch, apart, unavailablef("the helper has not handed over its descriptors")
			}
			ready = true
		case statusExec:
			f := decodeFailure(buf[1:n])
			return watch, apart, fmt.Errorf("%s: %w", f.Op, syscall.Errno(f.Errno))
		default:
			f := decodeFailure(buf[1:n])
			return watch, apart, &unavailable{f.Text, syscall.Errno(f.Errno)}
		}
	}
}

// newWatch makes a file of an inotify descriptor. It fails when the file could not be
// waited for.
func newWatch(fd int) (*os.File, error) {
	_ = unix.SetNonblock(fd, true)
	watch := os.NewFile(uintptr(fd), "watch")
	if err := watch.SetReadDeadline(time.Time{}); err != nil {
		return nil, errors.Join(err, watch.Close())
	}
	return watch, nil
}

func decodeFailure(text []byte) failure {
	f := failure{Op: "helper", Text: "unknown failure", Errno: uintptr(unix.EINVAL)}
	_ = json.Unmarshal(text, &f) // what does not decode keeps its default
	return f
}

// receive reads one message, with the descriptor it carries or -1. It returns io.EOF
// when the other end is closed. A message that lost its descriptor, as it does when this
// process can have no more, is an error.
func receive(f *os.File, buf []byte) (n, fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, -1, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	var oobn, flags int
	var recvErr error
	err = raw.Read(func(s uintptr) bool {
		n, oobn, flags, _, recvErr = unix.Recvmsg(int(s), buf, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(recvErr, unix.EAGAIN) && !errors.Is(recvErr, unix.EINTR)
	})
	if err = errors.Join(err, recvErr); err != nil {
		return 0, -1, err
	}
	if n <= 0 {
		return 0, -1, io.EOF
	}
	fd = descriptor(oob[:oobn])
	carries := buf[0] == statusWatch || buf[0] == statusApart
	switch {
	case carries == (fd >= 0) && flags&unix.MSG_CTRUNC == 0:
		return n, fd, nil
	case fd >= 0:
		_ = unix.Close(fd)
	}
	return 0, -1, errNoDescriptor
}

func descriptor(oob []byte) int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return -1
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return -1
	}
	return fds[0]
}
