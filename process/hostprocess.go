package process

import (
	"errors"
	"os"
	"sync"
	"syscall"
)

// hostProcess is a child of this program.
type hostProcess struct {
	pid    int
	master *os.File // nil without a terminal
	pidfd  *os.File // nil where the kernel has none, or none that can be polled

	mu     sync.Mutex
	reaped bool // pid may be somebody else's
	closed bool
}

// Wait implements Process.
func (p *hostProcess) Wait() WaitStatus {
	status, err := p.await()
	children.remove(p.pid)
	switch {
	case err != nil:
		return WaitStatus{Lost: true}
	case status.Signaled():
		return WaitStatus{Signal: status.Signal()}
	default:
		return WaitStatus{Code: status.ExitStatus()}
	}
}

// reap collects the status if the child has ended.
func (p *hostProcess) reap(status *syscall.WaitStatus) (bool, error) {
	// Locked, so that no signal goes to a pid that is free.
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		pid, err := syscall.Wait4(p.pid, status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // somebody else has waited for it
			p.reaped = true
			return true, err
		}
		p.reaped = pid == p.pid
		return p.reaped, nil
	}
}

// Signal implements Process.
func (p *hostProcess) Signal(sig syscall.Signal, group bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	switch {
	case p.closed, p.reaped && !group:
		return os.ErrProcessDone
	case !p.reaped && group:
		err = syscall.Kill(-p.pid, sig)
	case !p.reaped:
		err = syscall.Kill(p.pid, sig)
	default:
		err = p.signalOrphans(sig)
	}
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// signalByNumber sends sig to the group of a child that is gone. The number stays the
// group's while it has members; that a process has it again shows that it has none.
func (p *hostProcess) signalByNumber(sig syscall.Signal) error {
	if syscall.Kill(p.pid, 0) != syscall.ESRCH {
		return syscall.ESRCH
	}
	return syscall.Kill(-p.pid, sig)
}

// Close implements Process.
func (p *hostProcess) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	if p.pidfd != nil {
		return p.pidfd.Close()
	}
	return nil
}
