package process

import (
	"context"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// maxListedLogs is how many processes that are gone one process/list shows.
const maxListedLogs = 1000

// interrupted is the failure of a process that was running when its server died.
var interrupted = "interrupted: the server ended before the process did, whose exit is not known"

// readRecorded serves process/read for a process that is gone.
func readRecorded(ctx context.Context, store eventlog.Store, p *protocol.ReadParams) (*protocol.ReadResult, error) {
	found, err := store.List(ctx, eventlog.Query{Origin: eventlog.OriginSession, ID: &p.ProcessID, Ended: true, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, unknownProcess(p.ProcessID)
	}
	log := &found[0]
	after, maxBytes := bounds(p)
	events, err := store.Read(ctx, log.Log, after, maxBytes, -1)
	if err != nil {
		return nil, err
	}
	page := eventlog.Page{Events: events, Next: log.Last + 1, Exit: log.Exit, Closed: true}
	result := readResult(&page, maxBytes, nil)
	if log.Exit == nil {
		result.Exited, result.Failure = true, &interrupted
	}
	return result, nil
}

// listRecorded lists the processes that are gone.
func listRecorded(ctx context.Context, store eventlog.Store) ([]protocol.ProcessInfo, error) {
	logs, err := store.List(ctx, eventlog.Query{Origin: eventlog.OriginSession, Ended: true, Limit: maxListedLogs})
	if err != nil {
		return nil, err
	}
	infos := make([]protocol.ProcessInfo, len(logs))
	for i := range logs {
		l := &logs[i]
		infos[i] = protocol.ProcessInfo{
			SessionID: l.SessionID, ProcessID: l.ID, PID: l.PID, Argv: l.Argv, Cwd: l.Cwd, TTY: l.TTY,
			StartedAtMs: l.Started.UnixMilli(), NextSeq: l.Last + 1, Exited: true, Closed: true, SandboxType: l.Sandbox, Number: l.Log,
		}
		if l.Exit != nil {
			infos[i].ExitCode = &l.Exit.Code
		}
	}
	return infos, nil
}
