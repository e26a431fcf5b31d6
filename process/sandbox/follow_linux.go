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

// maxStatus bounds one message of a helper.
const maxStatus = 64 << 10

// follow hears what a helper says until it has become its program or has ended. With
// masks it goes on until the last process of the sandbox is gone, and releases them.
func (e *Enforcer) follow(b *birth, status *os.File, masks []*mask) {
	watch, apart, err := hear(status)
	_ = status.Close()
	b.apart, b.err = apart, err
	close(b.done)
	if err != nil {
		e.cfg.Logger.Debug("sandbox helper failed", "err", err)
	}
	if watch != nil {
		if len(masks) > 0 {
			e.awaitEnd(watch)
		}
		_ = watch.Close()
	}
	releaseMasks(masks)
	close(b.over)
}

// awaitEnd waits for the end of a sandbox, but not for long once the Enforcer closes.
func (e *Enforcer) awaitEnd(watch *os.File) {
	over := make(chan struct{})
	hurry := make(chan struct{})
	go func() { // ends with over
		defer close(hurry)
		select {
		case <-e.stop:
			_ = watch.SetReadDeadline(time.Now().Add(closeGrace))
		case <-over:
		}
	}()
	_, _ = watch.Read(make([]byte, 4096)) // the only event there is, or the deadline
	close(over)
	<-hurry
}

// hear reads the messages of a helper. The watch and the namespace it sends, if any, are
// returned also with an error.
func hear(status *os.File) (watch, apart *os.File, err error) {
	ready := false
	buf := make([]byte, maxStatus)
	for {
		n, fd, err := receive(status, buf)
		switch {
		case fd >= 0 && buf[0] == statusApart:
			apart = os.NewFile(uintptr(fd), "namespace")
		case fd >= 0:
			_ = unix.SetNonblock(fd, true)
			watch = os.NewFile(uintptr(fd), "watch")
		}
		switch {
		case errors.Is(err, io.EOF) && ready:
			return watch, apart, nil
		case errors.Is(err, io.EOF):
			return watch, apart, unavailablef("the helper ended before it was confined")
		case err != nil:
			return watch, apart, unavailablef("hear from the helper: %v", err)
		}
		switch buf[0] {
		case statusWatch, statusApart:
		case statusReady:
			ready = true
		case statusExec:
			f := decodeFailure(buf[1:n])
			return watch, apart, fmt.Errorf("%s: %w", f.Op, syscall.Errno(f.Errno))
		default:
			return watch, apart, unavailablef("%s", decodeFailure(buf[1:n]).Text)
		}
	}
}

func decodeFailure(text []byte) failure {
	f := failure{Op: "helper", Text: "unknown failure", Errno: uintptr(unix.EINVAL)}
	_ = json.Unmarshal(text, &f) // what does not decode keeps its default
	return f
}

// receive reads one message, with the descriptor it carries or -1. It returns io.EOF
// when the other end is closed.
func receive(f *os.File, buf []byte) (n, fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, -1, err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	var oobn int
	var recvErr error
	err = raw.Read(func(s uintptr) bool {
		n, oobn, _, _, recvErr = unix.Recvmsg(int(s), buf, oob, unix.MSG_CMSG_CLOEXEC)
		return !errors.Is(recvErr, unix.EAGAIN) && !errors.Is(recvErr, unix.EINTR)
	})
	if err = errors.Join(err, recvErr); err != nil {
		return 0, -1, err
	}
	if n <= 0 {
		return 0, -1, io.EOF
	}
	return n, descriptor(oob[:oobn]), nil
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
