//go:build !linux

package process

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	getTermios  = unix.TIOCGETA
	getBuffered = 0x4004667f // FIONREAD
)

// openPipe opens a pipe whose end of this program does not block.
func openPipe(childWrites bool) (ours, theirs int, err error) {
	var fds [2]int
	syscall.ForkLock.RLock()
	err = syscall.Pipe(fds[:])
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, 0, err
	}
	return splitPipe(fds, childWrites)
}

// newOutputs makes an Output of each pipe, which it takes over; busy is the size of a busy
// one. No order is kept between them.
func newOutputs(streams []string, fds []int, busy int) (outputs []Output, err error) {
	for i, stream := range streams {
		file := os.NewFile(uintptr(fds[i]), stream)
		out, fileErr := newFileOutput(stream, file, true, busy)
		if fileErr != nil {
			_ = file.Close()
			err = fileErr
			continue
		}
		outputs = append(outputs, out)
	}
	if err != nil {
		for _, out := range outputs {
			_ = out.Close()
		}
	}
	return outputs, err
}

// sealInherited keeps descriptors that this program was started with from its
// children.
func sealInherited() {
	sealListed("/dev/fd")
}

// setPipeSize: pipes cannot be resized here; the system does that by itself.
func setPipeSize(uintptr, int) bool { return false }

// unblockSignals does nothing: this system's library call for it is out of reach
// without cgo. Children inherit the signals that this program was started with
// blocked.
func unblockSignals() {}

// forkExec starts a child. There is no parent-death signal here: children outlive a
// server that is killed.
func forkExec(cmd Command, attr *syscall.ProcAttr, _ bool) (*hostProcess, error) {
	p := &hostProcess{}
	var err error
	children.fork(func() int {
		p.pid, err = syscall.ForkExec(cmd.Path, cmd.Argv, attr)
		return p.pid
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// await waits for the child, on a thread, and collects its status.
func (p *hostProcess) await() (status syscall.WaitStatus, err error) {
	for {
		_, err := syscall.Wait4(p.pid, &status, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		p.mu.Lock()
		p.reaped = true
		p.mu.Unlock()
		return status, err
	}
}

// signalOrphans sends sig to the group of a child that is gone.
func (p *hostProcess) signalOrphans(sig syscall.Signal) error { return p.signalByNumber(sig) }
