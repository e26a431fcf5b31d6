package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A Harness opens streams to one executor. Its methods may be called from several
// goroutines at once.
type Harness struct {
	cfg Config
	log *slog.Logger

	mu   sync.Mutex
	rand *rand.Rand
	// key is the executor's, once a handshake has proved it.
	key    *seal.PublicKey
	graves []grave
}

// New returns a Harness. It does nothing yet.
func New(cfg Config) (*Harness, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	h := &Harness{cfg: cfg, log: cfg.Logger, rand: cfg.Rand}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.rand == nil {
		h.rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if h.cfg.Dial == nil {
		h.cfg.Dial = relay.NewDialer(relay.DialConfig{Logger: cfg.Logger})
	}
	return h, nil
}

// Connect opens a new stream. ctx bounds the opening only; the stream lives until it
// is closed or cannot go on.
//
// The first time, the registry is asked again up to FirstRetries times if it cannot be
// reached, has a problem, or knows of no executor at the moment, and if the socket breaks
// before the relay has answered, as one may that is flooded; anything else fails at once. Once there was a stream, everything that is not Permanent is tried again for
// RecoveryTime. If ctx ends meanwhile, the error has what was wrong before.
func (h *Harness) Connect(ctx context.Context) (rpc.Connection, error) {
	recovering := h.Key() != nil
	began := time.Now()
	var before error // what the attempt before this one met
	for attempt := 0; ; attempt++ {
		c, err := h.open(ctx)
		switch {
		case err == nil:
			return c, nil
		case Permanent(err) || ctx.Err() != nil && before == nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), before)
		}
		before = err
		delay := h.delay(attempt)
		if recovering {
			if time.Since(began)+delay > RecoveryTime {
				return nil, err
			}
		} else if attempt >= FirstRetries || !registry.RetryConnect(err) && !broke(err) {
			return nil, err
		}
		h.log.Debug("stream not opened", "env", h.cfg.EnvironmentID, "attempt", attempt, "dur", delay, "err", err)
		if !wait(ctx, delay) {
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// open tries once to open a stream.
func (h *Harness) open(ctx context.Context) (*conn, error) {
	// The arithmetic of message 1 is done while the socket is made.
	var hs *handshake
	var prepared <-chan struct{}
	way, err := h.reach(ctx, func(resp *registry.ConnectResponse) {
		if prepared != nil {
			<-prepared // of the try before
		}
		hs = h.newHandshake(resp)
		prepared = hs.prepare()
	})
	if prepared != nil {
		<-prepared
	}
	if err != nil {
		return nil, err
	}
	began := time.Now()
	transport, err := hs.run(ctx, way.carrier)
	if err = h.step(StepHandshake, began, err); err == nil {
		err = h.learn(way.ExecutorPublicKey)
	}
	if err != nil {
		_ = way.carrier.Close()
		return nil, err
	}
	h.log.Info("relay stream opened", "env", h.cfg.EnvironmentID, "stream", hs.id, "profile", string(hs.profile), "peer", way.ExecutorPublicKey)
	return newConn(h, hs.id, hs.profile, transport, way.carrier), nil
}

// profile is that of a stream to be opened.
func (h *Harness) profile(announced []frame.Profile) frame.Profile {
	switch {
	case h.cfg.Profile != "":
		return h.cfg.Profile
	case slices.Contains(announced, frame.Reliable):
		return frame.Reliable
	default:
		return frame.Codex
	}
}

// A way is what the registry said, and the socket that it led to.
type way struct {
	*registry.ConnectResponse
	carrier relay.Carrier
}

// reach makes a socket that leads to the executor. A 401 of the rendezvous means that
// the URL has expired already: there is a second try with a new one (registry.md,
// section 3). found, if set, is called before each socket is made, once the executor's
// key was looked at.
func (h *Harness) reach(ctx context.Context, found func(*registry.ConnectResponse)) (way, error) {
	for try := 0; ; try++ {
		began := time.Now()
		resp, err := h.cfg.Registry.Connect(ctx, h.cfg.EnvironmentID, h.cfg.Identity.Public())
		if err = h.step(StepRegistry, began, err); err != nil {
			return way{}, err
		}
		began = time.Now()
		err = h.verify(resp.ExecutorPublicKey)
		if err == nil && found != nil { // a stream that goes on keeps its profile
			err = h.verifyProfile(resp)
		}
		if err := h.step(StepKey, began, err); err != nil {
			return way{}, err
		}
		if found != nil {
			found(resp)
		}
		began = time.Now()
		carrier, err := h.dial(ctx, resp)
		if err = h.step(StepUpgrade, began, err); err == nil {
			return way{resp, carrier}, nil
		}
		if refused, ok := errors.AsType[*relay.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized || try > 0 {
			return way{}, err
		}
	}
}

func (h *Harness) dial(ctx context.Context, resp *registry.ConnectResponse) (relay.Carrier, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, DialTimeout, fmt.Errorf("no socket within %s: %w", DialTimeout, context.DeadlineExceeded))
	defer cancel()
	if resp.Elsewhere {
		ctx = relay.CheckAddresses(ctx, registry.CheckAddress)
	}
	carrier, err := h.cfg.Dial(ctx, resp.URL)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return carrier, err
}

// verify says whether key may be spoken to.
func (h *Harness) verify(key *seal.PublicKey) error {
	if known := h.Key(); known != nil {
		if !known.Equal(key) {
			return &KeyChangedError{Before: known.Fingerprint(), Now: key.Fingerprint()}
		}
		return nil
	}
	if h.cfg.Verify == nil {
		return nil
	}
	if err := h.cfg.Verify(key); err != nil {
		return &UntrustedError{Key: key.Fingerprint(), Err: err}
	}
	return nil
}

// verifyProfile says whether a new stream may have the profile that resp leads to.
func (h *Harness) verifyProfile(resp *registry.ConnectResponse) error {
	if h.cfg.Profile != "" || h.cfg.VerifyProfile == nil {
		return nil
	}
	profile := h.profile(resp.RelayProfiles)
	if err := h.cfg.VerifyProfile(resp.ExecutorPublicKey, profile); err != nil {
		return &UntrustedError{Key: resp.ExecutorPublicKey.Fingerprint(), Err: err}
	}
	return nil
}

// Key is the executor's key, which a handshake has proved; nil before there was a stream.
func (h *Harness) Key() *seal.PublicKey {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.key
}

// learn keeps the key that a handshake has proved. Of two first handshakes at once,
// the other may have been with another executor.
func (h *Harness) learn(key *seal.PublicKey) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.key != nil && !h.key.Equal(key) {
		return &KeyChangedError{Before: h.key.Fingerprint(), Now: key.Fingerprint()}
	}
	h.key = key
	return nil
}

// step reports the end of a step, and says in its error which it was.
func (h *Harness) step(step Step, began time.Time, err error) error {
	if err != nil {
		err = &StepError{Step: step, Err: err}
	}
	if h.cfg.OnStep != nil {
		h.cfg.OnStep(StepReport{Step: step, Began: began, Took: time.Since(began), Err: err})
	}
	return err
}

// delay is how long to wait after that attempt.
func (h *Harness) delay(attempt int) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return registry.Delay(attempt, h.rand)
}

// newRand returns chance for somebody else.
func (h *Harness) newRand() *rand.Rand {
	h.mu.Lock()
	defer h.mu.Unlock()
	return rand.New(rand.NewPCG(h.rand.Uint64(), h.rand.Uint64()))
}

// wait returns true after d, false when ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// trace tells of a frame of a handshake; the stream tells of its own.
func (h *Harness) trace(dir relay.Direction, f *relayv1.RelayMessageFrame) {
	if h.cfg.Trace != nil {
		h.cfg.Trace(relay.FrameEvent(dir, f))
	}
}
