package arq

import (
	"fmt"
	"time"
)

// A receiver puts records in order, has them opened, makes messages of them and knows
// what to acknowledge.
type receiver struct {
	cfg   *Config
	stats *Stats

	// next is the number of the record to open next. All before it were opened.
	next uint64
	// kept are records ahead of it: those with a payload, below keptTo.
	kept      ring[Data]
	keptTo    uint64
	keptCount int
	keptBytes int
	failures  int // records in a row that did not open as next

	assembler assembler
	// whole messages wait to be taken. waiting is how many segments they came in.
	whole   []message
	waiting int

	// window is our credit, told what the peer heard of it last.
	window, told uint64
	// owed is how many segments were received since the last frame with an ack; ackAt
	// is when one must go for them, zero if there are none. ackNow: at once.
	owed   int
	ackAt  time.Time
	ackNow bool
}

func newReceiver(cfg *Config, stats *Stats) *receiver {
	r := &receiver{cfg: cfg, stats: stats, next: cfg.limits.first, assembler: assembler{limits: &cfg.limits}}
	r.widen()
	r.told = r.window
	return r
}

func (r *receiver) reliable() bool { return r.cfg.Profile == Reliable }

// data takes a segment. Its error is the end of the stream.
func (r *receiver) data(now time.Time, d Data) error {
	seq := uint64(d.Seq)
	switch {
	case len(d.Payload) == 0 || len(d.Payload) > MaxRecord || !r.reliable() && (d.Index != 0 || d.Count != 1):
		r.stats.Malformed++
		return nil
	case seq < r.next || r.has(seq):
		// "Duplicate suppression": the first copy wins, the ack was lost perhaps.
		r.stats.Duplicates++
		r.ackNow = true
		return nil
	}
	if problem := r.excess(seq, len(d.Payload)); problem != "" {
		r.stats.Beyond++
		r.ackNow = true
		if r.reliable() {
			return nil
		}
		return &ProtocolError{Problem: problem}
	}
	if seq > r.next {
		r.keep(seq, d)
		r.ackNow = true
		return nil
	}
	gap := r.keptCount > 0
	if err := r.open(d); err != nil {
		return err
	}
	if err := r.drain(); err != nil {
		return err
	}
	r.widen()
	if gap {
		r.ackNow = true
	}
	r.schedule(now)
	return nil
}

// has says whether a record ahead of the next one is kept.
func (r *receiver) has(seq uint64) bool {
	return r.keptCount > 0 && seq < r.keptTo && r.kept.at(seq).Payload != nil
}

// excess says why a record cannot be taken, if so.
func (r *receiver) excess(seq uint64, size int) string {
	if !r.reliable() {
		if seq > r.next+CodexLead {
			return fmt.Sprintf("record %d while %d is missing", seq, r.next)
		}
		if seq > r.next && r.keptBytes+size > CodexBytes {
			return fmt.Sprintf("more than %d bytes while record %d is missing", CodexBytes, r.next)
		}
		return ""
	}
	switch {
	case seq >= r.window:
		return "beyond the window"
	case seq == r.next:
		return ""
	case seq-r.next >= uint64(r.cfg.limits.segments), r.keptBytes+size > r.cfg.limits.bytes:
		return "too far ahead"
	}
	return ""
}

func (r *receiver) keep(seq uint64, d Data) {
	r.kept.reserve(r.next, seq)
	*r.kept.at(seq) = d
	r.keptTo = max(r.keptTo, seq+1)
	r.keptCount++
	r.keptBytes += len(d.Payload)
}

// drain opens what was kept, as far as there is no gap.
func (r *receiver) drain() error {
	for r.has(r.next) {
		slot := r.kept.at(r.next)
		d := *slot
		*slot = Data{}
		r.keptCount--
		r.keptBytes -= len(d.Payload)
		if err := r.open(d); err != nil {
			return err
		}
	}
	return nil
}

// open opens the record whose turn it is. One that does not open is dropped and not
// acknowledged: "the genuine one may follow".
func (r *receiver) open(d Data) error {
	piece, err := r.cfg.Open(d)
	if err != nil {
		r.stats.Unopened++
		r.failures++
		r.ackNow = true
		if !r.reliable() || r.failures >= MaxFailures {
			return &ProtocolError{Problem: fmt.Sprintf("%d records in a row do not open as %d", r.failures, r.next)}
		}
		return nil
	}
	r.failures = 0
	r.next++
	r.owed++
	return r.assemble(d, piece)
}

func (r *receiver) assemble(d Data, piece []byte) error {
	var problem string
	if r.reliable() {
		m, done, p := r.assembler.segment(d, piece)
		if problem = p; done {
			r.deliver(m)
		}
	} else {
		problem = r.assembler.stream(piece, r.deliver)
		if problem == "" && len(r.whole) > CodexMessages {
			problem = fmt.Sprintf("more than %d messages wait", CodexMessages)
		}
	}
	if problem != "" {
		return &ProtocolError{Problem: problem}
	}
	return nil
}

func (r *receiver) deliver(m message) {
	r.whole = append(r.whole, m)
	r.waiting += m.segments
	r.stats.Messages++
}

// take returns the oldest message that waits.
func (r *receiver) take(now time.Time) ([]byte, bool) {
	if len(r.whole) == 0 {
		return nil, false
	}
	m := r.whole[0]
	r.whole[0] = message{}
	r.whole = r.whole[1:]
	if len(r.whole) == 0 {
		r.whole = nil
	}
	r.waiting -= m.segments
	r.widen()
	r.reopen(now)
	return m.body, true
}

// trim gives up memory that an idle stream does not need.
func (r *receiver) trim() {
	if r.keptCount == 0 {
		r.kept = ring[Data]{}
	}
}

// drop forgets what will not become a message any more. Those that wait stay.
func (r *receiver) drop() {
	r.kept, r.keptCount, r.keptBytes = ring[Data]{}, 0, 0
	r.assembler = assembler{limits: &r.cfg.limits}
	r.ackAt, r.ackNow, r.owed = time.Time{}, false, 0
}
