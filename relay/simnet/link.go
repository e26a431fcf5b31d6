package simnet

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// BufferBytes is how much of a direction is under way or waits to be read. A writer
// waits for room.
const BufferBytes = 256 << 10

// maxSegment is how much is delivered at a time.
const maxSegment = 16 << 10

// A Link is one connection between two hosts.
type Link struct {
	from, to          *Host
	path              Path
	dialled, accepted *Conn

	mu          sync.Mutex
	there, back direction
}

// A direction is one half of a Link, guarded by its mutex.
type direction struct {
	link     *Link
	schedule schedule
	timer    *time.Timer
	sentBy   time.Time // when the bytes written so far have left

	flight    []segment
	arrived   []byte
	held      int   // bytes in flight and arrived
	delivered int64 // bytes that arrived, ever
	cutAt     int64 // cut the link when that many have; negative: never

	ended   bool  // the writer has closed: a segment with fin is in flight or has arrived
	atEnd   bool  // fin has arrived
	refused bool  // the reader has closed: what arrives is thrown away
	err     error // the link was cut
	blocked bool
	changed chan struct{} // closed and replaced when anything changes
}

type segment struct {
	due  time.Time
	data []byte
	fin  bool
	gone bool // with fin: the writer does not read any more either
}

// link makes a Link that nobody has accepted yet.
func (h *Host) link(to *Host, port int) *Link {
	there, back := h.net.directions()
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.port++
	l := &Link{from: h, to: to, path: h.path}
	for d, number := range map[*direction]uint64{&l.there: there, &l.back: back} {
		*d = direction{link: l, schedule: newSchedule(h.net.seed, number), cutAt: -1, changed: make(chan struct{})}
	}
	near, far := &net.TCPAddr{IP: h.ip, Port: h.port}, &net.TCPAddr{IP: to.ip, Port: port}
	l.dialled = &Conn{link: l, in: &l.back, out: &l.there, local: near, remote: far}
	l.accepted = &Conn{link: l, in: &l.there, out: &l.back, local: far, remote: near}
	return l
}

// From is the host that dialled.
func (l *Link) From() *Host { return l.from }

// To is the host that was dialled.
func (l *Link) To() *Host { return l.to }

// Cut breaks the connection: both ends find it reset, at once. What has arrived can
// still be read.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reset()
}

func (l *Link) reset() {
	for _, d := range []*direction{&l.there, &l.back} {
		if d.err == nil {
			d.err = syscall.ECONNRESET
		}
		d.flight = nil
		d.stop()
		d.notify()
	}
}

// CutThere cuts the link when n more bytes have come to the host that was dialled.
func (l *Link) CutThere(n int) { l.cutAfter(&l.there, n) }

// CutBack cuts the link when n more bytes have come to the host that dialled.
func (l *Link) CutBack(n int) { l.cutAfter(&l.back, n) }

func (l *Link) cutAfter(d *direction, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d.cutAt = d.delivered + int64(n)
	if n <= 0 {
		l.reset()
	}
}

// BlockThere holds what goes to the host that was dialled, until it is called with
// false. Neither end is told: it is what a lost route looks like.
func (l *Link) BlockThere(block bool) { l.block(block, &l.there) }

// BlockBack holds what goes to the host that dialled.
func (l *Link) BlockBack(block bool) { l.block(block, &l.back) }

func (l *Link) block(block bool, directions ...*direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range directions {
		d.blocked = block
		if !block {
			d.arm()
		}
	}
}

// Bytes returns how many bytes have come to the host that was dialled, and to the
// one that dialled.
func (l *Link) Bytes() (there, back int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.there.delivered, l.back.delivered
}

// over reports whether nothing can happen on the link any more.
func (l *Link) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.there.err != nil || l.there.refused && l.back.refused
}

// write takes as much of b as there is room for.
func (d *direction) write(b []byte) int {
	n := min(len(b), BufferBytes-d.held)
	for data := b[:n]; len(data) > 0; {
		piece := data[:min(len(data), maxSegment)]
		data = data[len(piece):]
		d.send(segment{data: append([]byte(nil), piece...)})
	}
	return n
}

// send puts s on its way.
func (d *direction) send(s segment) {
	now := time.Now()
	if d.sentBy.Before(now) {
		d.sentBy = now
	}
	if d.link.path.Bandwidth > 0 {
		d.sentBy = d.sentBy.Add(time.Duration(int64(len(s.data)) * int64(time.Second) / d.link.path.Bandwidth))
	}
	s.due = d.schedule.next(d.sentBy.Add(d.link.path.latency() + d.schedule.within(d.link.path.Jitter)))
	d.held += len(s.data)
	d.flight = append(d.flight, s)
	if len(d.flight) == 1 {
		d.arm()
	}
}

// arm has deliver called for the first segment in flight.
func (d *direction) arm() {
	if len(d.flight) == 0 || d.blocked {
		return
	}
	due := d.flight[0].due
	if now := time.Now(); due.Before(now) { // held up; what comes later must not overtake it
		due = d.schedule.align(now)
	}
	d.stop()
	d.timer = time.AfterFunc(time.Until(due), func() {
		d.link.mu.Lock()
		defer d.link.mu.Unlock()
		d.deliver()
	})
}

func (d *direction) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// deliver delivers what is due.
func (d *direction) deliver() {
	for now := time.Now(); len(d.flight) > 0 && !d.blocked && !d.flight[0].due.After(now); {
		s := d.flight[0]
		d.flight = d.flight[1:]
		d.arrive(s)
		if d.err != nil {
			return
		}
	}
	d.arm()
}

func (d *direction) arrive(s segment) {
	defer d.notify()
	if s.fin {
		d.atEnd = true
		if other := d.other(); s.gone && other.err == nil {
			other.err = syscall.EPIPE // for whoever still writes to it
			other.flight = nil
			other.notify()
		}
		return
	}
	data, cut := s.data, d.cutAt >= 0 && d.delivered+int64(len(s.data)) >= d.cutAt
	if cut {
		data = data[:d.cutAt-d.delivered]
	}
	d.delivered += int64(len(data))
	if d.refused {
		d.held -= len(s.data)
	} else {
		d.held -= len(s.data) - len(data)
		d.arrived = append(d.arrived, data...)
	}
	if cut {
		d.link.reset()
	}
}

func (d *direction) other() *direction {
	if d == &d.link.there {
		return &d.link.back
	}
	return &d.link.there
}

func (d *direction) notify() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// end has the writer end the direction; gone says that it does not read either.
func (d *direction) end(gone bool) {
	if d.err == nil && (!d.ended || gone) {
		d.ended = true
		d.send(segment{fin: true, gone: gone})
	}
}

// tryRead reads what is there; it returns 0 and nil when one has to wait.
func (d *direction) tryRead(b []byte) (int, error) {
	switch {
	case d.refused:
		return 0, net.ErrClosed
	case len(d.arrived) > 0:
		n := copy(b, d.arrived)
		if d.arrived = d.arrived[n:]; len(d.arrived) == 0 {
			d.arrived = nil
		}
		d.held -= n
		d.notify()
		return n, nil
	case d.atEnd:
		return 0, io.EOF
	case d.err != nil:
		return 0, os.NewSyscallError("read", d.err)
	}
	return 0, nil
}

// tryWrite writes what there is room for; 0 and nil when one has to wait.
func (d *direction) tryWrite(b []byte) (int, error) {
	switch {
	case d.ended:
		return 0, net.ErrClosed
	case d.err != nil:
		return 0, os.NewSyscallError("write", d.err)
	}
	return d.write(b), nil
}
