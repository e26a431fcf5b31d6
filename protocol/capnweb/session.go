package capnweb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"
)

// A Transport carries whole text messages in both directions. An rpc.Connection is one.
type Transport interface {
	// Read returns the next message, which stays valid until the next Read; io.EOF at an
	// orderly end, of which a WebSocket closed with CloseCode is one; an error that wraps
	// ErrBadMessage for a message that is no text, and ErrTooLarge for one that is not read
	// since it is longer than MaxMessageBytes. One caller at a time.
	Read(ctx context.Context) ([]byte, error)
	// Write sends one message and does not keep it. One caller at a time. It may wait for
	// as long as the peer does not read.
	Write(ctx context.Context, msg []byte) error
	// Close unblocks Read and Write and is safe to call again.
	Close() error
}

// A Transport that is a faultCloser is closed with a code and a reason.
type faultCloser interface {
	CloseFault(code int, reason string) error
}

// CloseCode is the WebSocket code with which sessions end, and maxReason how long the
// reason is that WebSockets take.
const (
	CloseCode = 3000
	maxReason = 123
)

// Config is what a session may be told; the zero value works.
type Config struct {
	// Main is the object that the peer finds at the other end; nil for none.
	Main *Target
	// MapError turns an error of a service into what the peer is told; nil to leave it to
	// the rule: an *Error in its chain is told, of anything else only that it happened.
	MapError func(error) *Error
	// Logger is told of errors that peers are not told; nil discards.
	Logger *slog.Logger
	// Memory is what the session takes for what it holds. Beyond its share calls, values
	// and streams of the peer are rejected. nil leaves the limits of this package alone.
	Memory Memory

	batch    bool // of an HTTP server: no streams out, and what is pending ends with the input
	autoPull bool // of an HTTP client: each call asks for its answer at once
	held     bool // frames are taken from the outbox, not written
	bounds   bounds
}

// A Session is one connection with one peer, both ends of which may call the other. It
// is safe for concurrent use.
type Session struct {
	t      Transport
	cfg    Config
	max    bounds
	memory Memory
	log    *slog.Logger
	ctx    context.Context // of the calls that it serves
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	work []func() // what settling has made due; run under mu, in order, before it is given up

	exports    map[int64]*export
	nextExport int64 // the number of the peer's next push, stream or pipe
	nextOwn    int64 // of the next object that this end exports by itself, negative
	byTarget   map[*Target]int64

	imports    map[int64]*promise
	nextImport int64 // the number of this end's next push, stream or pipe
	main       *promise

	turns       chan struct{} // holds one for each turn of a pump
	lane        lane
	callBytes   int
	heldBytes   int
	streamBytes int
	unread      map[*pipe]struct{} // pipes with chunks that nobody has taken, released or not
	weighed     int                // that memory holds
	unanswered  int                // exports that the peer pulled and that have no answer
	answered    chan struct{}      // of a batch: closed when it falls to 0

	out      outbox
	unwrote  error // of the write that failed
	ended    error // why; nil while it has not
	done     chan struct{}
	flush    *time.Timer // since the end: gives up writing
	routines int
	quiet    chan struct{} // closed when it has ended and so have its goroutines
}

// An export is what the peer may refer to by its number.
type export struct {
	subject any   // *Target, *promise or *pipe
	refs    int64 // that the peer has to release
	pulled  bool
	auto    bool // released with its answer
}

// New starts a session over t, which it owns from then on. Wait or Close it.
func New(t Transport, cfg Config) *Session {
	s := &Session{
		t: t, cfg: cfg, log: cfg.Logger, memory: cfg.Memory,
		exports: map[int64]*export{}, nextExport: 1, nextOwn: -1, byTarget: map[*Target]int64{},
		imports: map[int64]*promise{}, nextImport: 1, unread: map[*pipe]struct{}{},
		turns: make(chan struct{}, MaxChunksAhead),
		done:  make(chan struct{}), quiet: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.memory == nil {
		s.memory = noMemory{}
	}
	if s.cfg.bounds == (bounds{}) {
		s.cfg.bounds = defaultBounds
	}
	s.max = s.cfg.bounds
	s.out.wake = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	main := &export{refs: 1}
	if cfg.Main != nil {
		cfg.Main.retain()
		main.subject = cfg.Main
	} else {
		p := s.newPromise()
		p.done, p.failed = true, &Error{Message: "This connection has no main object."}
		s.keep(p)
		main.subject = p
	}
	s.exports[0] = main
	s.main = &promise{s: s, imported: true, object: true, remote: 1, refs: 1}
	s.imports[0] = s.main
	s.lock()
	s.spawn(s.read)
	s.spawn(s.write)
	s.unlock()
	return s
}

// Serve serves main over t until the session has ended, or ctx has. It returns nil when
// the peer went away or ended the session in order.
func Serve(ctx context.Context, t Transport, cfg Config) error {
	s := New(t, cfg)
	stop := context.AfterFunc(ctx, func() { s.Abort(&Error{Message: "the server goes away"}) })
	defer stop()
	err := s.Wait()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Main is the peer's main object.
func (s *Session) Main() *Stub { return &Stub{s: s, ref: s.main, view: true} }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err says why the session has ended; nil before.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Wait waits until the session has ended, with the calls that it serves, and says why: an
// error that is ErrClosed when it was closed by one of the ends, an *AbortError when the
// peer aborted it, a *ProtocolError when this end did because of the peer.
func (s *Session) Wait() error {
	<-s.quiet
	return s.Err()
}

// Close ends the session as a JavaScript client does that disposes its main stub, and
// waits until its goroutines have ended. A Method must not call it, as that waits for the
// Method; Abort does not wait.
func (s *Session) Close() error {
	s.lock()
	s.end(ErrClosed, nil)
	s.unlock()
	<-s.quiet
	return nil
}

// Abort ends the session and tells the peer why.
func (s *Session) Abort(reason error) {
	s.lock()
	s.end(reason, reason)
	s.unlock()
}

// Stats are the sizes of a session's tables. One of each is the main objects'.
type Stats struct{ Imports, Exports int }

// Stats counts what the ends hold of each other.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{len(s.imports), len(s.exports)}
}

func (s *Session) lock() { s.mu.Lock() }

// unlock does what has become due and gives up the lock.
func (s *Session) unlock() {
	for len(s.work) > 0 {
		f := s.work[0]
		s.work = s.work[1:]
		f()
	}
	s.work = nil
	s.weigh()
	s.mu.Unlock()
}

// later runs f under the lock, after what is due already.
func (s *Session) later(f func()) { s.work = append(s.work, f) }

// spawn runs f in a goroutine that Wait waits for. It is called under the lock.
func (s *Session) spawn(f func()) {
	s.routines++
	go func() {
		defer func() {
			s.lock()
			if s.routines--; s.routines == 0 && s.ended != nil {
				select {
				case <-s.quiet:
				default:
					s.flush.Stop()
					s.weigh()
					close(s.quiet)
				}
			}
			s.unlock()
		}()
		f()
	}()
}

// end ends the session; tell is what the peer is told, nil for nothing. It is called
// under the lock.
func (s *Session) end(reason, tell error) {
	if s.ended != nil {
		return
	}
	s.log.Debug("capnweb session ended", "err", reason)
	if tell != nil {
		enc := encodeError(tell, s.cfg.MapError)
		if len(enc.caps) == 0 {
			s.add(frame(`["abort",`, enc.text, `]`))
		}
	}
	s.ended = reason
	s.cancel(reason)
	close(s.done)
	s.out.ended = true
	s.out.free()
	s.out.signal()
	for _, e := range s.exports {
		if p, ok := e.subject.(*pipe); ok {
			s.pipeFail(p, reason)
		}
	}
	for p := range s.unread { // a released one is no export, and its reader may never have begun
		s.pipeFail(p, reason)
	}
	for id, p := range s.imports {
		delete(s.imports, id)
		switch {
		case p.onAnswer != nil:
			s.later(func() { p.onAnswer(reason) })
		default:
			p.imported = false
			s.fail(p, reason)
		}
	}
	for _, c := range s.lane.waiting {
		s.finish(c, nil, reason)
	}
	s.lane.waiting = nil
	for id, e := range s.exports {
		delete(s.exports, id)
		s.dropSubject(e.subject)
	}
	if s.answered != nil && s.unanswered > 0 {
		s.unanswered = 0
		close(s.answered)
	}
	s.flush = time.AfterFunc(FlushTimeout, func() { s.t.Close() }) // unblocks a Write
}

// read handles what the peer sends until the session ends.
func (s *Session) read() {
	for {
		msg, err := s.t.Read(context.Background())
		if err == nil {
			err = s.handle(msg)
		}
		if err == nil {
			continue
		}
		s.lock()
		switch protocol, isProtocol := errors.AsType[*ProtocolError](err); {
		case isProtocol:
			s.end(err, protocol)
		case errors.Is(err, ErrBadMessage):
			err = protocolErrorf("SyntaxError", "a message is not text")
			s.end(err, err)
		case errors.Is(err, io.EOF):
			s.end(fmt.Errorf("%w by the peer", ErrClosed), nil)
		case s.unwrote != nil: // the cause, and this what came of it
			s.end(lost(s.unwrote), nil)
		default:
			s.end(lost(err), nil)
		}
		s.unlock()
		return
	}
}

func lost(err error) error { return fmt.Errorf("capnweb: connection lost: %w", err) }

// unwritten ends the session after a write that failed. A peer that has ended it may have said
// why: that is read first.
func (s *Session) unwritten(err error) {
	s.lock()
	s.unwrote = err
	s.out.queue.Clear()
	s.out.bytes = s.out.writing
	s.unlock()
	late := time.NewTimer(lastWordsTime)
	defer late.Stop()
	select {
	case <-s.done:
	case <-late.C:
		s.lock()
		s.end(lost(err), nil)
		s.unlock()
	}
}

// write sends what is queued, and closes the transport after the end.
func (s *Session) write() {
	if s.cfg.held {
		<-s.done
	}
	for {
		s.lock()
		m, ok := s.nextMessage()
		ended := s.ended
		s.unlock()
		switch {
		case ok:
			err := s.t.Write(context.Background(), m.text)
			m.free()
			if err != nil {
				s.unwritten(err)
			}
		case ended != nil:
			s.closeTransport(ended)
			return
		default:
			<-s.out.wake
		}
	}
}

func (s *Session) closeTransport(reason error) {
	f, ok := s.t.(faultCloser)
	if !ok {
		s.t.Close()
		return
	}
	text := closeReason(reason)
	for len(text) > maxReason {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	_ = f.CloseFault(CloseCode, text)
	s.t.Close()
}

// closeReason is what JavaScript peers say, or would be told.
func closeReason(reason error) string {
	if errors.Is(reason, ErrClosed) {
		return "RPC session was shut down by disposing the main stub"
	}
	if a, ok := errors.AsType[*AbortError](reason); ok {
		reason = a.Reason
	}
	if e, ok := wireErrorOf(reason); ok {
		return e.Message
	}
	return "internal error"
}

func wireErrorOf(err error) (*Error, bool) {
	v, _ := wireError(err, nil)
	e, ok := v.(*Error)
	return e, ok
}
