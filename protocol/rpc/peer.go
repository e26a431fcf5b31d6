package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A Handler gets what a Peer reads. Its methods are called one at a time, in the
// order of arrival, and the Peer reads nothing until they return, unless they have
// called the request's HandOff before: they must not wait for other messages, nor at
// all where the Connection is an Awaiter. The raw slices they are given are theirs until
// they return, or hand off.
type Handler interface {
	// HandleRequest sees to it that req is answered, at once or later.
	HandleRequest(ctx context.Context, req *Request)
	// HandleNotification returns an error for a notification that is not expected;
	// the other end is told.
	HandleNotification(ctx context.Context, method string, params []byte) error
}

// A Notifier sends notifications to a client.
type Notifier interface {
	// Notify returns once the notification is queued, in order with those before
	// it. While the queue is full it waits: that is how a slow reader holds back
	// whoever produces. It returns an error that is ErrClosed when nobody is there
	// to be told, and the context's error when ctx ends while it waits: one that has
	// ended before has it queue the notification or fail, at once.
	Notify(ctx context.Context, method string, params any) error
}

// PeerConfig is what a Peer may be told; the zero value works for a client.
type PeerConfig struct {
	// Handler may be nil for a peer that only calls: requests are refused and
	// notifications dropped.
	Handler Handler
	// Logger is used for what the other end cannot be told. nil discards.
	Logger *slog.Logger
	// Unreadable, if set, is called as a Handler's methods are, for a message that cannot be
	// read: a request or a notification may be lost.
	Unreadable func()
	// ParsePrefix begins the message of the error that answers an unparsable message.
	ParsePrefix string
	// MaxValues bounds the JSON values of an incoming message; 0 means
	// protocol.MaxJSONValues. A client sets more: what it asked for may be long.
	MaxValues int
	// Account is charged for the messages that are held, in and out; nil is for peers
	// whose other end is trusted with the memory of this one.
	Account *Account
	// OnlyAnswers says that this end serves no requests. It reads on although the account
	// has more than there is: others may have to have the answers to give theirs back.
	OnlyAnswers bool
	// Received and Sent, if set, are called with the size of each message in bytes, once it
	// has been read or written. They must not block.
	Received, Sent func(bytes int)
}

// A Peer speaks JSON-RPC on one Connection, in either role or both.
type Peer struct {
	conn    Connection
	await   Awaiter // conn, if it is one
	cfg     PeerConfig
	account *Account
	out     *outbox
	calls   calls
	window  window

	version2 atomic.Bool // write "jsonrpc":"2.0", as a request had it
	closed   chan struct{}
	cause    error         // why it closed; set before closed is
	shutting atomic.Bool   // somebody closes it. Not a sync.Once: others would wait on a mutex
	shutDown chan struct{} // closed when they have
	readOn   func()        // has a goroutine read; set by Serve
	takes    Taker         // take, as Serve runs it
	ended    chan error    // takes why reading has ended, from whoever read last
}

// NewPeer makes a Peer. Nothing is read until Serve runs.
func NewPeer(conn Connection, cfg PeerConfig) *Peer {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.ParsePrefix == "" {
		cfg.ParsePrefix = "failed to parse JSON-RPC message: "
	}
	if cfg.MaxValues == 0 {
		cfg.MaxValues = protocol.MaxJSONValues
	}
	p := &Peer{conn: conn, cfg: cfg, account: cfg.Account, closed: make(chan struct{}), shutDown: make(chan struct{}), ended: make(chan error, 1)}
	if !cfg.OnlyAnswers {
		p.window.account = cfg.Account
	}
	p.await, _ = conn.(Awaiter)
	if metered, ok := conn.(Metered); ok && p.account != nil {
		metered.Meter(p.account)
	}
	if reporter, ok := conn.(Reporter); ok && p.account != nil {
		reporter.ReportTo(p.account)
	}
	p.out = newOutbox(conn, p.account, func(err error) { p.shut(err, 0, "") })
	p.out.sent = cfg.Sent
	p.calls.peer = p
	return p
}

// Serve reads until the connection ends and returns why: nil after an orderly end.
// Requests may still be running then, and their answers are still written if the
// connection allows; Flush waits for what is queued and Close ends all of it.
func (p *Peer) Serve(ctx context.Context) error {
	// Another goroutine reads, so that a handler which that one is still in after
	// handing off does not keep the end of the connection from being seen.
	p.takes = func(msg []byte, err error, turn *handoff.Turn) { p.take(ctx, msg, err, turn) }
	p.readOn = func() { go p.read(ctx, handoff.NewTurn(nil)) } // ends with the connection, or with such a handler
	p.readOn()
	err := p.wait(ctx)
	switch {
	case errors.Is(err, ErrTooLarge):
		p.CloseFault(CloseTooLarge, err.Error())
	case IsBusy(err):
		p.CloseFault(CloseTryAgainLater, err.Error())
	}
	p.calls.end(err)
	select {
	case <-p.closed:
		return p.cause
	default:
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// wait returns why reading has ended. The end of ctx ends it, too, while no goroutine
// reads, who would see that.
func (p *Peer) wait(ctx context.Context) error {
	if p.await != nil {
		select {
		case err := <-p.ended:
			return err
		case <-ctx.Done():
			if p.await.Forget() {
				return context.Cause(ctx)
			}
		}
	}
	return <-p.ended
}

// read reads until the connection ends, the turn has been handed off, or nothing has arrived
// on a connection that says when something does. A turn that is not shared is of a goroutine
// that is the Peer's own, and may wait, or have much to do.
func (p *Peer) read(ctx context.Context, turn *handoff.Turn) {
	began := time.Now()
	for turn.Held() {
		if turn.Shared() && (p.window.isFull() || time.Since(began) >= quickTime) {
			p.readOn() // on such a goroutine
			return
		}
		msg, err := p.next(ctx)
		switch {
		case err != nil:
			p.ended <- err
			return
		case msg == nil:
			return
		}
		p.receive(ctx, msg, turn)
	}
}

// next returns the next message; nil if take gets it.
func (p *Peer) next(ctx context.Context) ([]byte, error) {
	if err := p.window.wait(ctx, p.closed); err != nil {
		return nil, err
	}
	if p.await != nil {
		msg, err := p.await.Await(p.takes)
		if msg == nil && err == nil && ctx.Err() != nil && p.await.Forget() {
			err = context.Cause(ctx) // wait has found nothing to forget
		}
		return p.checked(msg, err)
	}
	return p.checked(p.conn.Read(ctx))
}

// checked counts a message, and refuses one that is longer than the account allows for now,
// which a Metered connection does itself.
func (p *Peer) checked(msg []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if msg != nil && p.cfg.Received != nil {
		p.cfg.Received(len(msg))
	}
	return msg, p.account.CheckMessage(len(msg))
}

// take is the Peer's Taker. It takes what came meanwhile, too.
func (p *Peer) take(ctx context.Context, msg []byte, err error, turn *handoff.Turn) {
	msg, err = p.checked(msg, err)
	if err != nil {
		p.ended <- err
		return
	}
	p.receive(ctx, msg, turn)
	p.read(ctx, turn)
}

// maxLoggedError bounds what is logged of an error that the other end sent.
const maxLoggedError = 1024

// maxInPlace is how long a message may be to be parsed where others are received, too: to
// parse and decode one takes about as long as a quick request may.
const maxInPlace = 1 << 20

// receive handles a message.
func (p *Peer) receive(ctx context.Context, msg []byte, turn *handoff.Turn) {
	if turn.Shared() && len(msg) > maxInPlace {
		turn.Message().HandOff()
		own := handoff.NewTurn(nil)
		p.receive(ctx, msg, own)
		p.read(ctx, own)
		return
	}
	env, err := wire.ParseEnvelope(msg, wire.Limits{Depth: protocol.MaxJSONDepth, Values: p.cfg.MaxValues})
	if err != nil {
		if p.cfg.Unreadable != nil {
			p.cfg.Unreadable()
		}
		p.refuse(err)
		return
	}
	switch env.Kind {
	case wire.Response:
		if env.ID == faultID && env.Error != nil {
			// It tells of a fault of ours. Answering it would never end.
			p.cfg.Logger.Warn("the other end could not use a message", "error", string(env.Error[:min(len(env.Error), maxLoggedError)]))
			return
		}
		if !p.calls.settle(&env) {
			p.fault(protocol.Errorf(protocol.CodeInvalidRequest, "response to no request: id %v is not waiting for one", env.ID))
		}
	case wire.Notification:
		if p.cfg.Handler == nil {
			return
		}
		if err := p.cfg.Handler.HandleNotification(ctx, env.Method, env.Params); err != nil {
			p.fault(WireError(err))
		}
	case wire.Request:
		if env.Version2 {
			p.version2.Store(true)
		}
		req := &Request{
			ID: env.ID, Method: env.Method, Params: env.Params, Trace: env.Trace,
			peer: p, version2: env.Version2, size: len(msg), handling: turn.Message(),
		}
		p.window.add(req.size)
		if p.cfg.Handler == nil {
			req.ReplyInline(nil, protocol.Errorf(protocol.CodeMethodNotFound, "this end serves no methods, `%s` included", env.Method))
			return
		}
		p.cfg.Handler.HandleRequest(ctx, req)
		req.handling.Handled()
	}
}

// faultID is the id of errors that answer no request.
var faultID = wire.IntID(-1)

// refuse answers a message that is none.
func (p *Peer) refuse(err error) {
	id := faultID
	if shape, ok := errors.AsType[*wire.ShapeError](err); ok && shape.ID.IsSet() {
		id = shape.ID
	}
	p.replyFault(id, protocol.Errorf(protocol.CodeInvalidRequest, "%s%s", p.cfg.ParsePrefix, err))
}

func (p *Peer) fault(failure *protocol.Error) { p.replyFault(faultID, failure) }

func (p *Peer) replyFault(id wire.ID, failure *protocol.Error) {
	p.window.add(0)
	p.reply(id, nil, failure, p.version2.Load(), false, 0, func() { p.window.remove(0) })
}

// reply queues the answer to a request, then calls queued. With wait it returns
// after that; without, a goroutine waits for room if there is none. loan is what the
// request has taken from the account. What of it the encoded answer does not need is
// given back once that is queued.
func (p *Peer) reply(id wire.ID, result any, failure *protocol.Error, version2, wait bool, loan int64, queued func()) {
	if p.Err() != nil { // nobody is there to be answered
		p.account.Give(loan)
		queued()
		return
	}
	msg := takeBuffer(wire.SizeHint(result))
	var err error
	if failure == nil {
		msg.b, err = wire.AppendResult(msg.b[:0], id, result, version2)
		if err != nil {
			p.cfg.Logger.Error("result has no encoding", "err", err)
			failure = protocol.Errorf(protocol.CodeInternal, "%v", err)
		}
	}
	if failure != nil {
		msg.b, err = wire.AppendError(msg.b[:0], id, failure, version2)
		if err != nil {
			p.cfg.Logger.Error("error data has no encoding", "err", err)
			msg.b, _ = wire.AppendError(nil, id, &protocol.Error{Code: failure.Code, Message: failure.Message}, version2)
		}
	}
	if err := p.cover(msg, loan, wait); err != nil {
		msg.recycle()
		msg = takeBuffer(0)
		msg.b, _ = wire.AppendError(msg.b[:0], id, WireError(err), version2)
		_ = p.cover(msg, loan, false)
	}
	if rest := loan - msg.held; rest > 0 {
		after := queued
		queued = func() { p.account.Give(rest); after() }
	}
	// It fails when the connection has ended, as its reader is told.
	if sent, _ := p.out.trySend(p.out.replies, msg); sent {
		queued()
		return
	}
	if wait {
		p.sendOwn(p.out.replies, msg)
		queued()
		return
	}
	go func() { // ends when the connection does at the latest
		p.sendOwn(p.out.replies, msg)
		queued()
	}()
}

// cover has the account hold what msg takes until it is written. loan is taken already.
// Only with wait may it wait, and fail.
func (p *Peer) cover(msg *buffer, loan int64, wait bool) error {
	need := msg.footprint()
	switch more := need - loan; {
	case more <= 0 || p.account.TryTake(more):
	case wait:
		ctx, cancel := p.lifetime(context.Background())
		defer cancel()
		if err := p.account.Take(ctx, more); err != nil {
			return err
		}
	default:
		p.account.Force(more)
	}
	msg.held = need
	return nil
}

// sendOwn sends a message that only the end of the connection may keep from being
// sent; that end is told elsewhere.
func (p *Peer) sendOwn(l lane, msg *buffer) {
	ctx, cancel := p.lifetime(context.Background())
	defer cancel()
	_ = p.out.send(ctx, l, msg)
}

// lifetime is ctx, ended with ErrClosed when the connection ends.
func (p *Peer) lifetime(ctx context.Context) (context.Context, context.CancelFunc) {
	return closableContext(ctx, p.closed)
}

// Notify implements Notifier.
func (p *Peer) Notify(ctx context.Context, method string, params any) error {
	msg := takeBuffer(wire.SizeHint(params))
	var err error
	if msg.b, err = wire.AppendRequest(msg.b[:0], wire.ID{}, method, params, p.version2.Load()); err != nil {
		return err
	}
	if msg.held = msg.footprint(); !p.account.TryTake(msg.held) {
		if err := p.awaitMemory(ctx, msg.held); err != nil {
			msg.held = 0
			msg.recycle()
			return err
		}
	}
	if sent, err := p.out.trySend(p.out.notifications, msg); sent {
		return err
	}
	ctx, cancel := p.lifetime(ctx)
	defer cancel()
	return p.out.send(ctx, p.out.notifications, msg)
}

// awaitMemory takes n bytes for a notification, however long that takes.
func (p *Peer) awaitMemory(ctx context.Context, n int64) error {
	ctx, cancel := p.lifetime(ctx)
	defer cancel()
	for {
		if err := p.account.Take(ctx, n); !IsBusy(err) {
			return err
		}
	}
}

// Account is the account that the Peer was made with.
func (p *Peer) Account() *Account { return p.account }

// Flush waits until everything queued so far is written.
func (p *Peer) Flush(ctx context.Context) error {
	return p.out.flush(ctx)
}

// Done is closed when the connection has been closed from this end or has failed.
func (p *Peer) Done() <-chan struct{} { return p.closed }

// Err returns nil while the connection is open, else why it is not; the error is
// ErrClosed.
func (p *Peer) Err() error {
	select {
	case <-p.closed:
		return closedError{p.cause}
	default:
		return nil
	}
}

// Close ends the connection and everything that waits on it.
func (p *Peer) Close() error {
	p.shut(nil, 0, "")
	return nil
}

// CloseFault ends the connection for a fault of the other end, telling it why.
func (p *Peer) CloseFault(code int, reason string) {
	p.shut(errors.New(reason), code, reason)
}

// shut closes, or waits for whoever does, which takes as long as the connection's Close.
func (p *Peer) shut(cause error, code int, reason string) {
	if !p.shutting.CompareAndSwap(false, true) {
		<-p.shutDown
		return
	}
	defer close(p.shutDown)
	p.cause = cause
	p.out.fail(closedError{cause})
	close(p.closed)
	p.calls.end(cause)
	var err error
	if code != 0 {
		err = closeFault(p.conn, code, reason)
	} else {
		err = p.conn.Close()
	}
	if err != nil {
		p.cfg.Logger.Debug("connection did not close cleanly", "err", err)
	}
}

// closedError is ErrClosed with a reason.
type closedError struct{ cause error }

func (e closedError) Error() string {
	if e.cause == nil {
		return ErrClosed.Error()
	}
	return ErrClosed.Error() + ": " + e.cause.Error()
}

func (e closedError) Is(target error) bool { return target == ErrClosed }
func (e closedError) Unwrap() error        { return e.cause }
