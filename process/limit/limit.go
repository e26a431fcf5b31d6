package limit

import (
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// Limits bound a command and all that it starts. 0 is no bound.
type Limits struct {
	CPU       time.Duration // processor time, of user and system
	Wall      time.Duration // since the start
	Memory    uint64        // bytes in RAM and swap that are no file's
	Processes uint64        // processes and threads at a time
	FileSize  uint64        // bytes of each file that is written
}

// Of returns the limits that a client asks for, nil for none. A limit of 0 is refused.
func Of(p *protocol.ProcessLimits) (*Limits, error) {
	if p == nil {
		return nil, nil
	}
	var l Limits
	some := false
	for _, f := range []struct {
		name string
		from *uint64
		to   func(uint64)
	}{
		{"cpuMs", p.CPUMs, func(n uint64) { l.CPU = milliseconds(n) }},
		{"wallMs", p.WallMs, func(n uint64) { l.Wall = milliseconds(n) }},
		{"memoryBytes", p.MemoryBytes, func(n uint64) { l.Memory = n }},
		{"processes", p.Processes, func(n uint64) { l.Processes = n }},
		{"fileSizeBytes", p.FileSizeBytes, func(n uint64) { l.FileSize = n }},
	} {
		switch {
		case f.from == nil:
		case *f.from == 0:
			return nil, protocol.InvalidParams("limits.%s must not be 0: leave it out for no limit", f.name)
		default:
			f.to(*f.from)
			some = true
		}
	}
	if !some {
		return nil, nil
	}
	return &l, nil
}

// maxMilliseconds is as many as a Duration can hold.
const maxMilliseconds = uint64(1<<63-1) / uint64(time.Millisecond)

func milliseconds(n uint64) time.Duration {
	return time.Duration(min(n, maxMilliseconds)) * time.Millisecond
}

// A usage is what a command and all that it has started use.
type usage struct {
	cpu, wall         time.Duration
	memory, processes uint64
}

// exceeded names the limit that u is beyond, or is "".
func (l *Limits) exceeded(u usage) string {
	switch {
	case l.Processes > 0 && u.processes > l.Processes:
		return protocol.LimitProcesses
	case l.Memory > 0 && u.memory > l.Memory:
		return protocol.LimitMemory
	case l.CPU > 0 && u.cpu >= l.CPU:
		return protocol.LimitCPU
	case l.Wall > 0 && u.wall >= l.Wall:
		return protocol.LimitWall
	}
	return ""
}

// ofSignal names the limit for which the kernel ends a process with sig, or is "".
func (l *Limits) ofSignal(sig syscall.Signal) string {
	switch {
	case l.FileSize > 0 && sig == syscall.SIGXFSZ:
		return protocol.LimitFileSize
	case l.CPU > 0 && sig == syscall.SIGXCPU:
		return protocol.LimitCPU
	}
	return ""
}

// A Resource is a limit of each process by itself, which the process sets before it
// executes its program.
type Resource struct {
	Number int // of setrlimit
	Max    uint64
}

// resources are what the kernel can hold each process to. CPU time is there for a
// process that the watchdog does not find.
func (l *Limits) resources() []Resource {
	var r []Resource
	if l.FileSize > 0 {
		r = append(r, Resource{syscall.RLIMIT_FSIZE, l.FileSize})
	}
	if l.CPU > 0 {
		r = append(r, Resource{syscall.RLIMIT_CPU, uint64(l.CPU/time.Second) + 2}) // seconds
	}
	return r
}

// Set holds this process to r, or to what it is held to already if that is less. No
// process can go back behind it that has no right to raise limits.
func (r Resource) Set() error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(r.Number, &now); err != nil {
		return err
	}
	hard := r.Max
	if r.Number == syscall.RLIMIT_CPU {
		hard++ // at the hard one the kernel sends SIGKILL, which does not tell of a limit
	}
	return syscall.Setrlimit(r.Number, &syscall.Rlimit{Cur: min(r.Max, now.Cur), Max: min(hard, now.Max)})
}
