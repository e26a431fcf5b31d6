package process

import (
	"context"
	"crypto/sha256"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// entry is a process id that is taken: by a start under way, a process, or one that
// is kept for readers.
type entry struct {
	id     string
	digest [sha256.Size]byte

	ready chan struct{} // closed once the start has succeeded or failed
	err   error         // why it failed; set before ready is closed, like all below
	*job
	pid         int
	argv        []string // cut, for listings
	cwd         string
	startedAt   time.Time
	sandboxType string

	replied chan struct{} // closed once the client knows of the process
	turn    turn          // of telling the client
	forget  *time.Timer   // guarded by Service.mu; nil until the process is closed
	holders atomic.Int32  // of the log
}

// wait returns nil once the process runs, else why it was not started. The requests
// behind the caller's run meanwhile if the wait is long.
func (e *entry) wait(ctx context.Context) error {
	select {
	case <-e.ready:
		return e.err
	default:
	}
	rpc.Async(ctx)
	select {
	case <-e.ready:
		return e.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release gives up a hold on the log; the last one closes it.
func (e *entry) release() {
	if e.holders.Add(-1) > 0 {
		return
	}
	if err := e.log.Close(); err != nil {
		e.logger.Error("output log did not close", "err", err)
	}
}

// cutArgv keeps as much of argv as a listing shows.
func cutArgv(argv []string) []string {
	left := protocol.MaxListedArgvBytes
	var kept []string
	for _, arg := range argv {
		if left <= 0 {
			return append(kept, "…")
		}
		if len(arg) > left {
			arg = arg[:left] + "…"
		}
		left -= len(arg) + 1
		kept = append(kept, arg)
	}
	return kept
}

// info is what process/list tells of a running or kept process.
func (e *entry) info(sessionID string) (protocol.ProcessInfo, error) {
	page, err := e.log.Read(nil, 0, 0)
	if err != nil {
		return protocol.ProcessInfo{}, err
	}
	page.Release()
	info := protocol.ProcessInfo{
		SessionID:   sessionID,
		ProcessID:   e.id,
		PID:         e.pid,
		Argv:        e.argv,
		Cwd:         e.cwd,
		TTY:         e.tty,
		StartedAtMs: e.startedAt.UnixMilli(),
		NextSeq:     page.Next,
		Closed:      page.Closed,
		SandboxType: e.sandboxType,
	}
	if log, ok := e.log.(*eventlog.Log); ok {
		info.Number = log.Number()
	}
	if page.Exit != nil {
		info.Exited, info.ExitCode = true, &page.Exit.Code
	}
	return info, nil
}
