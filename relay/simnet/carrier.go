package simnet

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// CarrierBytes is how much of a direction of a carrier is under way or waits to be
// read, one frame more at most. A writer waits for room.
const CarrierBytes = 4 << 20

// CarrierConfig says what lies between two ends. The zero value is a socket of a
// millisecond each way that loses nothing.
type CarrierConfig struct {
	Seed uint64
	// Latency is how long a frame travels, 0 means a millisecond. Jitter is by how much
	// longer, by chance; frames do not overtake each other for it.
	Latency, Jitter time.Duration
	// Forth sees the frames from the first end to the second, Back the others. nil is
	// Pass.
	Forth, Back Filter
	// Trace, if set, keeps the frames, under Name.
	Trace *Trace
	Name  string
}

// Carriers joins two ends. Each is an rpc.Connection of whole frames. When one is
// closed, the other reads what was sent before, and then io.EOF.
func Carriers(cfg CarrierConfig) (*Carrier, *Carrier) {
	forth := newLane(&cfg, cfg.Name+" >", 0, cfg.Forth)
	back := newLane(&cfg, cfg.Name+" <", 1, cfg.Back)
	a, b := &Carrier{in: back, out: forth}, &Carrier{in: forth, out: back}
	return a, b
}

// A Carrier is one end of a simulated socket.
type Carrier struct {
	in, out *lane
}

// Read implements rpc.Connection. The frame is the caller's.
func (c *Carrier) Read(ctx context.Context) ([]byte, error) {
	for {
		msg, changed, err := c.in.take()
		if msg != nil || err != nil {
			return msg, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Write implements rpc.Connection.
func (c *Carrier) Write(ctx context.Context, msg []byte) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		done, changed, err := c.out.put(msg)
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Inject sends a frame past the filter: a forged one.
func (c *Carrier) Inject(msg []byte) {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.send(Delivery{Frame: bytes.Clone(msg), Note: "injected"})
}

// Close implements rpc.Connection.
func (c *Carrier) Close() error {
	c.in.close(rpc.ErrClosed, true)
	c.out.close(io.EOF, false)
	return nil
}

// Cut breaks the socket: both ends fail at once, frames on their way are lost.
func (c *Carrier) Cut() {
	c.in.close(io.ErrUnexpectedEOF, true)
	c.out.close(io.ErrUnexpectedEOF, true)
}

// A lane is one direction.
type lane struct {
	cfg    *CarrierConfig
	way    string
	filter Filter

	mu       sync.Mutex
	schedule schedule
	flight   []flying // in the order of arrival
	arrived  [][]byte
	held     int // bytes of both
	end      error
	endAt    time.Time // when the end arrives, if end is set
	changed  chan struct{}
	timer    *time.Timer
	steady   time.Time // until then those frames travel that are not late
}

type flying struct {
	due   time.Time
	frame []byte
}

func newLane(cfg *CarrierConfig, way string, direction uint64, filter Filter) *lane {
	if filter == nil {
		filter = Pass
	}
	return &lane{cfg: cfg, way: way, filter: filter, schedule: newSchedule(cfg.Seed, direction+2*(cfg.Seed%1000)), changed: make(chan struct{})}
}

func (l *lane) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *lane) put(msg []byte) (bool, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		return false, nil, rpc.ErrClosed
	}
	if l.held >= CarrierBytes {
		return false, l.changed, nil
	}
	for _, d := range l.filter(bytes.Clone(msg)) {
		l.send(d)
	}
	return true, nil, nil
}

// send puts d on its way, at the place in flight that its time gives it.
func (l *lane) send(d Delivery) {
	l.cfg.Trace.frame(l.way, d)
	if d.Frame == nil || l.end != nil {
		return
	}
	latency := l.cfg.Latency
	if latency == 0 {
		latency = time.Millisecond
	}
	usual := time.Now().Add(latency + l.schedule.within(l.cfg.Jitter))
	if usual.Before(l.steady) {
		usual = l.steady
	}
	due := l.schedule.align(usual.Add(d.After))
	if d.After == 0 {
		l.steady = due
	}
	i := len(l.flight)
	for i > 0 && due.Before(l.flight[i-1].due) {
		i--
	}
	l.flight = append(l.flight, flying{})
	copy(l.flight[i+1:], l.flight[i:])
	l.flight[i] = flying{due: due, frame: d.Frame}
	l.held += len(d.Frame)
	l.arm()
}

func (l *lane) arm() {
	var due time.Time
	switch {
	case len(l.flight) > 0:
		due = l.flight[0].due
	case l.end != nil && time.Now().Before(l.endAt):
		due = l.endAt
	default:
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(time.Until(due), l.deliver)
}

func (l *lane) deliver() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for now := time.Now(); len(l.flight) > 0 && !l.flight[0].due.After(now); {
		l.arrived = append(l.arrived, l.flight[0].frame)
		l.flight = l.flight[1:]
	}
	l.notify()
	l.arm()
}

// take returns the next frame, or what to wait for.
func (l *lane) take() ([]byte, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(l.arrived) > 0:
		msg := l.arrived[0]
		l.arrived[0] = nil
		l.arrived = l.arrived[1:]
		l.held -= len(msg)
		l.notify()
		return msg, nil, nil
	case l.end != nil && len(l.flight) == 0 && !time.Now().Before(l.endAt):
		return nil, nil, l.end
	}
	return nil, l.changed, nil
}

// close ends the lane: after what is on its way, or at once and without it.
func (l *lane) close(err error, now bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end, l.endAt = err, l.schedule.align(l.steady)
	}
	if now {
		l.endAt = time.Time{}
		l.flight, l.arrived, l.held = nil, nil, 0
	}
	l.notify()
	l.arm()
}
