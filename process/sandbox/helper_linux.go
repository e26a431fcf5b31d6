package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// Descriptors of a helper.
const (
	fdPlan   = 3
	fdStatus = 4
)

// maxPlan bounds the text of a plan.
const maxPlan = 64 << 20

// runHelper confines this process and becomes the program of its plan. It returns
// only when it could not, and has told so.
func runHelper() {
	unix.CloseOnExec(fdPlan)
	unix.CloseOnExec(fdStatus)
	var signal int32
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	p, err := readPlan()
	if err == nil {
		err = confine(p)
	}
	if err != nil {
		_ = tell(statusUnavailable, err)
		return
	}
	if signal > 0 { // as it was, should one of the steps have cleared it
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(signal), 0, 0, 0)
	}
	if p.Dir != nil {
		if err := p.enterDir(); err != nil {
			_ = tell(statusExec, &opError{op: "chdir", err: errnoOf(err)})
			return
		}
	}
	for _, r := range p.Resources {
		if err := r.Set(); err != nil {
			_ = tell(statusUnavailable, step(err, "set the limits"))
			return
		}
	}
	if p.handsOver() {
		if err := awaitOrder(); err != nil {
			return // nobody listens
		}
	}
	if err := tell(statusReady, nil); err != nil {
		return
	}
	_ = tell(statusExec, &opError{op: "exec", err: execute(p)})
}

func readPlan() (*plan, error) {
	f := os.NewFile(fdPlan, "plan")
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, maxPlan))
	if err != nil {
		return nil, step(err, "read the plan")
	}
	return decodePlan(text)
}

// confine carries a plan out on the calling thread.
func confine(p *plan) error {
	filter := filterOptions{network: !p.Network}
	switch p.Mechanism {
	case mechanismNamespaces:
		if p.Unshare {
			flags := unix.CLONE_NEWNS | unix.CLONE_NEWIPC
			if !p.Network {
				flags |= unix.CLONE_NEWNET
			}
			if err := unix.Unshare(flags); err != nil {
				return step(err, "make namespaces")
			}
		}
		if p.wantsApart() { // before the plan may close /proc
			apart, err := unix.Open("/proc/thread-self/ns/ipc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				err = sendDescriptor(statusApart, apart)
			}
			if err != nil {
				return step(err, "hand over a namespace")
			}
		}
		watch, err := buildView(p)
		if err != nil {
			return err
		}
		if watch >= 0 {
			if err := sendDescriptor(statusWatch, watch); err != nil {
				return step(err, "hand over the watch")
			}
		}
		filter.confined = true
	case mechanismLandlock:
		filter.confined, filter.metadata = true, true
	case mechanismNetwork:
		return confineNetwork(p, filter)
	case mechanismNone:
		return nil
	default:
		return step(unix.EINVAL, "confine by %q", p.Mechanism)
	}
	if p.writesDir() {
		_ = os.Chdir(string(p.Dir)) // also into one that its owner has closed
	}
	if err := lockDown(p); err != nil {
		return err
	}
	return applyFilter(filter)
}

// writesDir reports whether the working directory is one whose mode the program can
// change. A program that has closed it must not keep the next from starting there.
func (p *plan) writesDir() bool {
	access, best := p.Base, ""
	for _, at := range p.Places {
		if place := string(at.Path); slashpath.Within(string(p.Dir), place) && len(place) >= len(best) {
			access, best = at.Access, place
		}
	}
	return p.Dir != nil && access == Write
}

// enterDir changes to the working directory. This process may be there already.
func (p *plan) enterDir() error {
	err := os.Chdir(string(p.Dir))
	if errors.Is(err, unix.EACCES) && p.Mechanism == mechanismNamespaces && p.writesDir() {
		var here [unix.PathMax]byte
		if n, cwdErr := unix.Getcwd(here[:]); cwdErr == nil && string(here[:n-1]) == string(p.Dir) {
			return nil
		}
	}
	return err
}

// confineNetwork leaves the file system alone. Of the capabilities those remain that
// are about files, and other processes, which have a network, are out of reach.
func confineNetwork(p *plan, filter filterOptions) error {
	if !p.Network {
		if err := dropCapabilities(fileCapabilities); err != nil {
			return err
		}
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if !p.Network {
		if err := landlockProcesses(p); err != nil {
			return err
		}
	}
	return applyFilter(filter)
}

// lockDown takes away every capability and adds Landlock's rules.
func lockDown(p *plan) error {
	self := -1
	if p.Mechanism == mechanismLandlock && p.Path == nil {
		fd, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return step(err, "open this program")
		}
		self = fd
	}
	if err := dropCapabilities(0); err != nil {
		return err
	}
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if p.Mechanism == mechanismLandlock {
		return landlockRead(p, self)
	}
	return landlockWrite(p)
}

// execute becomes the program, or returns why it cannot.
func execute(p *plan) error {
	if p.Path != nil {
		return syscall.Exec(string(p.Path), os.Args[2:], os.Environ())
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], serveWord, p.Role}, os.Environ())
}

// tell says on the status socket what has become of this helper.
func tell(what byte, err error) error {
	msg := []byte{what}
	if err != nil {
		f := failure{Text: err.Error(), Errno: uintptr(errnoOf(err))}
		if op, ok := errors.AsType[*opError](err); ok {
			f.Op = op.op
		}
		text, _ := json.Marshal(f) // strings and a number
		msg = append(msg, text...)
	}
	_, err = unix.Write(fdStatus, msg)
	return err
}

// awaitOrder waits until the server has what this helper has handed over. Without, the
// server would not know when the sandbox ends, and the program is not executed.
func awaitOrder() error {
	var order [1]byte
	for {
		// The runtime would start a thread for one that it knows to wait, and the program's
		// limits may not allow that.
		n, _, errno := unix.RawSyscall(unix.SYS_READ, fdStatus, uintptr(unsafe.Pointer(&order[0])), 1)
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return errno
		case n == 0 || order[0] != orderGo:
			return io.ErrUnexpectedEOF
		default:
			return nil
		}
	}
}

// sendDescriptor gives a descriptor to the server.
func sendDescriptor(what byte, fd int) error {
	err := unix.Sendmsg(fdStatus, []byte{what}, unix.UnixRights(fd), nil, 0)
	return errors.Join(err, unix.Close(fd))
}

// errnoOf returns the number of the system's reason, EINVAL if there is none.
func errnoOf(err error) syscall.Errno {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return unix.EINVAL
}
