package rendezvous

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
)

// An executor is the socket of one, and the streams that lead to it.
type executor struct {
	socket

	node              *Node
	env, registration string
	ticket            *ticket // with which it has come
	tokenID, remote   string
	meter             *meter
	began             time.Time
	count             counters
	claimed           atomic.Bool // the State says that it is here
	codex             bool        // it announces no profile of ours

	patience map[string]*patience // by the tokens of its harnesses; of the reader

	routing   sync.Mutex
	routes    map[string]*route // by stream id
	abandoned map[string]*route // those that are no routes any more while their handshakes are under way
	harnesses map[*harness]struct{}
	places    shares       // of harnesses
	crowd     atomic.Int64 // how many harnesses there are
	parted    []*route     // those without a socket, the one that parted first at first
	gone      bool
	ending    int       // of aside
	failures  int       // of handshakes, since codex's executor has paused
	pause     time.Time // codex's executor pauses until then

	aside sync.WaitGroup // those that tell the executor of an end
}

// A route says whose a stream is.
type route struct {
	stream  string
	subject string
	// profile is what the harness has asked for last. shaken: it has sent a handshake over
	// its socket; granted: the executor has answered that the stream is reliable; answered:
	// it knows the stream.
	profile                   frame.Profile
	shaken, granted, answered bool
	// pending says that a handshake is under way, which brakes count. open says that one
	// has succeeded.
	pending, open bool
	// socket is nil for a reliable stream that has lost its own, and may come back.
	socket *harness
	parted time.Time
}

// reliable says whether the stream outlives its harness's socket. After a handshake the
// executor's answer counts, not what the harness says: the executor must be told of the
// end of every other stream, or it would keep them for ever.
func (r *route) reliable() bool {
	return r.granted || r.profile == frame.Reliable && !r.shaken
}

func (e *executor) token() string { return e.tokenID }

// serve passes on what the executor sends, until its socket ends. The State says already
// that the executor is here.
func (e *executor) serve() {
	n := e.node
	defer n.release(e)
	defer e.meter.leave(false)
	n.mu.Lock()
	before := n.executors[e.env]
	n.executors[e.env] = e
	delete(n.attaching, e)
	n.mu.Unlock()
	if before != nil {
		before.shut(closePolicy, "replaced by a newer connection with the same keys")
	}
	n.log.Info("executor attached", "env", e.env, "conn", e.remote)
	n.audit.write("attach", slog.String("env", e.env), slog.String("token", e.tokenID),
		slog.String("registration", e.registration), slog.String("remote", e.remote))
	err := e.receive(e.pass)
	ended := errors.Is(err, io.EOF) // it has said goodbye
	e.shut(closeCode(err), "closed")
	e.end()
	e.aside.Wait()
	n.mu.Lock()
	if n.executors[e.env] == e {
		delete(n.executors, e.env)
	}
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), StateTimeout)
	defer cancel()
	if err := n.disclaim(ctx, e.env, e.registration, n.id, ended); err != nil {
		n.log.Warn("the state of the relay is not reached", "env", e.env, "err", err)
	}
	n.log.Info("executor gone", "env", e.env, "conn", e.remote, "dur", time.Since(e.began), "err", err)
	n.audit.write("detach", slog.String("env", e.env), slog.String("token", e.tokenID),
		slog.String("registration", e.registration), slog.String("remote", e.remote), slog.String("reason", e.why(err)),
		slog.Int64("bytesFromExecutor", e.count.out.Load()), slog.Int64("bytesToExecutor", e.count.in.Load()))
}

// has says whether e is attached here.
func (n *Node) has(e *executor) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.executors[e.env] == e
}

// holds says whether the executor of env with that registration is attached here.
func (n *Node) holds(env, registration string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.executors[env]
	return e != nil && e.registration == registration
}

// expects says whether it is about to be.
func (n *Node) expects(env, registration string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for e := range n.attaching {
		if e.env == env && e.registration == registration {
			return true
		}
	}
	return false
}

// pass passes a frame of the executor's on. What is no frame, or of a stream that nobody
// has, is dropped.
func (e *executor) pass(message []byte) error {
	if err := e.meter.pass(context.Background(), len(message)); err != nil {
		return err
	}
	g, ok := peek(message)
	if !ok {
		return nil
	}
	e.routing.Lock()
	r := e.routes[string(g.stream)]
	var h *harness
	if r == nil {
		e.late(g)
	} else {
		h = r.socket
		switch g.kind {
		case kindResume, kindHandshake:
			r.answered = true
			r.granted = r.granted || g.profile == frame.Reliable
			r.open = true
			if g.kind == kindHandshake {
				e.settle(r, false)
			}
		case kindReset:
			e.settle(r, e.blames(g))
			e.unbind(r)
			if r.answered && e.ending < MaxHarnesses {
				e.ending++
				e.aside.Go(func() { e.confirm(r.stream) })
			}
		}
	}
	e.routing.Unlock()
	if h == nil {
		return nil
	}
	size := int64(len(message))
	e.count.add(&e.count.out, size)
	e.node.total.add(&e.node.total.out, size)
	h.count.add(&h.count.in, size)
	h.meter.charge(len(message))
	h.send(message)
	return nil
}

// blames says whether a reset is a harness's fault, if it answers a handshake. Called with
// routing.
func (e *executor) blames(g glance) bool {
	now := time.Now()
	if g.blameless || now.Before(e.pause) {
		return false
	}
	if e.codex {
		if e.failures++; e.failures >= codexFailures {
			e.failures, e.pause = 0, now.Add(codexPause)
		}
	}
	return true
}

// late settles a handshake that its harness has given up before the answer came. Called
// with routing.
func (e *executor) late(g glance) {
	r := e.abandoned[string(g.stream)]
	if r == nil {
		return
	}
	if g.kind == kindHandshake || g.kind == kindReset {
		e.settle(r, g.kind == kindReset && e.blames(g))
	}
}

// confirm tells the executor that a stream is over that it has reset itself: one that
// does so because of a second handshake keeps the stream (noise-relay.md, section 6),
// and when its harness has gone nobody could end it any more.
func (e *executor) confirm(stream string) {
	e.writeReset(stream, "stream_ended")
	e.routing.Lock()
	e.ending--
	e.routing.Unlock()
}

// writeReset tells the executor that a stream has ended. It waits, bounded by
// WriteTimeout.
func (e *executor) writeReset(stream, reason string) {
	message, err := frame.Append(nil, &relayv1.RelayMessageFrame{
		Version: frame.Version, StreamId: stream,
		Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: reason}},
	})
	if err == nil {
		_ = e.conn.Write(context.Background(), message)
	}
}

// take passes a frame of the harness's on, if it is of a stream of its own, and waits
// while the executor's socket takes no more.
func (e *executor) take(h *harness, message []byte) error {
	g, ok := peek(message)
	if !ok {
		return nil
	}
	shakes := g.kind == kindHandshake
	if shakes && !e.node.brakes.enter(tenancy{h.token(), e.env}) {
		return nil
	}
	routed := e.route(h, g)
	if shakes {
		e.begin(h, g, routed)
	}
	if !routed {
		return nil
	}
	size := int64(len(message))
	e.count.add(&e.count.in, size)
	e.node.total.add(&e.node.total.in, size)
	h.count.add(&h.count.out, size)
	e.meter.charge(len(message))
	if err := e.conn.Write(context.Background(), message); err != nil { // bounded by WriteTimeout
		e.shut(closeGoingAway, "nothing can be written")
		return err
	}
	return nil
}

// route says whether a frame may go to the executor, and binds a new stream to the socket
// over which its first frame comes. A reliable stream may come back over another socket
// of the same subject; nobody else takes it over.
func (e *executor) route(h *harness, g glance) bool {
	e.routing.Lock()
	defer e.routing.Unlock()
	if e.gone {
		return false
	}
	r := e.routes[string(g.stream)]
	opens := g.kind == kindResume || g.kind == kindHandshake
	switch {
	case e.abandoned[string(g.stream)] != nil:
		return false // what the executor says next would be taken for an answer to this
	case r == nil:
		r = &route{stream: string(g.stream), subject: h.subject}
		if !opens || !h.hold(r) {
			return false
		}
		e.routes[r.stream] = r
	case r.socket != h:
		back := g.kind == kindResume && g.profile == frame.Reliable && r.reliable()
		before := r.socket
		if !back || r.subject != h.subject || !h.hold(r) {
			return false
		}
		if before != nil {
			before.drop(r)
		}
		e.forget(r)
		r.shaken = false
	}
	switch g.kind {
	case kindHandshake:
		r.profile, r.shaken = g.profile, true
	case kindResume:
		r.profile = g.profile
	case kindReset:
		e.unbind(r)
	}
	return true
}

// begin notes that a handshake is under way, which the brakes have let begin. One that
// goes nowhere, or comes while another is under way, is not.
func (e *executor) begin(h *harness, g glance, routed bool) {
	e.routing.Lock()
	r := e.routes[string(g.stream)]
	again := routed && r != nil && r.pending
	if routed && r != nil && !again {
		r.pending = true
		e.routing.Unlock()
		return
	}
	defer e.routing.Unlock()
	e.account(h.token(), again)
}

// settle ends the handshake of r, if one is under way. Called with routing.
func (e *executor) settle(r *route, failed bool) {
	if !r.pending {
		return
	}
	r.pending = false
	if e.abandoned[r.stream] == r {
		delete(e.abandoned, r.stream)
	}
	token, _, _ := strings.Cut(r.subject, ".")
	e.account(token, failed)
}

// abandon leaves the handshake of r, if one is under way, to the executor, which may have
// yet to say that it has failed. Called with routing.
func (e *executor) abandon(r *route) {
	if !r.pending || e.abandoned[r.stream] == r {
		return
	}
	if e.abandoned == nil {
		e.abandoned = map[string]*route{}
	}
	e.abandoned[r.stream] = r
	time.AfterFunc(AbandonedWait, func() {
		e.routing.Lock()
		defer e.routing.Unlock()
		e.settle(r, false)
	})
}

// account ends a handshake of a token. When too many have failed, the sockets of the token
// go that have opened no stream. Called with routing.
func (e *executor) account(token string, failed bool) {
	if !e.node.brakes.leave(tenancy{token, e.env}, failed) {
		return
	}
	e.node.log.Warn("too many handshakes of a token have failed", "token", token, "env", e.env)
	e.node.audit.write("paused", slog.String("env", e.env), slog.String("token", token))
	for h := range e.harnesses {
		if h.token() == token && !h.open() && !e.gone && e.ending < MaxHarnesses {
			e.ending++
			e.aside.Go(func() {
				h.shut(closePolicy, "too many handshakes have failed")
				e.routing.Lock()
				e.ending--
				e.routing.Unlock()
			})
		}
	}
}

// unbind ends a stream. Called with routing.
func (e *executor) unbind(r *route) {
	e.abandon(r)
	delete(e.routes, r.stream)
	if r.socket != nil {
		r.socket.drop(r)
	}
	e.forget(r)
}

// forget takes r from those that have parted. Called with routing.
func (e *executor) forget(r *route) {
	for i, p := range e.parted {
		if p == r {
			e.parted = append(e.parted[:i], e.parted[i+1:]...)
			return
		}
	}
}

// add counts a harness's socket in; false if the executor has gone, or has as many as it
// may.
func (e *executor) add(h *harness) bool {
	e.routing.Lock()
	defer e.routing.Unlock()
	if e.gone || !e.places.take(h.token(), MaxHarnesses) {
		return false
	}
	e.harnesses[h] = struct{}{}
	e.crowd.Store(int64(len(e.harnesses)))
	if len(e.harnesses) == 2 { // what is waited for is one of several from now on
		for other := range e.harnesses {
			other.nudge()
		}
	}
	return true
}

// remove is the end of a harness's socket. The executor is told of the streams that
// cannot come back, so that their sessions can be resumed (registry.md, section 6); of
// reliable ones only their owner is kept.
func (e *executor) remove(h *harness) {
	now := time.Now()
	e.routing.Lock()
	if _, there := e.harnesses[h]; there {
		delete(e.harnesses, h)
		e.places.give(h.token())
		e.crowd.Store(int64(len(e.harnesses)))
	}
	var lost []string
	for id, r := range h.streams {
		if !r.reliable() {
			lost = append(lost, id)
			e.unbind(r)
			continue
		}
		e.abandon(r)
		h.drop(r)
		r.socket, r.parted = nil, now
		e.parted = append(e.parted, r)
	}
	for len(e.parted) > 0 && (len(e.parted) > MaxParted || now.Sub(e.parted[0].parted) > PartedLife) {
		delete(e.routes, e.parted[0].stream)
		e.parted = e.parted[1:]
	}
	gone := e.gone
	e.routing.Unlock()
	if gone {
		return
	}
	for _, id := range lost {
		e.writeReset(id, "harness_disconnected")
	}
}

// end closes the sockets of the executor's harnesses, which recover by themselves.
func (e *executor) end() {
	e.routing.Lock()
	e.gone = true
	for _, all := range []map[string]*route{e.routes, e.abandoned} {
		for _, r := range all {
			e.settle(r, false)
		}
	}
	left := make([]*harness, 0, len(e.harnesses))
	for h := range e.harnesses {
		left = append(left, h)
	}
	e.routing.Unlock()
	for _, h := range left {
		h.shut(closeGoingAway, "the executor is gone")
	}
}
