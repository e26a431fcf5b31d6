package process

import (
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/limit"
)

// killDelay is the time between the SIGTERM and the SIGKILL of a deadline.
const killDelay = 2 * time.Second

// A job is one child of a session with its log, until everything of it has been logged.
type job struct {
	child     *Child
	log       Log
	group     *limit.Group // that the child is in; nil for one without limits
	tty       bool
	sandboxed bool
	timeout   time.Duration // 0 for none
	logger    *slog.Logger
	logged    func(*eventlog.Event) // called after each event; nil for none
	ended     func()                // called last, once everything is logged

	supervisor *Supervisor
	stdin      *stdin // nil when nothing can be written
	window     window
	changed    eventlog.Changes // after every event, and after failure is set

	mu         sync.Mutex
	terminated bool
	failure    string

	dropped chan struct{} // closed by terminate: no more output is wanted
	broken  chan struct{} // closed by fail
	done    chan struct{} // closed when nothing of the child is left
}

// start begins to supervise j.child.
func (j *job) start() {
	for _, ch := range []*chan struct{}{&j.dropped, &j.broken, &j.done} {
		*ch = make(chan struct{})
	}
	if j.child.Input != nil {
		j.stdin = newStdin(j.child.Input)
	}
	j.supervisor = NewSupervisor(Supervision{
		Child: j.child,
		Room:  func() bool { return j.window.wait(j.dropped) },
		Output: func(c Chunk) error {
			return j.append(eventlog.Event{Kind: eventlog.KindOutput, Stream: c.Stream, Data: c.Data})
		},
		Late: true,
		OnExit: func(status WaitStatus) {
			_ = j.append(eventlog.Event{Kind: eventlog.KindExited, Exit: j.exit(status)}) // append has noted the failure
		},
		Timeout: j.timeout, KillDelay: killDelay, Logger: j.logger,
	})
	go j.run() // ends with the child; waited for through done
}

func (j *job) run() {
	defer close(j.done)
	j.supervisor.Run()
	if j.stdin != nil {
		j.stdin.close()
	}
	_ = j.append(eventlog.Event{Kind: eventlog.KindClosed})
	j.ended()
}

// append logs an event and tells of it.
func (j *job) append(e eventlog.Event) error {
	if e.Kind == eventlog.KindOutput {
		// Counted first: the publisher may be done with the event before Append returns.
		j.window.add(len(e.Data))
	}
	seq, err := j.log.Append(e)
	if err != nil {
		j.fail(err)
	}
	j.changed.Announce()
	if err == nil && j.logged != nil {
		e.Seq = seq
		j.logged(&e)
	}
	return err
}

// fail ends a child whose log cannot be written: its output would be lost silently.
func (j *job) fail(err error) {
	j.mu.Lock()
	first := j.failure == ""
	if first {
		j.failure = "write output log: " + err.Error()
	}
	j.mu.Unlock()
	if first {
		j.logger.Error("output log cannot be written, the process is killed", "err", err)
		close(j.broken)
		j.terminate()
	}
}

// exit says how the child ended, when all it printed has been logged.
func (j *job) exit(status WaitStatus) *eventlog.Exit {
	exit := &eventlog.Exit{Code: status.ExitCode(j.tty), TimedOut: j.supervisor.HasTimedOut()}
	if status.Signal != 0 {
		exit.Signal = signalName(status.Signal)
	}
	exit.Limit = j.group.Cause(status.Code, status.Signal)
	if j.sandboxed && exit.Code != 0 {
		page, err := j.log.Read(nil, 0, -1)
		if err != nil {
			j.fail(err)
		}
		exit.SandboxDenied = sandboxDenied(exit.Code, page.Events)
		page.Release()
	}
	return exit
}

// terminate kills the group and drops what was not read, also what descendants that
// left the group may print. It returns whether the child was running and does not
// wait for its end.
func (j *job) terminate() (running bool) {
	running = !j.supervisor.HasExited()
	j.mu.Lock()
	first := !j.terminated
	j.terminated = true
	j.mu.Unlock()
	if first {
		j.supervisor.Kill()
		if j.stdin != nil {
			j.stdin.terminate()
		}
		close(j.dropped)
	}
	return running
}

// signal sends sig to the child or its group, unless the child has ended.
func (j *job) signal(sig syscall.Signal, group bool) error {
	if j.supervisor.HasExited() {
		return nil
	}
	return j.supervisor.Signal(sig, group)
}

// failed says why the log cannot be written, nil while it can.
func (j *job) failed() *string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure == "" {
		return nil
	}
	return &j.failure
}

// gone reports whether the child has ended, and whether nothing of it is left.
func (j *job) gone() (exited, closed bool) {
	return j.supervisor.HasExited(), isClosed(j.done)
}
