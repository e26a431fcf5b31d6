//go:build !linux

package limit

import (
	"errors"
	"os"
	"syscall"

	"github.com/wsd-dev/wsd/protocol"
)

// home is Linux's.
type home struct{}

func openHome() (*home, error) { return nil, errors.New("this system has no cgroups") }

func (*home) close() error { return nil }

func (*home) members(Limits) (members, error) { return new(processGroup), nil }

// A processGroup is the only thing that is known of a command here.
type processGroup struct{ leader int }

func (*processGroup) attributes(*syscall.SysProcAttr) {}

func (p *processGroup) began(pid int, _ *os.File) error {
	p.leader = pid
	return nil
}

func (p *processGroup) measure() (usage, bool) {
	return usage{}, p.leader == 0 || syscall.Kill(-p.leader, 0) != nil
}

func (*processGroup) cause() string { return "" }

func (p *processGroup) kill() {
	if p.leader > 0 {
		_ = syscall.Kill(-p.leader, syscall.SIGKILL)
	}
}

func (*processGroup) close() error { return nil }

func (*Limiter) ways() ways {
	return ways{
		cpu: protocol.LimitByNone, memory: protocol.LimitByNone, processes: protocol.LimitByNone,
		fileSize: protocol.LimitByNone, wall: protocol.LimitByWatchdog,
	}
}

// Says tells in a sentence how well the processes of a command are found.
func (*Limiter) Says() string { return "on this system only the time that a command runs is limited" }
