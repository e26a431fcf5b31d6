package process

import (
	"context"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// errUnfinished is the failure of a start that did not come to an end.
var errUnfinished = errors.New("the start was not finished")

// start serves process/start. A process is started at most once for a request: a
// repeat finds the process of the first, even one that has ended, or shares the
// failure of a first that is under way.
func (s *Service) start(ctx context.Context, p *protocol.StartParams) (*protocol.StartResult, error) {
	r, err := check(p, s.environ)
	if err != nil {
		return nil, err
	}
	sum, err := digest(p)
	if err != nil {
		return nil, err
	}
	e, fresh, err := s.reserve(p.ProcessID, sum)
	if err != nil {
		return nil, err
	}
	if !fresh {
		if err := e.wait(ctx); err != nil {
			return nil, err
		}
		return &protocol.StartResult{ProcessID: e.id, SandboxType: e.sandboxType, Attached: true, Limits: e.group.Report()}, nil
	}
	defer s.starts.Done()
	defer close(e.ready)
	defer func() {
		if e.err != nil {
			s.free(e)
		}
	}()
	e.err = errUnfinished // should begin panic
	if e.err = s.begin(e, r); e.err != nil {
		return nil, e.err
	}
	rpc.AfterReply(ctx, func() { close(e.replied) })
	return &protocol.StartResult{ProcessID: e.id, SandboxType: e.sandboxType, Limits: e.group.Report()}, nil
}

// begin starts the child of e and everything that serves it.
func (s *Service) begin(e *entry, r *request) error {
	log, err := s.cfg.OpenLog(e.id)
	if err != nil {
		return spawnFailed("open output log", err, "")
	}
	started, err := s.launch(r)
	if err != nil {
		if closeErr := log.Close(); closeErr != nil {
			s.cfg.Logger.Error("output log did not close", "process", e.id, "err", closeErr)
		}
		return err
	}
	e.pid, e.argv, e.cwd = started.child.PID, cutArgv(r.params.Argv), fileuri.Format(r.dir)
	e.startedAt, e.sandboxType = time.Now(), started.sandboxType
	e.job = &job{
		child: started.child, log: log, group: started.group,
		tty:       r.params.TTY,
		sandboxed: started.sandboxType != protocol.SandboxNone,
		timeout:   r.timeout,
		logger:    s.cfg.Logger.With("process", e.id),
		logged:    func(event *eventlog.Event) { s.tell(e, event) },
		ended:     func() { s.keep(e) },
	}
	if log, ok := log.(*eventlog.Log); ok {
		name, peer := s.cfg.Client()
		log.Describe(eventlog.Info{
			Origin: eventlog.OriginSession, ID: e.id, SessionID: s.cfg.SessionID, Client: name, Peer: peer, PID: e.pid, Argv: e.argv, Cwd: e.cwd,
			TTY: e.tty, Sandbox: e.sandboxType, Started: e.startedAt,
		})
	}
	e.holders.Store(2) // the entry's and the publisher's
	e.job.start()
	if e.group != nil {
		s.wg.Go(func() { e.group.Watch(s.lifetime.Done()) }) // ends with all that the command has started
	}
	s.wg.Go(func() { // ends with the process or the service; waited for by Close
		defer e.release()
		s.publish(e)
	})
	s.cfg.Logger.Debug("process started", "process", e.id, "pid", e.pid, "tty", e.tty, "sandbox", e.sandboxType)
	return nil
}
