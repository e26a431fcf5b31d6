package process

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	getTermios  = unix.TCGETS
	getBuffered = unix.TIOCINQ
)

// openPipe opens a pipe whose end of this program does not block.
func openPipe(childWrites bool) (ours, theirs int, err error) {
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	return splitPipe(fds, childWrites)
}

// sealInherited keeps descriptors that this program was started with, and that whoever
// started it forgot to close, from its children. Those that the program has opened
// itself are sealed already.
func sealInherited() {
	if unix.CloseRange(firstInherited, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) != nil {
		sealListed("/proc/self/fd") // before Linux 5.11
	}
}

// setPipeSize returns false when the user has as many large pipes as the system
// allows.
func setPipeSize(fd uintptr, size int) bool {
	_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size)
	return err == nil
}

// unblockSignals gives the thread, and so the children it forks, no blocked signals,
// whatever this program was started with.
func unblockSignals() {
	var none unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil) // cannot fail with these arguments
}

// forkExec runs on a thread of the forker.
func forkExec(cmd Command, attr *syscall.ProcAttr, tty bool) (*hostProcess, error) {
	pidfd := -1
	attr.Sys.PidFD = &pidfd
	if !tty {
		attr.Sys.Pdeathsig = syscall.SIGTERM
	}
	p := &hostProcess{}
	var err error
	children.fork(func() int {
		p.pid, err = syscall.ForkExec(cmd.Path, cmd.Argv, attr)
		return p.pid
	})
	if err != nil {
		return nil, err
	}
	// A pidfd is polled like a socket, so that a child costs no thread.
	if pidfd >= 0 {
		_ = syscall.SetNonblock(pidfd, true) // else it will not be pollable
		p.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}
	return p, nil
}

// await waits for the child and collects its status.
func (p *hostProcess) await() (status syscall.WaitStatus, err error) {
	if p.pidfd != nil {
		if raw, rawErr := p.pidfd.SyscallConn(); rawErr == nil {
			ended := false
			_ = raw.Read(func(uintptr) bool { // fails where a pidfd cannot be polled
				ended, err = p.reap(&status)
				return ended
			})
			if ended {
				return status, err
			}
		}
	}
	// Wait without collecting first: reap needs the lock, and this takes long.
	for {
		err := unix.Waitid(unix.P_PID, p.pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		_, err = p.reap(&status)
		return status, err
	}
}

// signalOrphans sends sig to the group of a child that is gone.
func (p *hostProcess) signalOrphans(sig syscall.Signal) error {
	if p.pidfd != nil { // knows the group even if the number is taken again
		var err error
		if raw, rawErr := p.pidfd.SyscallConn(); rawErr == nil {
			ctlErr := raw.Control(func(fd uintptr) {
				err = unix.PidfdSendSignal(int(fd), sig, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP)
			})
			if ctlErr == nil && !errors.Is(err, syscall.EINVAL) { // which is from before Linux 6.9
				return err
			}
		}
	}
	return p.signalByNumber(sig)
}
