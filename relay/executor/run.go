package executor

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/registry"
)

// An executor is what Run runs.
type executor struct {
	cfg     Config
	log     *slog.Logger
	table   table
	backoff backoff
	// serving are the streams that are being served.
	serving sync.WaitGroup
	// streams is what Serve runs with.
	streams context.Context
	// instance names this run to the registry, previous is the registration of its latest
	// connection.
	instance, previous string

	watchEvery, watchGap time.Duration

	randMu sync.Mutex
	rand   *mathrand.Rand
}

// ErrReplaced ends Run when another executor has proved that it has the same keys and has
// registered later: a restart beside an old process, or a cloned machine.
var ErrReplaced = errors.New("another executor has the keys of this one and has taken its place")

// Run registers an executor, and serves the streams of harnesses that come over the
// relay until ctx has ended; then it returns nil. It returns an error when the registry
// refuses the executor for good, and ErrReplaced when another one has its keys. An
// executor that was connected once goes on trying while others with other keys have its
// place. Every stream has ended when it returns.
func Run(ctx context.Context, cfg Config) error {
	x, err := newExecutor(cfg)
	if err != nil {
		return err
	}
	return x.run(ctx)
}

func newExecutor(cfg Config) (*executor, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Dial == nil {
		cfg.Dial = relay.NewDialer(relay.DialConfig{RequestID: true})
	}
	x := &executor{cfg: cfg, log: cfg.Logger, rand: cfg.Rand, watchEvery: WatchInterval, watchGap: WatchGap}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	x.log = x.log.With("env", cfg.EnvironmentID)
	if x.rand == nil {
		var seed [16]byte
		_, _ = rand.Read(seed[:]) // never fails
		x.rand = mathrand.New(mathrand.NewPCG(binary.NativeEndian.Uint64(seed[:8]), binary.NativeEndian.Uint64(seed[8:])))
	}
	x.instance = rand.Text()
	x.table.entries = make(map[string]*entry)
	x.backoff.rand = x.newRand()
	return x, nil
}

// newRand returns a source for one user.
func (x *executor) newRand() *mathrand.Rand {
	x.randMu.Lock()
	defer x.randMu.Unlock()
	return mathrand.New(mathrand.NewPCG(x.rand.Uint64(), x.rand.Uint64()))
}

// run is Run.
func (x *executor) run(ctx context.Context) error {
	streams, end := context.WithCancelCause(ctx)
	x.streams = streams
	defer x.serving.Wait()
	defer x.endStreams()
	defer end(errShutdown)

	reg, err := x.register(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("register environment %s: %w", x.cfg.EnvironmentID, err)
	}
	var failed int   // attempts in a row, with this registration
	var renewed bool // since the last connection
	for {
		begun := time.Now()
		err, connected := x.connection(ctx, reg)
		if ctx.Err() != nil {
			return nil
		}
		if connected {
			failed, renewed = 0, false
			x.backoff.lasted(time.Since(begun))
		} else {
			failed++
			x.backoff.failed(err)
		}
		x.log.Warn("not connected to the relay", "connected", connected, "err", err)
		waited := false
		if !connected && (failed >= RenewAfter || useless(err)) {
			if renewed { // what a registry has just given is refused: it is not asked again at once
				if !x.pause(ctx) {
					return nil
				}
				waited = true
			}
			if failed >= RenewAfter {
				x.cfg.Registry.Rotate()
			}
			next, err := x.register(ctx)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				reg, failed, renewed = next, 0, true
				continue // connected at once: no attempt with it has failed yet
			case replaced(err):
				return fmt.Errorf("environment %s: %w: %w", x.cfg.EnvironmentID, ErrReplaced, err)
			case registry.RetryRenewal(err), x.previous != "" && registry.InUse(err):
				x.log.Warn("registration not renewed", "err", err)
			default:
				return fmt.Errorf("renew the registration of environment %s: %w", x.cfg.EnvironmentID, err)
			}
		}
		if !waited && !x.pause(ctx) {
			return nil
		}
	}
}

// pause waits before the next attempt, and reports whether ctx has not ended.
func (x *executor) pause(ctx context.Context) bool {
	d := x.backoff.next()
	x.log.Debug("waiting to connect again", "wait", d)
	return wait(ctx, d)
}

// connection makes one connection and serves it to its end.
func (x *executor) connection(ctx context.Context, reg *registry.RegisterResponse) (err error, connected bool) {
	dialing, cancel := context.WithTimeout(ctx, DialTimeout)
	if reg.Elsewhere {
		dialing = relay.CheckAddresses(dialing, registry.CheckAddress)
	}
	carrier, err := x.cfg.Dial(dialing, reg.URL)
	cancel()
	if err != nil {
		return err, false
	}
	x.log.Info("connected to the relay", "registration", reg.ExecutorRegistrationID)
	x.previous = reg.ExecutorRegistrationID
	if x.cfg.OnConnect != nil {
		x.cfg.OnConnect()
	}
	err = x.newSocket(carrier, reg.ExecutorRegistrationID).serve(ctx)
	// What took this connection, as another network, may have taken those to the registry
	// without a word; the next handshake must not find out.
	x.cfg.Registry.Close()
	return err, true
}

// register registers, and asks again as long as the registry says that it cannot decide.
func (x *executor) register(ctx context.Context) (*registry.RegisterResponse, error) {
	for attempt := 0; ; attempt++ {
		reg, err := x.cfg.Registry.RegisterProved(ctx, x.cfg.EnvironmentID, registry.Registrant{
			Identity: x.cfg.Identity, Instance: x.instance, Previous: x.previous,
		})
		if err == nil {
			x.log.Info("registered", "registration", reg.ExecutorRegistrationID)
			return reg, nil
		}
		if !registry.RetryRegister(err) {
			return nil, err
		}
		pause := registry.Delay(attempt, x.backoff.rand)
		x.log.Warn("the registry cannot register now", "wait", pause, "err", err)
		if !wait(ctx, pause) {
			return nil, context.Cause(ctx)
		}
	}
}

// useless reports whether the URL of a refused connection will not be taken later
// either: any 4xx, or a node that says that it is not the one.
func useless(err error) bool {
	r, ok := errors.AsType[*relay.RefusedError](err)
	if !ok {
		return false
	}
	switch r.Reason {
	case "pod_draining", "unknown_route", "wrong_rendezvous_cluster", "route_unavailable":
		return true
	}
	return r.Status/100 == 4
}

// replaced reports whether a registry says that another executor has the same keys.
func replaced(err error) bool {
	e, ok := errors.AsType[*registry.StatusError](err)
	return ok && e.Status == http.StatusConflict && e.Code == registry.CodeReplaced
}

// serveStream serves a stream to its end.
func (x *executor) serveStream(stream *relay.Stream, info StreamInfo) {
	defer func() { _ = stream.Close() }() // it says why it ended by itself
	x.cfg.Serve(x.streams, stream, info)
}

// endStreams ends the streams that go on without a connection.
func (x *executor) endStreams() {
	x.table.close()
	x.table.mu.Lock()
	streams := x.table.streams()
	x.table.mu.Unlock()
	for _, s := range streams {
		_ = s.Close() // nothing is left to be told
	}
}

// traceFrame traces a frame that belongs to no stream.
func (x *executor) traceFrame(dir relay.Direction, f *relayv1.RelayMessageFrame) {
	if x.cfg.Trace != nil {
		x.cfg.Trace(relay.FrameEvent(dir, f))
	}
}
