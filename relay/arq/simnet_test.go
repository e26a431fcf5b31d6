package arq

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"
)

// trouble is what a simulated network does. Probabilities are per frame.
type trouble struct {
	loss, duplicate, corrupt float64
	delay, jitter            time.Duration // of a frame: delay + up to jitter
	spike                    float64       // of a delay of up to 5 s
	pace                     time.Duration // a socket takes a frame each so often; 0: all at once
	cuts                     int           // how many sockets are lost in all
	cutEvery                 int           // after up to so many frames
	cutAlone                 bool          // never both at a time
	cutBoth                  bool          // always
	forge                    forgery
	forgeries                int // how many frames are forged in all
}

// forgery is what somebody in between makes up.
type forgery uint

const (
	forgeData   forgery = 1 << iota // records that do not open
	forgeBits                       // ack_bits
	forgeWindow                     // any window
	forgeBack                       // acks that move back, old frames played again
	forgeHead                       // index and count of true records
	// From here on the stream may fail, as long as it does so loudly.
	forgeAck
	forgeEpoch
	forgeReset

	harmless = forgeData | forgeBits | forgeWindow | forgeBack | forgeHead
)

// event is something that will happen in a world.
type event struct {
	at    time.Duration // since the beginning
	order uint64        // of those at the same time
	kind  eventKind
	end   int
	// For a frame that arrives: over which sockets of its sender and its receiver it went.
	frame    Frame
	from, to int
}

type eventKind uint8

const (
	wake eventKind = iota
	arrive
	write
	take
	pull
	noticeCut
	reconnect
)

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if a[i].at != a[j].at {
		return a[i].at < a[j].at
	}
	return a[i].order < a[j].order
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last] = event{}
	*a = (*a)[:last]
	return e
}

// A world is two streams and the relay between them, in virtual time.
type world struct {
	*plan
	rng    *rand.Rand
	start  time.Time
	now    time.Duration
	agenda agenda
	order  uint64
	ends   [2]*end
	steps  int
	// calm: the network does no more harm; watch: only heartbeats may be sent.
	calm, watch bool
	overtaken   int // by how many later ones a segment was
	trace       func(format string, args ...any)
}

// An end is a stream with the loop that relay will have around it. End 0 is the harness.
type end struct {
	id     int
	stream *Stream
	cipher fakeCipher

	socket int  // counts them; what goes over an older one is mostly lost
	up     bool // the socket works, whether the end knows or not
	bound  bool // the relay knows that the stream is to be found there
	fuse   int  // so many more frames until the socket is lost
	coming bool // a new socket is being made

	wakeAt  time.Duration // of the earliest wake on the agenda, or 0
	pulling bool          // a pull is on the agenda
	taking  bool          // a take is

	written, received int // messages
	writable          int // how many it is time to write

	// What went out, to compare.
	records  [][]byte // the record of each segment
	ack      uint64
	window   uint32
	old      []Frame // frames that may be played again
	finished bool
	highest  uint64 // the highest number that arrived
}

func newWorld(p *plan) *world {
	w := &world{plan: p, rng: rand.New(rand.NewPCG(p.seed, 2)), start: time.Unix(1_000_000, 0), trace: func(string, ...any) {}}
	for i := range w.ends {
		e := &end{id: i, up: true, bound: true}
		e.highest = p.config.limits.first
		e.cipher.sealed, e.cipher.opened = p.config.limits.first, p.config.limits.first
		e.ack = p.config.limits.first
		cfg := p.config
		cfg.Seal, cfg.Open = e.cipher.seal, e.cipher.open
		cfg.Rand = rand.New(rand.NewPCG(p.seed, uint64(10+i)))
		e.stream = New(cfg, w.start)
		e.fuse = w.fuse()
		w.ends[i] = e
		w.add(event{kind: wake, end: i})
		for _, at := range p.writes[i] {
			w.add(event{at: at, kind: write, end: i})
		}
	}
	return w
}

func (w *world) clock() time.Time { return w.start.Add(w.now) }

func (w *world) add(e event) {
	e.order = w.order
	w.order++
	heap.Push(&w.agenda, e)
}

func (w *world) fuse() int {
	if w.cuts <= 0 {
		return -1
	}
	return 1 + w.rng.IntN(w.cutEvery)
}

func (w *world) chance(p float64) bool { return p > 0 && !w.calm && w.rng.Float64() < p }

// upTo is a time from 0 to d.
func (w *world) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

// step does the next thing on the agenda.
func (w *world) step() error {
	e := heap.Pop(&w.agenda).(event)
	w.now = e.at
	w.steps++
	me := w.ends[e.end]
	switch e.kind {
	case wake:
		if e.at == me.wakeAt {
			me.wakeAt = 0
		}
		me.stream.Advance(w.clock())
	case arrive:
		if err := w.arrive(me, e); err != nil {
			return err
		}
	case write:
		me.writable++
	case take:
		me.taking = false
		if err := w.take(me); err != nil {
			return err
		}
	case pull:
		me.pulling = false
	case noticeCut:
		if e.from == me.socket && !me.up {
			w.trace("%d detach", me.id)
			me.stream.Detach(w.clock())
			w.reconnect(me)
		}
	case reconnect:
		w.attach(me)
	}
	return w.run(me)
}

// run is the loop around a stream.
func (w *world) run(e *end) error {
	s := e.stream
	for {
		for e.written < e.writable && s.Writable() {
			w.trace("%d write message %d of %d bytes", e.id, e.written, len(w.messages[e.id][e.written]))
			if err := s.Write(w.messages[e.id][e.written]); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			e.written++
		}
		if e.pulling {
			break
		}
		f, ok := s.Next(w.clock())
		if !ok {
			break
		}
		if err := w.send(e, f); err != nil {
			return err
		}
		if w.pace > 0 {
			e.pulling = true
			w.add(event{at: w.now + w.pace, kind: pull, end: e.id})
		}
	}
	if !e.taking && s.Waiting() > 0 {
		if w.consumer == 0 {
			if err := w.take(e); err != nil {
				return err
			}
			return w.run(e)
		}
		e.taking = true
		w.add(event{at: w.now + w.upTo(w.consumer), kind: take, end: e.id})
	}
	if s.Silent() && e.id == 0 {
		w.reconnect(e)
	}
	if err := check(s, w.clock(), !e.pulling); err != nil {
		return err
	}
	if e.written == len(w.messages[e.id]) && s.Flushed() && !e.finished {
		e.finished = true
	}
	w.schedule(e)
	return nil
}

// schedule wakes an end at its deadline.
func (w *world) schedule(e *end) {
	deadline := e.stream.Deadline()
	if deadline.IsZero() {
		return
	}
	at := max(deadline.Sub(w.start), w.now+1)
	if e.wakeAt == 0 || at < e.wakeAt {
		e.wakeAt = at
		w.add(event{at: at, kind: wake, end: e.id})
	}
}

// take gives a message to the consumer, who knows what is right.
func (w *world) take(e *end) error {
	m, ok := e.stream.Message(w.clock())
	if !ok {
		return nil
	}
	w.trace("%d take message %d of %d bytes", e.id, e.received, len(m))
	want := w.messages[1-e.id]
	if e.received >= len(want) || !bytes.Equal(m, want[e.received]) {
		return fmt.Errorf("end %d: message %d of %d is wrong", e.id, e.received, len(want))
	}
	e.received++
	return nil
}

// send is a frame that goes into a socket. It must keep the rules.
func (w *world) send(e *end, f Frame) error {
	w.trace("%d    %s", e.id, describe(f))
	if err := w.inspect(e, f); err != nil {
		return fmt.Errorf("end %d sends %s: %w", e.id, describe(f), err)
	}
	if len(e.old) < 64 {
		e.old = append(e.old, f)
	} else {
		e.old[w.rng.IntN(64)] = f
	}
	if e.fuse--; e.fuse == 0 && !w.calm {
		w.cut(e)
	}
	w.carry(e, f)
	if w.forgeries > 0 && w.chance(0.05) {
		w.forgeries--
		forged := w.forged(e)
		w.trace("x    forged as of %d: %s", e.id, describe(forged))
		w.add(event{at: w.now + w.latency(), kind: arrive, end: 1 - e.id, frame: forged, from: e.socket, to: w.ends[1-e.id].socket})
	}
	return nil
}

// inspect checks what must be true of every frame that is sent.
func (w *world) inspect(e *end, f Frame) error {
	if w.watch && f.Kind != KindHeartbeat {
		return fmt.Errorf("the stream is idle")
	}
	if f.Kind == KindData {
		i := int(uint64(f.Data.Seq) - w.config.limits.first)
		switch {
		case i == len(e.records):
			e.records = append(e.records, f.Data.Payload)
		case i > len(e.records):
			return fmt.Errorf("numbers were left out")
		case !w.reliable():
			return fmt.Errorf("sent again")
		case &e.records[i][0] != &f.Data.Payload[0]:
			return fmt.Errorf("sent again, another record")
		}
	}
	if !w.reliable() {
		if f.Ack != (Ack{}) || f.Epoch != 0 || f.Kind != KindData && f.Kind != KindReset {
			return fmt.Errorf("not a frame of the codex profile")
		}
		return nil
	}
	if f.Ack.next() < e.ack && f.Kind != KindReset {
		return fmt.Errorf("ack moves back from %d", e.ack)
	}
	if !f.Ack.HasWindow || f.Ack.Window < e.window || f.Ack.Bits&1 != 0 {
		return fmt.Errorf("window was %d", e.window)
	}
	if f.Epoch != e.stream.Epoch() {
		return fmt.Errorf("epoch is %d", e.stream.Epoch())
	}
	e.ack, e.window = max(e.ack, f.Ack.next()), f.Ack.Window
	return nil
}

// carry puts a frame on its way, or several copies, or none.
func (w *world) carry(e *end, f Frame) {
	if !e.up || w.chance(w.loss) {
		return
	}
	if f.Kind == KindResume {
		e.bound = true
	}
	copies := 1
	for copies < 4 && w.chance(w.duplicate) {
		copies++
	}
	for range copies {
		c := f
		if w.chance(w.corrupt) {
			w.damage(&c)
		}
		w.add(event{at: w.now + w.latency(), kind: arrive, end: 1 - e.id, frame: c, from: e.socket, to: w.ends[1-e.id].socket})
	}
}

func (w *world) latency() time.Duration {
	if w.chance(w.spike) {
		return w.upTo(5 * time.Second)
	}
	return w.delay + w.upTo(w.jitter)
}

// arrive is a frame that comes out of the network.
func (w *world) arrive(e *end, ev event) error {
	// What was on its way over a socket that is lost arrives seldom.
	if !e.up || !e.bound || (ev.from != w.ends[1-e.id].socket || ev.to != e.socket) && w.rng.Float64() < 0.7 {
		return nil
	}
	if e.fuse--; e.fuse == 0 && !w.calm {
		w.cut(e)
		return nil
	}
	f := ev.frame
	w.trace("%d <= %s", e.id, describe(f))
	if e.stream.Err() != nil {
		if f.Kind != KindReset && w.reliable() {
			w.carry(e, Frame{Kind: KindReset, Reason: "unknown_stream"})
		}
		return nil
	}
	if f.Kind == KindData && uint64(f.Data.Seq) < w.ends[1-e.id].stream.Cursors().Sent { // else it is forged
		e.highest = max(e.highest, uint64(f.Data.Seq))
		w.overtaken = max(w.overtaken, int(int64(e.highest)-int64(f.Data.Seq)))
	}
	f.Data.Payload = bytes.Clone(f.Data.Payload)
	err := e.stream.Handle(w.clock(), f)
	if err != nil {
		w.trace("%d    ended: %v", e.id, err)
	}
	if err != nil && !w.mayFail {
		return fmt.Errorf("end %d failed: %w", e.id, err)
	}
	return nil
}

// cut loses a socket: one, or both if the relay restarts.
func (w *world) cut(e *end) {
	if w.cuts <= 0 {
		return
	}
	w.cuts--
	w.lose(e)
	if w.cutBoth || !w.cutAlone && w.rng.IntN(3) == 0 {
		w.lose(w.ends[1-e.id])
	}
}

func (w *world) lose(e *end) {
	if !e.up {
		return
	}
	w.trace("%d    socket lost", e.id)
	e.up = false
	// The end notices at once, or after a while.
	var after time.Duration
	if w.rng.IntN(2) == 0 {
		after = w.upTo(w.notice)
	}
	w.add(event{at: w.now + after, kind: noticeCut, end: e.id, from: e.socket})
}

func (w *world) reconnect(e *end) {
	if e.coming || e.stream.Err() != nil {
		return
	}
	e.coming = true
	after := w.upTo(w.absence)
	if w.calm {
		after = 0
	}
	w.add(event{at: w.now + after, kind: reconnect, end: e.id})
}

func (w *world) attach(e *end) {
	w.trace("%d attach", e.id)
	e.coming = false
	e.socket++
	// The relay knows where an executor is; a harness has to say so.
	e.up, e.bound, e.fuse = true, e.id == 1, w.fuse()
	e.stream.Attach(w.clock())
}
