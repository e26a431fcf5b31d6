package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// ErrNoLog is returned by ArchiveStore.Find.
var ErrNoLog = errors.New("no such log")

// An ArchiveStore keeps the logs of processes beyond the life of a server. It is safe for
// concurrent use; package logtest has the tests that every implementation must pass. What
// a method has changed when it returns nil survives the death of the process.
type ArchiveStore interface {
	// Write makes all changes or none.
	Write(ctx context.Context, changes []LogChange) error
	// Find returns the newest log of a process with that id which nobody writes any more.
	// The error is ErrNoLog.
	Find(ctx context.Context, processID string) (ArchivedLog, error)
	// Read returns output of a log with numbers above after, as LogStore.Read does.
	Read(ctx context.Context, log int64, after uint64, maxBytes int) ([]Event, error)
	// List returns logs that nobody writes any more, the newest first.
	List(ctx context.Context, limit int) ([]ArchivedLog, error)
	// Recover ends all logs, and returns the highest number of one. It is called before
	// all else. With syscall.ENOSPC it returns the number all the same, and ends none.
	Recover(ctx context.Context, at time.Time) (last int64, err error)
	// Sweep forgets logs that nobody writes any more.
	Sweep(ctx context.Context, keep ArchiveKeep) error
}

// LogChange is what has happened to a log since its last change.
type LogChange struct {
	Log int64
	// Info is set in the first one. Of it are kept the ids, the start and what was
	// started.
	Info *protocol.ProcessInfo
	// Events are output, in order, and then an exit and a close if there are. They
	// follow what was there, but for output that was not kept. Their data is only lent.
	Events []Event
	// Oldest is the number of the oldest output that is to be kept, and Bytes is how
	// much output is kept then.
	Oldest uint64
	Bytes  int64
	At     time.Time
	// Ended says that there will be no other change.
	Ended bool
}

// ArchiveKeep says which logs are kept: the newest that are within all bounds.
type ArchiveKeep struct {
	Since time.Time // their end
	Logs  int
	Bytes int64 // of output
}

// ArchivedLog is a log besides its output.
type ArchivedLog struct {
	Log  int64
	Info protocol.ProcessInfo
	Exit *Exit // nil if the server ended before the process
}

const (
	// DefaultArchiveTime is how long logs of processes that have ended are in an Archive.
	// maxArchivedLogs is how many, and maxArchivedBytes how much output of all of them.
	// The oldest go first.
	DefaultArchiveTime = time.Hour
	maxArchivedLogs    = 20_000
	maxArchivedBytes   = 1 << 30
	archiveSweepTime   = time.Minute
	// archiveSweepBytes is how much output may be written before the next sweep comes
	// early.
	archiveSweepBytes = maxArchivedBytes / 4
	// maxListedLogs is how many of them one process/list shows.
	maxListedLogs = 1000
	// archiveDelay is how long output waits to be written with other changes. An exit
	// does not wait.
	archiveDelay = 5 * time.Millisecond
)

// ArchiveConfig says where an Archive is. Only Store must be set.
type ArchiveConfig struct {
	Store  ArchiveStore
	Keep   time.Duration // of logs that have ended; 0 for DefaultArchiveTime
	Logger *slog.Logger  // nil discards
}

// An Archive has the logs of all processes of a server written to a store, so that they
// can be read when their session has ended, and the server too. It lags behind them by a
// few milliseconds, so that nobody waits for it; but an exit, and with it all output that
// came before, is in the store before anybody is told. One that cannot be written is given
// up, and the process goes on.
type Archive struct {
	cfg ArchiveConfig

	mu     sync.Mutex
	last   int64
	dirty  []*archivedLog
	closed bool

	now, later chan struct{} // hold a token when there is something to write
	stop       chan struct{}
	wg         sync.WaitGroup
}

// OpenArchive makes an Archive, and ends the logs that the last server left open.
func OpenArchive(ctx context.Context, cfg ArchiveConfig) (*Archive, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Keep <= 0 {
		cfg.Keep = DefaultArchiveTime
	}
	a := &Archive{cfg: cfg, now: make(chan struct{}, 1), later: make(chan struct{}, 1), stop: make(chan struct{})}
	var err error
	a.last, err = cfg.Store.Recover(ctx, time.Now())
	if errors.Is(err, syscall.ENOSPC) {
		cfg.Logger.WarnContext(ctx, "there is no room to end the logs of processes that the last server has left; the next start tries again", "err", err)
	} else if err != nil {
		return nil, fmt.Errorf("recover logs of processes: %w", err)
	}
	a.wg.Go(a.work) // waited for by Close
	return a, nil
}

// Close writes what is to be written. Logs are in memory only from then on.
func (a *Archive) Close() error {
	a.mu.Lock()
	again := a.closed
	a.closed = true
	a.mu.Unlock()
	if !again {
		close(a.stop)
	}
	a.wg.Wait()
	return nil
}

// mark notes that a log has changed. It returns false when nothing is written any more.
func (a *Archive) mark(l *archivedLog, now bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	if !l.dirty {
		l.dirty = true
		a.dirty = append(a.dirty, l)
	}
	token := a.later
	if now {
		token = a.now
	}
	select {
	case token <- struct{}{}:
	default:
	}
	return true
}

// work writes changes until Close.
func (a *Archive) work() {
	unswept := 0
	sweep := time.NewTicker(archiveSweepTime)
	defer sweep.Stop()
	delay := time.NewTimer(archiveDelay)
	defer delay.Stop()
	for {
		select {
		case <-a.now:
		case <-a.later:
			delay.Reset(archiveDelay)
			select {
			case <-a.now:
			case <-delay.C:
			case <-a.stop:
			}
		case <-sweep.C:
			a.sweep()
			unswept = 0
			continue
		case <-a.stop:
			a.write()
			return
		}
		if unswept += a.write(); unswept > archiveSweepBytes {
			a.sweep()
			unswept = 0
		}
	}
}

// write writes all changes that there are, and returns how much output they have.
func (a *Archive) write() (size int) {
	a.mu.Lock()
	logs := a.dirty
	a.dirty = nil
	for _, l := range logs {
		l.dirty = false
	}
	a.mu.Unlock()
	var changes []LogChange
	var done []chan struct{}
	for _, l := range logs {
		c, waits, ok := l.take()
		if ok {
			changes = append(changes, c)
		}
		done = append(done, waits...)
	}
	if len(changes) > 0 {
		if err := a.cfg.Store.Write(context.Background(), changes); err != nil {
			a.cfg.Logger.Error("logs of processes were not archived", "logs", len(changes), "err", err)
			for _, l := range logs {
				l.giveUp()
			}
		}
	}
	for i := range changes {
		for j := range changes[i].Events {
			size += len(changes[i].Events[j].Data)
			changes[i].Events[j].giveUp()
		}
	}
	for _, ch := range done {
		close(ch)
	}
	return size
}

func (a *Archive) sweep() {
	keep := ArchiveKeep{Since: time.Now().Add(-a.cfg.Keep), Logs: maxArchivedLogs, Bytes: maxArchivedBytes}
	if err := a.cfg.Store.Sweep(context.Background(), keep); err != nil {
		a.cfg.Logger.Error("old logs of processes were not forgotten", "err", err)
	}
}

// read serves process/read for a process that is gone.
func (a *Archive) read(ctx context.Context, p *protocol.ReadParams) (*protocol.ReadResult, error) {
	log, err := a.cfg.Store.Find(ctx, p.ProcessID)
	if errors.Is(err, ErrNoLog) {
		return nil, unknownProcess(p.ProcessID)
	}
	if err != nil {
		return nil, err
	}
	after, maxBytes := bounds(p)
	events, err := a.cfg.Store.Read(ctx, log.Log, after, maxBytes)
	if err != nil {
		return nil, err
	}
	page := Page{Events: events, Next: log.Info.NextSeq, Exit: log.Exit, Closed: true}
	result := readResult(&page, maxBytes, nil)
	if log.Exit == nil {
		result.Exited, result.Failure = true, &interrupted
	}
	return result, nil
}

// interrupted is the failure of a process that was running when its server died.
var interrupted = "interrupted: the server ended before the process did, whose exit is not known"

// list lists the processes that are gone.
func (a *Archive) list(ctx context.Context) ([]protocol.ProcessInfo, error) {
	logs, err := a.cfg.Store.List(ctx, maxListedLogs)
	if err != nil {
		return nil, err
	}
	infos := make([]protocol.ProcessInfo, len(logs))
	for i := range logs {
		infos[i] = logs[i].Info
		infos[i].Exited, infos[i].Closed = true, true
		if exit := logs[i].Exit; exit != nil {
			infos[i].ExitCode = &exit.Code
		}
	}
	return infos, nil
}
