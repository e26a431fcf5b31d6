package limit

import (
	"log/slog"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// A Limiter holds commands to limits. It is for all commands of a server.
type Limiter struct {
	logger *slog.Logger
	home   *home // nil where no cgroup can be made
	lack   error // why not

	mu     sync.Mutex
	groups int
}

// New finds out what this machine can enforce. It may move this program to another
// cgroup, below the one it is in, and is to be called before there are any children. A
// nil logger discards.
func New(logger *slog.Logger) *Limiter {
	if logger == nil {
		logger = discard
	}
	l := &Limiter{logger: logger}
	home, err := openHome()
	if err != nil {
		logger.Debug("limited commands get no cgroup", "err", err)
		l.lack = err
		return l
	}
	l.home = home
	return l
}

var discard = slog.New(slog.DiscardHandler)

// Close removes what New has made. No group is left by then.
func (l *Limiter) Close() error {
	if l == nil || l.home == nil {
		return nil
	}
	return l.home.close()
}

// Group makes the group of a command that is about to be started. It ends with its
// Watch, or with Discard.
func (l *Limiter) Group(limits Limits, logger *slog.Logger) (*Group, error) {
	m, err := l.home.members(limits)
	if err != nil {
		return nil, err
	}
	return l.group(limits, m, logger), nil
}

func (l *Limiter) group(limits Limits, m members, logger *slog.Logger) *Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups++
	return &Group{limits: limits, members: m, limiter: l, logger: logger, start: time.Now()}
}

// Discard gives up a group whose command was not started.
func (g *Group) Discard() {
	over := make(chan struct{})
	close(over)
	g.end(over)
	g.close()
}

func (l *Limiter) left() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups--
}

// crowd is the least time between two looks at a command with as many others as there
// are.
func (l *Limiter) crowd() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.groups) * crowdTime
}

// Report says how limits are enforced here.
func (l *Limiter) Report(limits Limits) []protocol.LimitReport {
	var reports []protocol.LimitReport
	add := func(wanted bool, name, by string) {
		if wanted {
			reports = append(reports, protocol.LimitReport{Name: name, By: by, Enforced: by != protocol.LimitByNone})
		}
	}
	ways := l.ways()
	add(limits.CPU > 0, protocol.LimitCPU, ways.cpu)
	add(limits.Memory > 0, protocol.LimitMemory, ways.memory)
	add(limits.Processes > 0, protocol.LimitProcesses, ways.processes)
	add(limits.FileSize > 0, protocol.LimitFileSize, ways.fileSize)
	add(limits.Wall > 0, protocol.LimitWall, ways.wall)
	return reports
}

// ways say by what each limit is enforced.
type ways struct{ cpu, memory, processes, fileSize, wall string }
