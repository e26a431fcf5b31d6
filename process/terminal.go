package process

import (
	"os"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

// startTerminal starts a child whose stdin, stdout and stderr are one terminal, which
// is also its controlling terminal.
func startTerminal(f *forker, cmd Command) (_ *Child, err error) {
	var io stdio
	defer func() {
		if err != nil {
			io.closeAll()
		}
	}()
	master, slave, err := openTerminal(*cmd.Terminal)
	if err != nil {
		return nil, spawnStep("open terminal", err)
	}
	io.ours, io.theirs = append(io.ours, master), append(io.theirs, slave)
	started, err := f.fork(cmd, []int{slave, slave, slave}, true)
	if err != nil {
		return nil, err
	}
	io.closeTheirs()
	started.master = master
	out, err := newFileOutput(protocol.StreamPTY, master, false, 0)
	if err != nil {
		return nil, abandon(started, err)
	}
	return &Child{PID: started.pid, Outputs: []Output{out}, Input: &terminalInput{master}, Process: started}, nil
}

// openTerminal returns the master, which does not block, and the slave, which does.
func openTerminal(size Size) (*os.File, int, error) {
	// The package's files are registered with the poller, the slave too, and so do
	// not block, which a child would inherit: both are copied and set as they should be.
	m, s, err := pty.Open()
	if err != nil {
		return nil, 0, err
	}
	defer m.Close()
	defer s.Close()
	if err := pty.Setsize(m, &pty.Winsize{Rows: size.Rows, Cols: size.Cols}); err != nil {
		return nil, 0, err
	}
	master, err := duplicate(m)
	if err != nil {
		return nil, 0, err
	}
	slave, err := duplicate(s)
	if err != nil {
		_ = syscall.Close(master)
		return nil, 0, err
	}
	for fd, nonblock := range map[int]bool{master: true, slave: false} {
		if err := syscall.SetNonblock(fd, nonblock); err != nil {
			_ = syscall.Close(master)
			_ = syscall.Close(slave)
			return nil, 0, err
		}
	}
	return os.NewFile(uintptr(master), protocol.StreamPTY), slave, nil
}

func duplicate(f *os.File) (fd int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	ctlErr := raw.Control(func(old uintptr) {
		fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	if ctlErr != nil {
		return 0, ctlErr
	}
	return fd, err
}

// terminalInput writes to a terminal.
type terminalInput struct {
	master *os.File
}

func (t *terminalInput) Write(p []byte) (int, error) { return t.master.Write(p) }

// TryWrite implements Input.
func (t *terminalInput) TryWrite(p []byte) (int, error) { return tryWrite(t.master, p) }

// EOF types the terminal's own end of file character, control-D unless the child has
// chosen another.
func (t *terminalInput) EOF() error {
	eof := byte(4)
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) {
		if settings, err := unix.IoctlGetTermios(int(fd), getTermios); err == nil {
			eof = settings.Cc[unix.VEOF]
		}
	})
	_, err = t.master.Write([]byte{eof})
	return err
}

// Close ends a write that waits. The terminal stays open: it is closed by its Output.
func (t *terminalInput) Close() error { return t.master.SetWriteDeadline(time.Unix(1, 0)) }

// Resize implements Process.
func (p *hostProcess) Resize(size Size) error {
	if p.master == nil {
		return syscall.ENOTTY
	}
	raw, err := p.master.SyscallConn()
	if err != nil {
		return err
	}
	ctlErr := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if ctlErr != nil { // closed
		return os.ErrProcessDone
	}
	return err
}
