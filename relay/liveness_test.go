package relay_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// A counter counts what a stream sends, by kind.
type counter struct {
	mu   sync.Mutex
	sent map[string]int
}

func (c *counter) trace(e relay.TraceEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = make(map[string]int)
	}
	if e.Direction == relay.Out {
		c.sent[e.Kind]++
	}
}

func (c *counter) reset() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sent := c.sent
	c.sent = nil
	return sent
}

// An idle stream of the reliable profile sends a heartbeat every 15 s and nothing else;
// one of the codex profile sends nothing at all.
func TestIdle(t *testing.T) {
	each(t, func(t *testing.T, p frame.Profile) {
		var frames counter
		l := newLine(t, p, simnet.CarrierConfig{}, simnet.CarrierConfig{}, func(cfg *relay.StreamConfig) { cfg.Trace = frames.trace })
		l.exchange(script{1, 10, 1000}, script{2, 10, 1000})
		time.Sleep(time.Minute) // acks
		frames.reset()
		time.Sleep(time.Hour)
		sent := frames.reset()
		beats := sent["heartbeat"]
		delete(sent, "heartbeat")
		if len(sent) > 0 {
			t.Errorf("an idle stream sends %v", sent)
		}
		few, many := 2*int(time.Hour/(arq.Heartbeat*11/10))-2, 2*int(time.Hour/(arq.Heartbeat*9/10))+2
		if p == frame.Codex {
			few, many = 0, 0
		}
		if beats < few || beats > many {
			t.Errorf("%d heartbeats in an hour, want %d to %d", beats, few, many)
		}
		l.exchange(script{3, 10, 1000}, script{4, 10, 1000})
	})
}

// A peer that is not heard for 45 s is silent: a harness is told once, replaces its
// socket, and the stream goes on when the peer is back.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		l.exchange(script{1, 1, 100}, script{2, 1, 100})
		began := time.Now()
		l.b.cut() // of which a does not hear
		<-l.a.quiet
		if took := time.Since(began); took < arq.Silence*9/10-time.Second || took > arq.Silence*11/10+time.Second {
			t.Errorf("silent after %v", took)
		}
		l.a.again()
		time.Sleep(30 * time.Second)
		select {
		case <-l.a.quiet:
			t.Error("silent again at once")
		default:
		}
		l.b.again()
		l.exchange(script{3, 10, 100_000}, script{4, 10, 100_000})
		if e := l.a.Info().Epoch; e != 1 {
			t.Errorf("epoch %d", e)
		}
	})
}

// The life of a stream without its peer is over after 10 minutes, or what its owner
// says; whoever waits for it learns why.
func TestLifeOver(t *testing.T) {
	for name, life := range map[string]time.Duration{"Default": 0, "Minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{}, func(cfg *relay.StreamConfig) { cfg.Life = life })
				if life == 0 {
					life = arq.DefaultLife
				}
				read := make(chan error, 1)
				go func() {
					_, err := l.a.Read(t.Context())
					read <- err
				}()
				time.Sleep(time.Second)
				l.a.cut()
				began := time.Now()
				if err := <-read; !isGaveUp(err) || !errors.Is(err, rpc.ErrClosed) {
					t.Errorf("Read: %v", err)
				}
				if took := time.Since(began); took < life-time.Second || took > life+time.Second {
					t.Errorf("lived for %v", took)
				}
				if err := l.a.Write(t.Context(), []byte("x")); !isGaveUp(err) {
					t.Errorf("Write: %v", err)
				}
				synctest.Wait()
				if ends := l.a.ends(); len(ends) != 1 || !isGaveUp(ends[0]) {
					t.Errorf("OnEnd was told %v", ends)
				}
			})
		})
	}
}

// A write that hangs in its socket keeps a stream neither from noticing that its peer is
// silent nor from ending.
func TestHangingWriteStopsNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, frame.Reliable, simnet.CarrierConfig{}, simnet.CarrierConfig{})
		ta, _ := transports(t)
		quiet := make(chan struct{})
		s := relay.NewStream(relay.StreamConfig{
			ID: "s", Profile: frame.Reliable, Transport: ta, Carrier: hanging{l.a.own}, OnSilent: func() { close(quiet) },
		})
		go func() { _ = s.Write(t.Context(), []byte("x")) }()
		began := time.Now()
		<-quiet
		if took := time.Since(began); took > arq.Silence+2*time.Second {
			t.Errorf("silent after %v", took)
		}
		<-s.Done()
		if !isGaveUp(s.Err()) {
			t.Errorf("ended by %v", s.Err())
		}
		_ = s.Close()
	})
}

// A hanging carrier takes nothing.
type hanging struct{ relay.Carrier }

func (hanging) Write(ctx context.Context, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}
