package relay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// StreamConfig says what a Stream is made of. ID, Profile, Transport and Carrier must be
// set.
type StreamConfig struct {
	ID      string
	Profile frame.Profile
	// Transport is what the handshake came to. It is the stream's from then on.
	Transport *seal.Transport
	// Carrier is the socket that the handshake went over. It is not the stream's: other
	// streams may use it. Whoever reads it closes it, and calls Detach, also for a write
	// that failed: such a socket must not be silent to its reader.
	Carrier Carrier
	// Life and GiveUp are those of arq.Config.
	Life, GiveUp time.Duration
	// OnSilent is called when the peer of a reliable stream is silent over a socket that
	// seems to work: a harness should replace the socket.
	OnSilent func()
	// OnEnd is called once, when the stream has ended, with what Err returns.
	OnEnd func(error)
	// Trace may be nil.
	Trace  Trace
	Logger *slog.Logger
	// Rand spreads heartbeats; nil does not. The stream owns it from then on.
	Rand *rand.Rand
}

// A Stream is one end of a relay stream: an rpc.Connection and an rpc.FaultCloser.
type Stream struct {
	cfg  StreamConfig
	log  *slog.Logger
	seal sealing

	life context.Context // ends the last writes
	end  context.CancelFunc
	turn chan struct{} // holds a token while a message is being cut
	done chan struct{} // closed when the stream has ended
	gone chan struct{} // closed when the peer was told, or could not be
	once sync.Once     // finish
	// Each wakes whoever waits for it, to look at the state again.
	readable, writable, room signal

	// Of whoever sends: the frame that is sent, and its head, or all of it; and the
	// number of the first segment that was not sent yet.
	departing departure
	out       outgoing
	head      []byte
	unsent    int64

	progress *rpc.Account // nil unless ReportTo was called

	mu      sync.Mutex
	sender  *handoff.Sender[*departure] // takes frames from arq and writes them
	arq     *arq.Stream
	now     time.Time // for the first frame that leave looks for; else zero
	carrier Carrier   // nil without a socket
	broken  bool      // it failed, says the writer; codex profile
	closing bool      // this end has ended the stream
	silent  bool      // OnSilent was told
	ended   bool      // done is closed
	takes   rpc.Taker // of who awaits what comes next, of which nothing is here then; else nil
	goodbye *time.Timer
	timer   *time.Timer
	armed   time.Time // when timer goes off; zero if it does not
}

var (
	_ rpc.Connection  = (*Stream)(nil)
	_ rpc.FaultCloser = (*Stream)(nil)
	_ rpc.TryWriter   = (*Stream)(nil)
	_ rpc.Awaiter     = (*Stream)(nil)
	_ rpc.Reporter    = (*Stream)(nil)
)

// NewStream makes a stream of a handshake that is over. Frames that come for it go to
// Handle.
func NewStream(cfg StreamConfig) *Stream {
	s := &Stream{
		cfg: cfg, log: cfg.Logger, seal: newSealing(cfg.Transport, cfg.Profile, cfg.ID),
		turn: make(chan struct{}, 1), done: make(chan struct{}), gone: make(chan struct{}),
		readable: newSignal(), writable: newSignal(), room: newSignal(),
		carrier: cfg.Carrier,
	}
	s.life, s.end = context.WithCancel(context.Background())
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	profile := arq.Codex
	if cfg.Profile == frame.Reliable {
		profile = arq.Reliable
	}
	s.sender = handoff.NewSender(handoff.SenderConfig[*departure]{
		Lock: &s.mu, Next: s.next, Try: s.tryWrite, TryAll: true, Send: s.write,
	})
	now := time.Now()
	s.arq = arq.New(arq.Config{
		Profile: profile, Seal: s.seal.seal, Open: s.seal.open,
		Rand: cfg.Rand, Life: cfg.Life, GiveUp: cfg.GiveUp,
	}, now)
	s.mu.Lock()
	s.leave(now)
	return s
}

// Read implements rpc.Connection. What it returns is the caller's. After the end it
// returns what was received whole, then io.EOF if the peer closed the stream and what
// Err returns otherwise; after Close, only that.
func (s *Stream) Read(ctx context.Context) ([]byte, error) {
	for {
		now := time.Now()
		s.mu.Lock()
		msg, err := s.message(now)
		s.leave(now)
		if msg != nil || err != nil {
			return msg, err
		}
		select {
		case <-s.readable:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// message returns what there is to read: the next message, or the end, or nothing yet.
// Called with the mutex.
func (s *Stream) message(now time.Time) ([]byte, error) {
	if !s.closing {
		if msg, ok := s.arq.Message(now); ok {
			return msg, nil
		}
	}
	err := s.failure()
	if reset, is := errors.AsType[*arq.ResetError](err); is && reset.Reason == ReasonClosed && !s.closing {
		return nil, io.EOF
	}
	return nil, err
}

// TryRead is Read as far as that goes without waiting: it returns nil and nil when there is
// nothing yet.
func (s *Stream) TryRead() ([]byte, error) {
	now := time.Now()
	s.mu.Lock()
	defer s.leave(now)
	return s.message(now)
}

// Await implements rpc.Awaiter. A message is taken in Handle, the end wherever it
// comes.
func (s *Stream) Await(takes rpc.Taker) ([]byte, error) {
	now := time.Now()
	s.mu.Lock()
	msg, err := s.message(now)
	if msg == nil && err == nil {
		s.takes = takes
	}
	s.leave(now)
	return msg, err
}

// Forget implements rpc.Awaiter.
func (s *Stream) Forget() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	forgotten := s.takes != nil
	s.takes = nil
	return forgotten
}

// ReportTo implements rpc.Reporter.
func (s *Stream) ReportTo(account *rpc.Account) { s.progress = account }

// Write implements rpc.Connection. It returns when the message is cut and queued. In the
// reliable profile that waits for the peer to acknowledge enough of what is on its way,
// however long there is no socket; in the codex profile, for the socket.
//
// A context that can end costs a goroutine, which then hangs in the socket in place of
// the caller. A message of which a part has left when ctx ends is sent to its end, and
// Write returns nil.
func (s *Stream) Write(ctx context.Context, msg []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case s.turn <- struct{}{}:
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()

	// What was left of a message whose context has ended goes before.
	if err := s.awaitWritable(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if err := s.arq.Write(msg); err != nil {
		if ended := s.failure(); ended != nil {
			err = ended
		}
		s.mu.Unlock()
		return err
	}
	if ctx.Done() == nil {
		s.sender.Send()
	}
	s.leave(time.Now())
	err := s.awaitWritable(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	now := time.Now()
	s.mu.Lock()
	partly := s.arq.Err() == nil && !s.arq.Withdraw()
	s.leave(now)
	if partly {
		return nil
	}
	return err
}

// TryWrite implements rpc.TryWriter.
func (s *Stream) TryWrite(msg []byte) (finish func() error, err error) {
	whole := func() error { return s.Write(context.Background(), msg) }
	select {
	case s.turn <- struct{}{}:
	default:
		return whole, nil
	}
	s.mu.Lock()
	if s.sender.Busy() || !s.arq.Writable() || s.arq.Write(msg) != nil {
		s.mu.Unlock()
		<-s.turn
		return whole, nil // which knows what to say
	}
	rest := s.sender.Start()
	written, err := s.arq.Writable(), s.failure()
	s.leave(time.Now())
	if rest == nil && (written || err != nil) {
		<-s.turn
		return nil, err
	}
	return func() error {
		defer func() { <-s.turn }()
		if rest != nil {
			if err := s.resume(rest); err != nil {
				return err
			}
		}
		return s.awaitWritable(context.Background())
	}, nil
}

// awaitWritable waits until the message before is cut. Called by who has the turn.
func (s *Stream) awaitWritable(ctx context.Context) error {
	for {
		s.mu.Lock()
		writable, err := s.arq.Writable(), s.failure()
		s.mu.Unlock()
		if writable || err != nil {
			return err
		}
		select {
		case <-s.writable:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Handle takes a frame of this stream that came over the socket, and owns its payload. It
// does not wait, and has a message that is complete now taken by who awaits it. They may hand
// off turn, that of the calling goroutine. turn may be nil where nobody awaits.
func (s *Stream) Handle(f *relayv1.RelayMessageFrame, turn *handoff.Turn) {
	s.trace(In, f, len(f.GetData().GetPayload()))
	in, ok := incoming(f, s.cfg.Profile)
	if !ok {
		return
	}
	now := time.Now()
	s.mu.Lock()
	_ = s.arq.Handle(now, in) // which is what failure tells
	takes := s.takes
	var msg []byte
	if takes != nil {
		if msg, _ = s.message(now); msg != nil {
			s.takes = nil
		}
	}
	s.leave(now)
	if msg != nil {
		takes(msg, nil, turn)
	}
}

// WaitRoom returns nil when fewer than MaxWaiting messages wait to be read, and an error
// when the stream has ended and its peer was told. Whoever has a socket for this stream
// alone calls it before reading on: a peer of the codex profile has no other way to
// learn that it is too fast.
func (s *Stream) WaitRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		waiting, err := s.arq.Waiting(), s.failure()
		s.mu.Unlock()
		switch {
		case err != nil:
			select {
			case <-s.gone:
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case waiting < MaxWaiting:
			return nil
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Attach gives a reliable stream a new socket, over which it asks its peer to go on.
// Whoever closes the old one does so before: a write that hangs there holds up the new.
func (s *Stream) Attach(c Carrier) {
	if s.cfg.Profile != frame.Reliable {
		return
	}
	now := time.Now()
	s.mu.Lock()
	s.carrier = c
	s.arq.Attach(now)
	s.leave(now)
}

// Detach says that the socket is lost. It ends a stream of the codex profile.
func (s *Stream) Detach() {
	now := time.Now()
	s.mu.Lock()
	s.detach(now)
	s.leave(now)
}

func (s *Stream) detach(now time.Time) {
	s.carrier = nil
	s.arq.Detach(now)
}

// Close implements rpc.Connection. It tells the peer, for which it waits CloseTimeout at
// most. What was written before has left by then, unless there is no socket; whether it
// arrived is not waited for.
func (s *Stream) Close() error {
	s.Reset(ReasonClosed)
	return nil
}

// CloseFault implements rpc.FaultCloser. The peer is told the kind of fault only, as
// whoever is in between can read it.
func (s *Stream) CloseFault(code int, _ string) error {
	s.Reset(faultReason(code))
	return nil
}

// Reset ends the stream as Close does, and tells the peer why. Whoever is in between can
// read the reason.
func (s *Stream) Reset(reason string) {
	s.mu.Lock()
	if !s.closing {
		s.closing = true
		s.arq.Reset(cmp.Or(Clip(reason), "reset"))
	}
	s.leave(time.Now())
	<-s.gone
}

// Done is closed when the stream has ended.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err is why the stream ended; nil while it has not. It is rpc.ErrClosed, and what
// relay/arq says.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure()
}

func (s *Stream) failure() error {
	if err := s.arq.Err(); err != nil {
		return &endedError{err}
	}
	return nil
}

// StreamInfo says how a stream is.
type StreamInfo struct {
	ID       string
	Profile  frame.Profile
	Attached bool
	// Waiting is how many messages wait to be read.
	Waiting int
	// Epoch counts the sockets before this one.
	Epoch   uint32
	RTT     time.Duration
	Cursors arq.Cursors
	Stats   arq.Stats
}

// Info says how the stream is.
func (s *Stream) Info() StreamInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StreamInfo{
		ID: s.cfg.ID, Profile: s.cfg.Profile, Attached: s.carrier != nil, Waiting: s.arq.Waiting(),
		Epoch: s.arq.Epoch(), RTT: s.arq.RTT(), Cursors: s.arq.Cursors(), Stats: s.arq.Stats(),
	}
}
