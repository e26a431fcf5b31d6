package relay_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// A line is two streams and what is between them: each has a socket to a relay, which
// passes frames on and drops them while the other socket is missing. It is for bubbles.
type line struct {
	t       testing.TB
	profile frame.Profile
	a, b    *party
	readers sync.WaitGroup
}

// A party is one end of a line.
type party struct {
	*relay.Stream
	l     *line
	peer  *party
	name  string
	path  simnet.CarrierConfig
	ended []error       // what OnEnd was told
	quiet chan struct{} // OnSilent was called

	moving   sync.Mutex // of Attach and Detach
	mu       sync.Mutex
	own, far *simnet.Carrier // the two ends of its socket; nil without one
	stalled  chan struct{}   // not nil: the reader does not read until it is closed
}

// newLine makes a line that is connected. paths are those from a and from b to the relay.
func newLine(t testing.TB, p frame.Profile, a, b simnet.CarrierConfig, change ...func(*relay.StreamConfig)) *line {
	t.Helper()
	l := &line{t: t, profile: p}
	l.a = &party{l: l, name: "a", path: a, quiet: make(chan struct{}, 1)}
	l.b = &party{l: l, name: "b", path: b, quiet: make(chan struct{}, 1)}
	l.a.peer, l.b.peer = l.b, l.a
	ta, tb := transports(t)
	for p, transport := range map[*party]*relay.StreamConfig{l.a: {Transport: ta}, l.b: {Transport: tb}} {
		transport.ID, transport.Profile = "s", l.profile
		transport.Carrier = p.dial()
		transport.OnEnd = func(err error) { p.mu.Lock(); p.ended = append(p.ended, err); p.mu.Unlock() }
		transport.OnSilent = func() { p.quiet <- struct{}{} }
		transport.Rand = rand.New(rand.NewPCG(1, uint64(p.name[0])))
		for _, f := range change {
			f(transport)
		}
		p.Stream = relay.NewStream(*transport)
	}
	l.a.listen()
	l.b.listen()
	t.Cleanup(func() {
		_ = l.a.Close()
		_ = l.b.Close()
		l.a.hangUp()
		l.b.hangUp()
		l.readers.Wait()
	})
	return l
}

// dial makes a new socket to the relay.
func (p *party) dial() relay.Carrier {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path.Name = p.name
	p.path.Seed++
	p.own, p.far = simnet.Carriers(p.path)
	return p.own
}

// listen starts what reads the socket: this end's reader, and the relay's.
func (p *party) listen() {
	own, far := p.own, p.far
	p.l.readers.Go(func() { p.read(own) })
	p.l.readers.Go(func() { p.pass(far) })
}

// read is what an owner of a stream does.
func (p *party) read(carrier *simnet.Carrier) {
	defer func() {
		_ = carrier.Close()
		p.moving.Lock()
		defer p.moving.Unlock()
		p.mu.Lock()
		current := p.own == carrier
		p.mu.Unlock()
		if current {
			p.Detach()
		}
	}()
	for {
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if stalled != nil {
			<-stalled
		}
		if p.l.profile == frame.Codex && p.WaitRoom(context.Background()) != nil {
			return
		}
		msg, err := carrier.Read(context.Background())
		if err != nil {
			return
		}
		f, err := frame.Decode(msg)
		if err != nil || f.GetStreamId() != "s" {
			continue
		}
		if d := f.GetData(); d != nil && frame.CheckSegment(d, p.l.profile) != nil {
			continue
		}
		p.Handle(f, nil)
	}
}

// pass is what the relay does with frames from this end.
func (p *party) pass(from *simnet.Carrier) {
	for {
		msg, err := from.Read(context.Background())
		if err != nil {
			_ = from.Close()
			return
		}
		p.peer.mu.Lock()
		to := p.peer.far
		p.peer.mu.Unlock()
		if to != nil {
			_ = to.Write(context.Background(), msg) // or it is lost
		}
	}
}

// cut breaks the socket. The stream hears of it as from a socket that is lost.
func (p *party) cut() {
	p.mu.Lock()
	own := p.own
	p.mu.Unlock()
	own.Cut()
}

// hangUp breaks the socket for good.
func (p *party) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own != nil {
		p.own.Cut()
	}
	p.far = nil
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// again replaces the socket.
func (p *party) again() {
	p.cut()
	p.moving.Lock()
	defer p.moving.Unlock()
	p.Detach()
	p.Attach(p.dial())
	p.listen()
}

// stall keeps this end from reading its socket until resume is called.
func (p *party) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
}

func (p *party) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.stalled)
	p.stalled = nil
}

// ends returns what OnEnd was told.
func (p *party) ends() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// A script is a row of messages that can be told apart: each has its number, and
// says how long it is by what it holds.
type script struct{ seed, count, longest uint64 }

// filler is what messages are filled with, from a place that depends on the number.
var filler = []byte(strings.Repeat("0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ.\n", 97))

func (s script) message(n uint64) []byte {
	r := rand.New(rand.NewPCG(s.seed, n))
	msg := make([]byte, 8+r.Uint64N(s.longest))
	for rest := msg[8:]; len(rest) > 0; {
		rest = rest[copy(rest, filler[n%64:]):]
	}
	binary.BigEndian.PutUint64(msg, n)
	return msg
}

func (s script) write(ctx context.Context, to *relay.Stream) error {
	for n := range s.count {
		if err := to.Write(ctx, s.message(n)); err != nil {
			return fmt.Errorf("write message %d: %w", n, err)
		}
	}
	return nil
}

func (s script) read(ctx context.Context, from *relay.Stream) error {
	for n := range s.count {
		got, err := from.Read(ctx)
		if err != nil {
			return fmt.Errorf("read message %d: %w", n, err)
		}
		if string(got) != string(s.message(n)) {
			return fmt.Errorf("message %d of %d bytes arrived as %d others, number %x", n, len(s.message(n)), len(got), got[:min(8, len(got))])
		}
	}
	return nil
}

// exchange sends a script each way at the same time, and waits until both have arrived.
func (l *line) exchange(there, back script) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	errs := make(chan error, 4)
	go func() { errs <- there.write(ctx, l.a.Stream) }()
	go func() { errs <- there.read(ctx, l.b.Stream) }()
	go func() { errs <- back.write(ctx, l.b.Stream) }()
	go func() { errs <- back.read(ctx, l.a.Stream) }()
	for range 4 {
		if err := <-errs; err != nil {
			l.t.Error(err)
			cancel()
		}
	}
}

// data is a filter that has f decide on data frames, and lets others pass.
func data(f func(m *relayv1.RelayMessageFrame, raw []byte) []simnet.Delivery) simnet.Filter {
	return func(raw []byte) []simnet.Delivery {
		m, err := frame.Decode(raw)
		if err != nil || m.GetData() == nil {
			return simnet.Pass(raw)
		}
		return f(m, raw)
	}
}
