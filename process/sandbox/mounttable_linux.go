package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// A mountTable is the mounts of the namespace of the thread that opened it. The zero value
// is not open. It is not safe for concurrent use.
type mountTable struct {
	isOpen bool
	fd     int
}

// open opens the table if it is not open.
func (m *mountTable) open() error {
	if m.isOpen {
		return nil
	}
	// Not by package os: its poller would use up the events.
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open mountinfo", err)
	}
	m.fd, m.isOpen = fd, true
	return nil
}

func (m *mountTable) close() {
	if m.isOpen {
		_ = unix.Close(m.fd)
		m.isOpen = false
	}
}

// hasChanged reports whether there may be other mounts than when it was asked last, or than
// when the table was opened. It reads nothing.
func (m *mountTable) hasChanged() bool {
	if !m.isOpen {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLPRI}}, 0)
	return n != 0 || err != nil
}

// read returns the mounts.
func (m *mountTable) read() (mounts, error) {
	if err := m.open(); err != nil {
		return nil, err
	}
	var text []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Pread(m.fd, buf, int64(len(text)))
		switch {
		case err == unix.EINTR: //nolint:errorlint // Pread returns it as it is
		case err != nil:
			return nil, os.NewSyscallError("read mountinfo", err)
		case n == 0:
			return parseMounts(string(text)), nil
		default:
			text = append(text, buf[:n]...)
		}
	}
}
