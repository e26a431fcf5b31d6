//go:build e2e && linux

package netem

import (
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"
)

// mtu of all links. With 5 percent loss the kernel's congestion control brings little
// over a link of 1,500: a copy would take ten minutes.
const mtu = 9000

// queueLimit is how many packets a port may have under way to it; more are dropped.
const queueLimit = 2000

// Weather is what happens to each packet, in either direction of a machine's link.
type Weather struct {
	Loss          float64 // share of packets lost
	Delay, Jitter time.Duration
	Reorder       float64 // share of packets that overtake: they are not delayed
	Down          bool    // nothing passes
}

// A wire moves packets between ports by their address.
type wire struct {
	mu      sync.Mutex
	rand    *rand.Rand
	ports   map[netip.Addr]*port
	queue   packets
	sent    uint64
	stopped bool
	wake    chan struct{}
	movers  sync.WaitGroup
}

// A port is where a machine is plugged in.
type port struct {
	tun *os.File

	// Guarded by the wire's mutex.
	weather              Weather
	waiting              int
	passed, lost, strays int
	bytes                int64 // passed
}

// newWire makes a wire that stops with the test.
func newWire(t *testing.T, seed uint64) *wire {
	w := &wire{rand: rand.New(rand.NewPCG(seed, 0)), ports: map[netip.Addr]*port{}, wake: make(chan struct{}, 1)}
	w.movers.Go(w.deliver)
	t.Cleanup(func() {
		w.mu.Lock()
		w.stopped = true
		ports := w.ports
		w.mu.Unlock()
		for _, p := range ports {
			p.tun.Close()
		}
		w.notify()
		w.movers.Wait()
	})
	return w
}

func (w *wire) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// plug adds a machine. It owns tun.
func (w *wire) plug(tun *os.File, addr netip.Addr) *port {
	p := &port{tun: tun}
	w.mu.Lock()
	w.ports[addr] = p
	w.mu.Unlock()
	w.movers.Go(func() { w.collect(p) })
	return p
}

// move gives p another address; what goes to the old one is lost from now on.
func (w *wire) move(p *port, addr netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for old, q := range w.ports {
		if q == p {
			delete(w.ports, old)
		}
	}
	w.ports[addr] = p
}

func (w *wire) setWeather(p *port, weather Weather) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.weather = weather
}

func (w *wire) weatherOf(p *port) Weather {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.weather
}

// bytes is how much has passed through a port.
func (w *wire) bytes(p *port) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.bytes
}

// counts are packets that came through, were lost by chance, and had no such address.
func (w *wire) counts(p *port) (passed, lost, strays int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.passed, p.lost, p.strays
}

// collect takes what p's machine sends.
func (w *wire) collect(p *port) {
	buf := make([]byte, mtu+100)
	for {
		n, err := p.tun.Read(buf)
		if err != nil {
			return
		}
		if n < 20 || buf[0]>>4 != 4 {
			continue // not IPv4: the kernel asking for routers
		}
		w.send(p, append([]byte(nil), buf[:n]...))
	}
}

// send decides what becomes of a packet of from's.
func (w *wire) send(from *port, data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// Whoever has lost its address is not heard any more.
	if w.ports[netip.AddrFrom4([4]byte(data[12:16]))] != from {
		from.strays++
		return
	}
	to := w.ports[netip.AddrFrom4([4]byte(data[16:20]))]
	if to == nil {
		from.strays++
		return
	}
	var delay time.Duration
	for _, p := range []*port{from, to} {
		f := p.weather
		if f.Down || w.rand.Float64() < f.Loss || p.waiting >= queueLimit {
			p.lost++
			return
		}
		if w.rand.Float64() >= f.Reorder {
			delay += f.Delay
			if f.Jitter > 0 {
				delay += time.Duration(w.rand.Int64N(int64(f.Jitter)))
			}
		}
	}
	from.passed++
	to.passed++
	from.bytes += int64(len(data))
	to.bytes += int64(len(data))
	to.waiting++
	w.sent++
	heap.Push(&w.queue, &packet{due: time.Now().Add(delay), number: w.sent, to: to, data: data})
	w.notify()
}

// deliver hands packets over when they are due.
func (w *wire) deliver() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		wait := time.Hour
		var due []*packet
		for len(w.queue) > 0 {
			if wait = time.Until(w.queue[0].due); wait > 0 {
				break
			}
			p := heap.Pop(&w.queue).(*packet)
			p.to.waiting--
			due = append(due, p)
		}
		stopped := w.stopped
		w.mu.Unlock()
		if stopped {
			return
		}
		for _, p := range due {
			_, _ = p.to.tun.Write(p.data) // a machine that is gone hears nothing
		}
		if len(due) > 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-w.wake:
		}
	}
}

type packet struct {
	due    time.Time
	number uint64
	to     *port
	data   []byte
}

// packets are ordered by time, then by when they were sent.
type packets []*packet

func (p packets) Len() int { return len(p) }
func (p packets) Less(i, j int) bool {
	if !p[i].due.Equal(p[j].due) {
		return p[i].due.Before(p[j].due)
	}
	return p[i].number < p[j].number
}
func (p packets) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *packets) Push(x any)   { *p = append(*p, x.(*packet)) }
func (p *packets) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
