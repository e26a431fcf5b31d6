// Package wsconn makes an rpc.Connection of a WebSocket, for either end.
//
// One message is one text frame on the way out; text and binary are taken on the
// way in, unless Config says otherwise. Pings are answered even while the other end reads slowly, without holding
// up what it sends. An idle connection has no goroutine and no buffer of its own.
//
// Config turns it into what carries relay frames: binary messages only, that belong to
// who reads them, over a connection that is given up when the other end is silent.
package wsconn

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

const (
	// closeWait bounds how long Close waits for whoever writes, to send its close frame, and
	// closeRoom how long for room in the socket, which there is unless the other end has
	// stopped to read.
	closeWait = 20 * time.Millisecond
	closeRoom = time.Second
	// lingerTime and lingerBytes bound what is still read after a fault, so that the
	// other end receives the close frame and not a reset.
	lingerTime  = time.Second
	lingerBytes = 4 * protocol.MaxMessageBytes
	// announced is how many times MaxMessageBytes a message may announce to have.
	announced = 4
	// controlWait bounds the write of a ping or pong, and the wait for who writes before.
	controlWait = 5 * time.Second
)

// Config is what a Conn may be told; the zero value works.
type Config struct {
	// MaxMessageBytes bounds an incoming message; 0 means protocol.MaxMessageBytes.
	MaxMessageBytes int64
	// PingInterval is the time between pings; 0 means none.
	PingInterval time.Duration
	// PongTimeout is how long a ping may go unanswered before the connection is given
	// up, with ErrSilent; messages are no answer. The next ping waits for the pong. 0
	// means that no answer is required: what keeps the connection's TCP alive is enough.
	PongTimeout time.Duration
	// WriteTimeout is how long a message may take to be written before the connection
	// is given up; 0 means for ever. With it, the context of Write ends the wait for
	// other writers alone: it does not tear a message, and with it the connection,
	// which others use too.
	WriteTimeout time.Duration
	// Binary is for messages that are binary. Read returns ErrText for one that is
	// text, which it skips; whoever wants to can read on.
	Binary bool
	// Text is for messages that are text. Read returns ErrBinary for one that is binary,
	// which it skips; whoever wants to can read on.
	Text bool
	// Owned is for messages that whoever reads them keeps, and changes.
	Owned bool
	// Unmasked is for the server's end, whose frames leave as they are: TryWrite then
	// writes short ones without another goroutine.
	Unmasked bool
	// Masked says the same of the client's end, whose frames are masked.
	Masked bool
}

var (
	// ErrText is returned by Read for a text message where messages are binary. The
	// connection can be read on.
	ErrText = errors.New("text message where messages are binary")
	// ErrBinary is returned by Read for a binary message where messages are text. The
	// connection can be read on.
	ErrBinary = errors.New("binary message where messages are text")
	// ErrSilent ends a connection whose other end does not answer pings.
	ErrSilent = errors.New("no answer to a ping")
)

// Conn is an rpc.Connection, an rpc.TryWriter, an rpc.FaultCloser and a Prober.
type Conn struct {
	ws    *websocket.Conn
	cfg   Config
	kind  int // of outgoing messages, as gorilla has it
	pings *pinger
	cause atomic.Pointer[error] // why this end gave the connection up; nil if it did not

	inRead      chan struct{}   // holds a token during a Read
	reading     context.Context // of the latest Read
	stopRead    func() bool
	readStopped chan struct{} // closed once the end of reading has taken effect
	buf         []byte        // of the latest Read
	charge      atomic.Int64  // for buf; 0 once it has been given back
	intake      intake        // of the messages; without an account unless Meter was called
	progress    *rpc.Account  // nil unless ReportTo was called
	faulted     atomic.Bool   // the other end broke the protocol; it has been sent a close frame
	closing     atomic.Bool   // the other end has said goodbye, and was answered

	raw     syscall.RawConn        // for TryWrite; nil where it cannot write itself
	writing chan struct{}          // holds a token while somebody writes
	pong    atomic.Pointer[string] // payload of a pong that waits for the writer

	hearing   sync.Mutex
	questions []question

	closed   chan struct{}
	shutting atomic.Bool // somebody closes it. Not a sync.Once: others would wait on a mutex
}

// New makes a Connection of an established WebSocket, which it owns from then on.
func New(ws *websocket.Conn, cfg Config) *Conn {
	if cfg.MaxMessageBytes == 0 {
		cfg.MaxMessageBytes = protocol.MaxMessageBytes
	}
	c := &Conn{
		ws: ws, cfg: cfg, kind: websocket.TextMessage,
		inRead: make(chan struct{}, 1), writing: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	if cfg.Binary {
		c.kind = websocket.BinaryMessage
	}
	if direct, ok := ws.NetConn().(syscall.Conn); ok && (cfg.Unmasked || cfg.Masked) {
		c.raw, _ = direct.SyscallConn() // without, TryWrite leaves all to Write
	}
	// A header that announces far too much is refused before what it announces has come.
	// Read's own limit is lower; what lies between is for messages that are skipped.
	ws.SetReadLimit(announced * cfg.MaxMessageBytes)
	ws.SetPingHandler(c.answerPing)
	ws.SetCloseHandler(c.answerClose)
	ws.SetPongHandler(func(payload string) error { c.pings.pong(); c.hear(payload); return nil })
	c.pings = startPings(c)
	return c
}

// Read implements rpc.Connection.
func (c *Conn) Read(ctx context.Context) ([]byte, error) {
	select {
	case c.inRead <- struct{}{}:
	case <-c.closed:
		return nil, rpc.ErrClosed
	}
	defer func() { <-c.inRead }()
	c.watch(ctx)
	if c.charge.Swap(0) > 0 || chargeFor(c.buf) == 0 {
		c.intake.release(c.buf)
	}
	c.buf = nil
	kind, r, err := c.ws.NextReader()
	if wrong := c.wrongKind(kind); err == nil && wrong != nil {
		c.hear("")
		return nil, wrong // NextReader skips what is left of it
	}
	var msg []byte
	switch {
	case err != nil:
	case c.cfg.Owned:
		msg, err = readOwned(r, c.cfg.MaxMessageBytes)
	default:
		msg, err = c.intake.readAll(ctx, r, c.cfg.MaxMessageBytes)
		c.buf = msg
		c.charge.Store(chargeFor(msg))
		select {
		case <-c.closed: // Close has given back what there was
			c.giveBack()
		default:
		}
	}
	if err != nil {
		return nil, c.readError(ctx, err)
	}
	c.hear("")
	return msg, nil
}

// giveBack gives back what was taken for buf, which stays valid, for there may be no Read
// any more that does.
func (c *Conn) giveBack() { c.intake.account.Give(c.charge.Swap(0)) }

// Meter implements rpc.Metered.
func (c *Conn) Meter(account *rpc.Account) { c.intake.account = account }

// ReportTo implements rpc.Reporter.
func (c *Conn) ReportTo(account *rpc.Account) { c.progress = account }

// wrongKind refuses messages that are not as Config says.
func (c *Conn) wrongKind(kind int) error {
	switch {
	case c.cfg.Binary && kind != websocket.BinaryMessage:
		return ErrText
	case c.cfg.Text && kind != websocket.TextMessage:
		return ErrBinary
	}
	return nil
}

func (c *Conn) readError(ctx context.Context, err error) error {
	select {
	case <-c.closed:
		return rpc.ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	if errors.Is(err, websocket.ErrReadLimit) {
		return rpc.ErrTooLarge
	}
	if errors.Is(err, rpc.ErrTooLarge) || rpc.IsBusy(err) {
		return err
	}
	if closing, ok := errors.AsType[*websocket.CloseError](err); ok {
		switch closing.Code {
		case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
			return io.EOF
		case websocket.CloseAbnormalClosure: // the end of TCP without a close frame
			return fmt.Errorf("connection cut: %w", io.ErrUnexpectedEOF)
		}
		return fmt.Errorf("closed by the other end: %w", err)
	}
	if _, isNet := errors.AsType[net.Error](err); !isNet {
		c.faulted.Store(true) // what is left is a breach of RFC 6455, answered with 1002
	}
	return err
}

// watch has the end of ctx end the read that waits. The watch is kept from read to
// read, as most have the same context.
func (c *Conn) watch(ctx context.Context) {
	if c.reading == ctx {
		return
	}
	if c.stopRead != nil && !c.stopRead() {
		<-c.readStopped // the last context ended after its read
		_ = c.ws.NetConn().SetReadDeadline(time.Time{})
	}
	stopped := make(chan struct{})
	c.reading, c.readStopped = ctx, stopped
	c.stopRead = context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = c.ws.NetConn().SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection only
	})
}

// Write implements rpc.Connection.
func (c *Conn) Write(ctx context.Context, msg []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case c.writing <- struct{}{}:
	case <-c.closed:
		return rpc.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	stop := func() bool { return true }
	if c.cfg.WriteTimeout > 0 {
		_ = c.ws.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)) // never fails
	} else if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = c.ws.NetConn().SetWriteDeadline(time.Unix(1, 0)) })
	}
	var err error
	if c.inParts(ctx, msg) {
		err = c.writeParts(msg)
	} else {
		err = c.ws.WriteMessage(c.kind, msg)
	}
	stop()
	c.written()
	return c.writeError(ctx, err)
}

func (c *Conn) writeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.closed:
		return rpc.ErrClosed
	default:
	}
	if c.cfg.WriteTimeout > 0 {
		return c.writeFailed(err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, websocket.ErrCloseSent) {
		c.faulted.Store(true) // the reader has answered a breach, and is about to say so
	}
	return err
}

// answerPing runs on the reading goroutine and must not wait for the writer.
func (c *Conn) answerPing(payload string) error {
	c.hear("")
	c.pong.Store(&payload)
	c.sendPong()
	return nil
}

// sendPong sends the pong that waits, unless somebody writes: they do it after.
func (c *Conn) sendPong() {
	for c.pong.Load() != nil {
		select {
		case c.writing <- struct{}{}:
		default:
			return
		}
		if payload := c.pong.Swap(nil); payload != nil {
			// A failure shows at the next write or read.
			_ = c.ws.WriteControl(websocket.PongMessage, []byte(*payload), time.Now().Add(controlWait))
		}
		<-c.writing
	}
}

// written lets others write.
func (c *Conn) written() {
	<-c.writing
	c.sendPong()
}

// control sends a control frame. It waits at most turn for whoever writes, and then at most
// room for room in the socket: a machine that stops for a moment in between does not keep
// the frame from being sent. A failure shows at the next write or read.
func (c *Conn) control(kind int, payload []byte, turn, room time.Duration) {
	select {
	case c.writing <- struct{}{}:
	default:
		timer := time.NewTimer(turn)
		defer timer.Stop()
		select {
		case c.writing <- struct{}{}:
		case <-timer.C:
			return
		}
	}
	_ = c.ws.WriteControl(kind, payload, time.Now().Add(room))
	c.written()
}

// answerClose answers a close frame with its own code.
func (c *Conn) answerClose(code int, _ string) error {
	c.closing.Store(true)
	c.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), closeRoom, closeRoom)
	return nil
}

// writeFailed gives up a connection that took too long to write, so that its reader
// learns of it.
func (c *Conn) writeFailed(err error) error {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		c.giveUp(fmt.Errorf("nothing could be written for %s: %w", c.cfg.WriteTimeout, err))
	}
	if cause := c.cause.Load(); cause != nil {
		return *cause
	}
	if errors.Is(err, websocket.ErrCloseSent) {
		c.faulted.Store(true)
	}
	return err
}

// giveUp ends TCP, and so what reads and writes, because of err.
func (c *Conn) giveUp(err error) {
	if c.cause.CompareAndSwap(nil, &err) {
		_ = c.ws.NetConn().Close()
	}
}

// Probe asks the other end for a sign of life and returns nil once there is one: a
// pong or a message. It needs a Read under way.
func (c *Conn) Probe(ctx context.Context) error { return c.ask(ctx, "") }

// Ping asks the other end to answer a ping and returns nil once that answer has come. A
// message is no answer: the other end may have sent it long before. Ping needs a Read under
// way.
func (c *Conn) Ping(ctx context.Context) error { return c.ask(ctx, rand.Text()) }

// A question waits for the pong to the ping of its payload, or without a payload for any
// sign of life.
type question struct {
	payload  string
	answered chan struct{}
}

func (c *Conn) ask(ctx context.Context, payload string) error {
	q := question{payload, make(chan struct{})}
	c.hearing.Lock()
	c.questions = append(c.questions, q)
	c.hearing.Unlock()
	go func() { // ends within twice controlWait
		c.control(websocket.PingMessage, []byte(payload), controlWait, controlWait)
	}()
	var err error
	select {
	case <-q.answered:
		return nil
	case <-c.closed:
		err = rpc.ErrClosed
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.hearing.Lock()
	defer c.hearing.Unlock()
	c.questions = slices.DeleteFunc(c.questions, func(other question) bool { return other == q })
	return err
}

// hear answers the questions that a sign of life answers. pong is the payload of a pong, ""
// for anything else.
func (c *Conn) hear(pong string) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	c.questions = slices.DeleteFunc(c.questions, func(q question) bool {
		answers := q.payload == "" || q.payload == pong
		if answers {
			close(q.answered)
		}
		return answers
	})
}

// Close implements rpc.Connection.
func (c *Conn) Close() error { return c.close(websocket.CloseNormalClosure, "", false) }

// CloseFault implements rpc.FaultCloser.
func (c *Conn) CloseFault(code int, reason string) error {
	return c.close(code, reason, true)
}

func (c *Conn) close(code int, reason string, linger bool) error {
	if !c.shutting.CompareAndSwap(false, true) {
		return nil
	}
	linger = linger || c.faulted.Load()
	close(c.closed)
	c.giveBack()
	c.pings.stop()
	const maxReason = 123 // RFC 6455, section 5.5
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	c.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), closeWait, closeRoom)
	if linger {
		go c.linger() // ends after lingerTime
		return nil
	}
	return c.ws.Close()
}

// interrupt ends a Read under way and keeps others from beginning.
func (c *Conn) interrupt() {
	for {
		_ = c.ws.NetConn().SetReadDeadline(time.Unix(1, 0))
		select {
		case c.inRead <- struct{}{}:
			return
		case <-time.After(time.Millisecond): // a Read that began just now has set it back
		}
	}
}

// linger reads on after a fault: closing with data unread would make the kernel
// send a reset, which can overtake the close frame.
func (c *Conn) linger() {
	conn := c.ws.NetConn()
	c.interrupt()
	_ = conn.SetDeadline(time.Now().Add(lingerTime))
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, conn, lingerBytes)
	_ = c.ws.Close()
}
