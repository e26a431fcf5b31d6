package limit

import (
	"cmp"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// lookTime is the time between two looks at a command that grows, calmTime at one that
	// does not grow, sleepTime at one that does nothing. A command that takes memory at
	// 4 GiB/s is then 20 to 80 MiB beyond its limit when it is found.
	lookTime  = 5 * time.Millisecond
	calmTime  = 20 * time.Millisecond
	sleepTime = 50 * time.Millisecond
	// youngPause is the time between two looks at a command in its first youngTime: most
	// bombs go off at once.
	youngPause = 2 * time.Millisecond
	youngTime  = 200 * time.Millisecond
	// lookShare keeps looks to one part in so many of a processor, for each command, and
	// youngShare while it has just begun.
	lookShare  = 20
	youngShare = 5
	// slowTime is what looks that take long on a busy machine may make of lookTime.
	slowTime = 250 * time.Millisecond
	// crowdTime is what each limited command adds to the time between the looks at
	// every other.
	crowdTime = 2 * time.Millisecond
	// killPause is the time between two attempts to kill what is left of a command.
	killPause = 5 * time.Millisecond
	// killTime is how long such attempts follow each other; then they come once a
	// second: a process may be stuck in the kernel.
	killTime = 10 * time.Second
)

// members are the processes of a limited command.
type members interface {
	// attributes has a child be born among the members.
	attributes(attr *syscall.SysProcAttr)
	// began is called with the pid of the first one, once it runs its program. apart is an
	// IPC namespace that only members are in, nil where there is none. began closes it, or
	// close does.
	began(pid int, apart *os.File) error
	// measure says what they use: memory only where the kernel does not hold them to it.
	// empty is true when none is left, and not when that cannot be found out.
	measure() (u usage, empty bool)
	// cause names a limit to which the kernel has held them, or is "".
	cause() string
	// kill sends SIGKILL to all there are at this moment.
	kill()
	close() error
}

// A Group is a limited command and all that it starts. A nil Group is one of a command
// without limits.
type Group struct {
	limits  Limits
	members members
	limiter *Limiter
	logger  *slog.Logger
	start   time.Time

	mu    sync.Mutex
	cause string // why it was killed, or empty
}

// Resources are the limits that the command's first process sets for itself.
func (g *Group) Resources() []Resource {
	if g == nil || g.limiter.ways().fileSize == protocol.LimitByNone {
		return nil
	}
	return g.limits.resources()
}

// Attributes changes how the command's first process is forked.
func (g *Group) Attributes(attr *syscall.SysProcAttr) { g.members.attributes(attr) }

// Began is called when the command's first process has executed its program. apart is an
// IPC namespace that is the command's alone, nil where there is none. The Group closes it.
func (g *Group) Began(pid int, apart *os.File) error {
	if g == nil {
		return nil
	}
	g.start = time.Now()
	return g.members.began(pid, apart)
}

// Watch holds the command to its limits. It returns when nothing of the command is
// left. All of it is killed when stop is closed.
func (g *Group) Watch(stop <-chan struct{}) {
	defer g.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var last usage
	for {
		select {
		case <-stop:
			g.end(stop)
			return
		case <-timer.C:
		}
		before := time.Now()
		u, empty := g.members.measure()
		if empty {
			g.blame(g.members.cause()) // nobody can tell once g is closed
			return
		}
		u.wall = time.Since(g.start)
		cause := g.limits.exceeded(u)
		if cause == "" {
			cause = g.members.cause()
		}
		if cause != "" {
			g.blame(cause)
			g.logger.Info("a command is killed with all that it started: it went beyond a limit", "limit", cause)
			g.end(stop)
			return
		}
		timer.Reset(g.pause(last, u, time.Since(before)))
		last = u
	}
}

// pause is the time to the next look.
func (g *Group) pause(last, u usage, took time.Duration) time.Duration {
	pause, share := calmTime, time.Duration(lookShare)
	switch {
	case u.wall < youngTime:
		pause, share = youngPause, youngShare
	case u.processes > last.processes || u.memory > last.memory:
		pause = lookTime
	case u.cpu == last.cpu:
		pause = sleepTime
	}
	pause = max(pause, min(share*took, max(slowTime, 2*took)), g.limiter.crowd())
	if g.limits.Wall > 0 {
		pause = min(pause, max(g.limits.Wall-u.wall, time.Millisecond))
	}
	return pause
}

// end kills until nobody is left. Once stop is closed it waits no longer than killTime
// for processes that do not end: one that has become another user's cannot be killed.
func (g *Group) end(stop <-chan struct{}) {
	begin := time.Now()
	pause := killPause
	for {
		g.members.kill()
		if _, empty := g.members.measure(); empty {
			return
		}
		if time.Since(begin) > killTime {
			if pause == killPause {
				g.logger.Error("processes of a command do not end although they are killed")
				pause = time.Second
			}
			select {
			case <-stop:
				return
			default:
			}
		}
		time.Sleep(pause) //nolint:forbidigo // no event tells that the last process of several has ended
	}
}

func (g *Group) blame(cause string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause == "" {
		g.cause = cause
	}
}

// Cause names the limit that has ended the command's first process, which ended with
// code or by sig, or is "". A shell tells in its code that a program of its own has
// written too large a file.
func (g *Group) Cause(code int, sig syscall.Signal) string {
	if g == nil || code == 0 && sig == 0 {
		return ""
	}
	held := g.members.cause() // before g.cause: it is of no use once that is set
	g.mu.Lock()
	cause := cmp.Or(g.cause, held)
	g.mu.Unlock()
	if code == 128+int(syscall.SIGXFSZ) {
		sig = syscall.SIGXFSZ
	}
	if cause == "" {
		cause = g.limits.ofSignal(sig)
	}
	return cause
}

// Report says how each limit is enforced.
func (g *Group) Report() []protocol.LimitReport {
	if g == nil {
		return nil
	}
	return g.limiter.Report(g.limits)
}

func (g *Group) close() {
	if err := g.members.close(); err != nil {
		g.logger.Debug("the cgroup of a command was not removed", "err", err)
	}
	g.limiter.left()
}
