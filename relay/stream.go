package relay

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
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
	// streams may use it, and whoever reads it closes it. A write that fails closes it.
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

	turn chan struct{} // holds a token while a message is being cut
	done chan struct{} // closed when the stream has ended
	// Each wakes whoever waits for it, to look at the state again.
	readable, writable, room, left signal

	mu      sync.Mutex
	arq     *arq.Stream
	carrier Carrier // nil without a socket
	sending bool    // somebody takes frames from arq and writes them
	closing bool    // Close was called
	silent  bool    // OnSilent was told
	ended   bool    // OnEnd was told
	timer   *time.Timer
	armed   time.Time // when timer goes off; zero if it does not
}

// NewStream makes a stream of a handshake that is over. Frames that come for it go to
// Handle.
func NewStream(cfg StreamConfig) *Stream {
	s := &Stream{
		cfg: cfg, log: cfg.Logger, seal: sealing{cfg.Transport, cfg.Profile},
		turn: make(chan struct{}, 1), done: make(chan struct{}),
		readable: newSignal(), writable: newSignal(), room: newSignal(), left: newSignal(),
		carrier: cfg.Carrier,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	profile := arq.Codex
	if cfg.Profile == frame.Reliable {
		profile = arq.Reliable
	}
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
// Err returns otherwise.
func (s *Stream) Read(ctx context.Context) ([]byte, error) {
	for {
		now := time.Now()
		s.mu.Lock()
		msg, ok := s.arq.Message(now)
		err := s.failure()
		if err == nil && s.closing {
			err = rpc.ErrClosed
		}
		s.leave(now)
		if ok {
			return msg, nil
		}
		if reset, is := errors.AsType[*arq.ResetError](err); is && reset.Reason == ReasonClosed {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-s.readable:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Write implements rpc.Connection. It returns when the message is cut and queued, which
// in the reliable profile waits for the peer to acknowledge enough of what is on its way,
// however long there is no socket. A message that is partly cut when ctx ends is still
// sent, and Write returns nil.
func (s *Stream) Write(ctx context.Context, msg []byte) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.done:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()

	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return rpc.ErrClosed
	}
	if err := s.arq.Write(msg); err != nil {
		if ended := s.failure(); ended != nil {
			err = ended
		}
		s.leave(time.Now())
		return err
	}
	s.flush()
	for {
		written, err := s.arq.Writable(), s.failure()
		s.leave(time.Now())
		if written || err != nil {
			return err
		}
		select {
		case <-s.writable:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			whole := !s.arq.Writable() && s.arq.Withdraw()
			s.leave(time.Now())
			if whole {
				return context.Cause(ctx)
			}
			return nil
		}
	}
}

// Handle takes a frame of this stream that came over the socket, and owns its payload. It
// does not wait.
func (s *Stream) Handle(f *relayv1.RelayMessageFrame) {
	if s.cfg.Trace != nil {
		s.cfg.Trace(FrameEvent(In, f))
	}
	in, ok := s.incoming(f)
	if !ok {
		return
	}
	now := time.Now()
	s.mu.Lock()
	_ = s.arq.Handle(now, in) // which is what failure tells
	s.leave(now)
}

// WaitRoom returns when fewer than MaxWaiting messages wait to be read, or the stream has
// ended. Whoever has a socket for this stream alone calls it before reading on: a peer of
// the codex profile has no other way to learn that it is too fast.
func (s *Stream) WaitRoom(ctx context.Context) error {
	for {
		s.mu.Lock()
		waiting, err := s.arq.Waiting(), s.failure()
		s.mu.Unlock()
		if waiting < MaxWaiting || err != nil {
			return err
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Attach gives a reliable stream a new socket, over which it asks its peer to go on.
func (s *Stream) Attach(c Carrier) {
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

// Close implements rpc.Connection. What was written still leaves, if the socket takes it
// within CloseTimeout; then the peer is told.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		<-s.done
		return nil
	}
	s.closing = true
	s.readable.set()
	limit := time.NewTimer(CloseTimeout)
	defer limit.Stop()
	for late := false; !late && !s.clear(); s.mu.Lock() {
		s.mu.Unlock()
		select {
		case <-s.left:
		case <-limit.C:
			late = true
		}
	}
	s.reset(ReasonClosed)
	return nil
}

// CloseFault implements rpc.FaultCloser. The code is one of WebSockets, and a stream has
// none: the peer is told the reason.
func (s *Stream) CloseFault(_ int, reason string) error {
	s.Reset(reason)
	return nil
}

// Reset ends the stream at once, and tells the peer why.
func (s *Stream) Reset(reason string) {
	s.mu.Lock()
	s.closing = true
	s.reset(reason)
}

// reset unlocks.
func (s *Stream) reset(reason string) {
	if reason == "" {
		reason = ReasonClosed
	}
	s.arq.Reset(clip(reason))
	s.flush()
	s.leave(time.Now())
}

// clear says that everything that was written has left, as far as it can.
func (s *Stream) clear() bool {
	c := s.arq.Cursors()
	return s.arq.Err() != nil || s.carrier == nil ||
		!s.sending && s.arq.Writable() && (s.cfg.Profile != frame.Reliable || c.Sent <= c.Credit)
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
		ID: s.cfg.ID, Profile: s.cfg.Profile, Attached: s.carrier != nil,
		Epoch: s.arq.Epoch(), RTT: s.arq.RTT(), Cursors: s.arq.Cursors(), Stats: s.arq.Stats(),
	}
}
