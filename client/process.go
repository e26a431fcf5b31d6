package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// ExitStatus is how a process ended.
type ExitStatus struct {
	// Code is the process's own status. A process killed by a signal has 128 plus its
	// number, on a PTY 1; -1 means that the server does not know.
	Code int
	// Signal is the name of the signal that ended the process, such as "SIGKILL"; ""
	// when it exited by itself or the server does not tell.
	Signal string
	// TimedOut is true when Command.Timeout ended it.
	TimedOut bool
	// Limit is the limit of Command.Limits that ended it, one of protocol.Limit*, or "".
	Limit string
	// SandboxDenied is true when it failed and it seems that the sandbox was why.
	SandboxDenied bool
}

// Process is a process that the Client started.
type Process struct {
	// Stdin is what the process reads; see Command.Stdin.
	Stdin *Stdin
	// Stdout and Stderr are what it prints. On a PTY, Stdout has all and Stderr ends at
	// once. Both must be read or closed: see the package's comment on slow readers.
	Stdout, Stderr *Stream

	client  *Client
	id      string
	limits  []protocol.LimitReport // set before settled is closed
	settled chan struct{}          // closed when the start has been answered
	exited  chan struct{}          // closed when the exit is known, or the process has failed
	done    chan struct{}          // closed when nothing more will arrive
	running context.Context
	stop    context.CancelCauseFunc // ends running: nothing reads stdin any more

	mu         sync.Mutex
	phase      phase
	session    string // that the start was sent in last; "" before
	startErr   error  // set before settled is closed
	abandoned  bool   // nobody waits for the start any more
	seq        sequence
	queued     int           // bytes that wait in the streams
	room       chan struct{} // non-nil while the connection waits for room
	overrun    bool          // output is left at the server until there is room
	missed     bool          // an event was dropped since the last recovery began
	recovering *link         // that a process/read is under way on
	page       uint64        // how many bytes it asks for, 0 for all there are
	paged      uint64        // up to where earlier such reads have told
	attached   *link         // the connection that has been caught up with, or is being
	exit       *exit         // nil until known
	exitSet    bool          // exited is closed
	tailCut    bool          // what is still to come is not waited for
	asked      bool          // whether the end was lost has been asked
	err        error         // why the process has failed
	changed    chan struct{} // non-nil while a reader waits

	timer   *time.Timer // nil unless armed
	armedAt uint64      // seq.last when it was armed
	armed   time.Duration
}

type phase uint8

const (
	starting phase = iota
	live
	ended // closed or failed
)

// errNotRunning is why stdin cannot be written any more.
var errNotRunning = errors.New("the process has ended")

// ID is the process's key in its session, not a pid.
func (p *Process) ID() string { return p.id }

// Limits says how each of the Limits of the command is enforced.
func (p *Process) Limits() []protocol.LimitReport { return p.limits }

// Seq is the number of the last event, output or exit or end, that has arrived
// without a gap before it.
func (p *Process) Seq() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq.last
}

// Wait returns how the process ended, or why that cannot be known. It does not wait
// for the output: descendants may go on printing, and Stdout and Stderr end when none
// of them has them open any more. Wait may be called again, and before or while the
// output is read.
func (p *Process) Wait(ctx context.Context) (ExitStatus, error) {
	select {
	case <-p.exited:
	case <-ctx.Done():
		select {
		case <-p.exited:
		default:
			return ExitStatus{}, context.Cause(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exitSet && p.exit != nil && p.exit.denied != nil {
		return p.exit.ExitStatus, nil
	}
	return ExitStatus{}, p.err
}

// Done is closed when nothing more will arrive of the process: it has exited, its
// output has ended and is in the buffers of Stdout and Stderr; or it has failed.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns why the process was lost, nil if it was not: ErrOutputLost,
// ErrSessionLost, ErrTransportClosed and others may be in it.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// handle takes an event from the reading goroutine. It waits while the buffer is
// full.
func (p *Process) handle(l *link, e event) {
	p.mu.Lock()
	room := p.take(e)
	p.mu.Unlock()
	if room == nil || l.stall(room) {
		return
	}
	p.mu.Lock()
	if p.room == room {
		p.room = nil
		p.overrun = true
	}
	p.mu.Unlock()
}

// take returns a channel to wait for when the buffer has become full. p.mu is held,
// as in the functions below.
func (p *Process) take(e event) chan struct{} {
	if p.phase == ended {
		return nil
	}
	if p.overrun && e.kind == outputEvent {
		p.missed = true
		return nil
	}
	if !p.seq.add(e, p.publish) {
		p.missed = true
	}
	if p.overrun && e.kind == exitedEvent {
		p.setExit(e) // those who Wait need not read first
	}
	p.arm()
	if p.overrun || p.phase == ended || p.queued < p.client.opts.OutputBuffer {
		return nil
	}
	if p.room == nil {
		p.room = make(chan struct{})
	}
	return p.room
}

// publish is called for each event in order.
func (p *Process) publish(e event) {
	switch e.kind {
	case outputEvent:
		p.stream(e.stream).push(e)
	case exitedEvent:
		p.setExit(e)
	case closedEvent:
		if p.exit == nil {
			p.end(errors.New("the server said that the process was closed, but not that it exited"))
			return
		}
		p.end(nil)
	}
}

func (p *Process) stream(name string) *Stream {
	if name == "stderr" {
		return p.Stderr
	}
	return p.Stdout
}

// setExit records the exit. An older server leaves out whether the sandbox was to
// blame, which one process/read then tells.
func (p *Process) setExit(e event) {
	if p.exit != nil {
		return
	}
	found := e.exit
	p.exit = &found
	p.stop(errNotRunning)
	if found.denied != nil {
		p.resolve(*found.denied)
		return
	}
	l, after := p.client.link(), e.seq-1
	if l != nil {
		p.client.spawn(func() { p.recover(l, &after) })
	}
}

// resolve completes the exit.
func (p *Process) resolve(denied bool) {
	if p.exitSet {
		return
	}
	p.exitSet = true
	p.exit.denied, p.exit.SandboxDenied = &denied, denied
	close(p.exited)
	if p.phase == ended {
		p.client.forget(p)
	}
}

// end lets nothing more arrive. err is nil when the end was published.
func (p *Process) end(err error) {
	if p.phase == ended {
		return
	}
	p.phase = ended
	p.err = err
	p.stop(errNotRunning)
	if err != nil && !p.exitSet {
		p.exitSet = true
		close(p.exited)
	}
	p.arm()
	p.makeRoom()
	p.wake()
	p.seq.early = nil
	close(p.done)
	if p.exitSet {
		p.client.forget(p)
	}
}

// fail ends the process for its readers. It may run on.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose(err)
}

// loseSession fails the process if its start was sent in that session.
func (p *Process) loseSession(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == id {
		p.lose(sessionLost(id))
	}
}

// makeRoom lets the connection go on.
func (p *Process) makeRoom() {
	if p.room != nil {
		close(p.room)
		p.room = nil
	}
}

// wake wakes the readers.
func (p *Process) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
