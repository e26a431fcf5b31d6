package rendezvous

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol/handoff"
)

// A harness is the socket of one.
type harness struct {
	socket

	node     *Node
	executor *executor
	// subject is the token's id and the fingerprint of the key that connect was asked with.
	subject string
	remote  string
	meter   *meter
	began   time.Time
	count   counters

	streams map[string]*route // of executor.routing

	room chan struct{} // wakes the executor's reader when the queue is shorter, or its patience

	queueing sync.Mutex
	queue    handoff.Queue[[]byte]
	bytes    int // of what waits, and of what is being written and has waited
	over     bool
	sender   *handoff.Sender[[]byte]
}

func newHarness(n *Node, e *executor, subject, remote string) *harness {
	h := &harness{
		node: n, executor: e, subject: subject, remote: remote, began: time.Now(),
		streams: map[string]*route{}, room: make(chan struct{}, 1),
	}
	h.sender = handoff.NewSender(handoff.SenderConfig[[]byte]{
		Lock: &h.queueing, Next: h.queue.Pop, Try: h.tryWrite, Send: h.write,
	})
	return h
}

func (h *harness) token() string {
	id, _, _ := strings.Cut(h.subject, ".")
	return id
}

func (h *harness) key() string {
	_, key, _ := strings.Cut(h.subject, ".")
	return key
}

// hold makes h the socket of a stream; false if it, or its token, has as many streams as
// it may. Called with executor.routing, as drop is.
func (h *harness) hold(r *route) bool {
	if len(h.streams) >= MaxStreams || len(h.streams) > 0 && !h.meter.more() {
		return false
	}
	r.socket, h.streams[r.stream] = h, r
	return true
}

// drop takes a stream from h.
func (h *harness) drop(r *route) {
	delete(h.streams, r.stream)
	if len(h.streams) > 0 {
		h.meter.less()
	}
}

// serve passes on what the harness sends, until its socket ends.
func (h *harness) serve() {
	n, e := h.node, h.executor
	defer n.release(h)
	defer h.meter.leave(true)
	who := []slog.Attr{
		slog.String("env", e.env), slog.String("token", h.token()), slog.String("key", h.key()), slog.String("remote", h.remote),
	}
	n.audit.write("enter", who...)
	err := h.receive(func(message []byte) error {
		if err := h.meter.pass(context.Background(), len(message)); err != nil {
			return err
		}
		return e.take(h, message)
	})
	h.shut(closeCode(err), "closed")
	e.remove(h)
	h.stop()
	_ = h.sender.Wait(context.Background()) // ends, since the socket is closed
	n.audit.write("leave", append(who, slog.String("reason", h.why(err)),
		slog.Int64("bytesFromHarness", h.count.out.Load()), slog.Int64("bytesToHarness", h.count.in.Load()))...)
}

// open says that a stream of h was opened. Called with executor.routing.
func (h *harness) open() bool {
	for _, r := range h.streams {
		if r.open {
			return true
		}
	}
	return false
}

// send queues a frame. When too much waits already it waits for room: codex has no other
// means against a peer that is faster than it is, and its harness would lose its
// connection in the middle of a long output. Reliable streams have a window and never
// come here. The executor's socket is not read meanwhile, so a harness that shares its
// executor with others has little time for that, all harnesses of its token together, and
// one that takes nothing at all not much more; then it loses its connection.
func (h *harness) send(message []byte) {
	var began time.Time
	for {
		h.queueing.Lock()
		if h.over {
			h.queueing.Unlock()
			return
		}
		if !h.full(cap(message)) {
			break
		}
		h.queueing.Unlock()
		now := time.Now()
		if began.IsZero() {
			began = now
			defer func() { h.executor.patient(h.token()).spend(began, time.Now()) }()
		}
		patience := StallTime
		if h.executor.crowd.Load() > 1 {
			patience = h.executor.patient(h.token()).left(began)
		}
		timer := time.NewTimer(began.Add(patience).Sub(now))
		select {
		case <-h.room:
			timer.Stop()
		case <-timer.C:
			h.node.log.Warn("a harness reads too slowly", "env", h.executor.env, "conn", h.remote)
			h.stop()
			h.shut(closeOverload, "reads too slowly")
			return
		}
	}
	if h.sender.Busy() {
		h.weigh(cap(message))
	}
	h.queue.Push(message)
	h.sender.StartAsync() // serve waits for it
	h.queueing.Unlock()
}

// tryWrite writes what the socket takes at once. That needs no goroutine, which would wake
// an idle processor. What is left is weighed until it is written.
func (h *harness) tryWrite(message []byte) (finish func()) {
	rest, err := h.conn.TryWrite(message)
	if rest == nil {
		h.check(err)
		return nil
	}
	h.queueing.Lock()
	if !h.over {
		h.weigh(cap(message))
	}
	h.queueing.Unlock()
	return func() { h.wrote(message, rest()) }
}

// write writes a message that was weighed.
func (h *harness) write(message []byte) {
	h.wrote(message, h.conn.Write(context.Background(), message)) // bounded by WriteTimeout
}

func (h *harness) wrote(message []byte, err error) {
	h.queueing.Lock()
	if !h.over {
		h.weigh(-cap(message))
	}
	h.queueing.Unlock()
	h.nudge()
	h.check(err)
}

// check ends the connection after a write that failed.
func (h *harness) check(err error) {
	if err != nil {
		h.stop()
		h.shut(closeGoingAway, "nothing can be written")
	}
}

// full says that n more bytes must wait. Called with queueing.
func (h *harness) full(n int) bool {
	if h.queue.Len() >= MaxQueuedFrames || h.bytes+n > MaxQueuedBytes {
		return true
	}
	// A token may have as much as is left, as with shares.
	return h.bytes > minQueue && h.meter.queued.Load() > MaxQueued-h.node.queued.Load()
}

// weigh adds n bytes to what is queued: of memory that is held, not of messages. Called
// with queueing.
func (h *harness) weigh(n int) {
	h.bytes += n
	h.node.queued.Add(int64(n))
	h.meter.queued.Add(int64(n))
}

// stop ends the queue.
func (h *harness) stop() {
	h.queueing.Lock()
	h.over = true
	h.queue.Clear()
	h.weigh(-h.bytes)
	h.queueing.Unlock()
	h.nudge()
}

// nudge has whoever waits for room look again.
func (h *harness) nudge() {
	select {
	case h.room <- struct{}{}:
	default:
	}
}

// patience is how long the harnesses of a token may still keep others waiting.
type patience struct {
	spent time.Duration
	at    time.Time
}

// left says so. A tenth of the time that passes comes back.
func (p *patience) left(now time.Time) time.Duration {
	if p.at.IsZero() {
		return SharedStallTime
	}
	p.spent = max(0, p.spent-now.Sub(p.at)/10)
	p.at = now
	return max(0, SharedStallTime-p.spent)
}

func (p *patience) spend(from, to time.Time) { p.spent, p.at = p.spent+to.Sub(from), to }

// maxPatience bounds the tokens whose patience an executor's socket remembers.
const maxPatience = 1024

// patient returns the patience of a token. Called by the executor's reader alone.
func (e *executor) patient(token string) *patience {
	p := e.patience[token]
	if p != nil {
		return p
	}
	if e.patience == nil {
		e.patience = map[string]*patience{}
	}
	for other, p := range e.patience { // those that are as new are not remembered
		if len(e.patience) >= maxPatience || p.left(time.Now()) == SharedStallTime {
			delete(e.patience, other)
		}
	}
	p = &patience{}
	e.patience[token] = p
	return p
}
