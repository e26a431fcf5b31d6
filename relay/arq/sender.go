package arq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// state says what is known of a segment in the queue.
type state uint8

const (
	// flying: sent, and nothing heard of it.
	flying state = iota
	// due: to be sent, for the first time or again, as soon as may be.
	due
	// suspect: sent before an older one for which the timer went off. It may be lost
	// as well; it is sent again when acks come in.
	suspect
	// held: the peer has it, but ahead of a gap, and has not opened it. It stays in the
	// queue, since what the peer keeps may turn out not to open.
	held
)

// A segment waits in the queue for its ack.
type segment struct {
	data  Data
	sent  time.Time // when last
	times int       // how often
	state state
}

// A sender cuts messages into segments and keeps those until they are acknowledged.
type sender struct {
	cfg   *Config
	stats *Stats

	// The message that is being cut, nil if none. cut of its bytes are in segments.
	msg   []byte
	cut   int
	index uint32
	count uint32
	head  [prefixSize]byte // its length, for codex

	// queue holds the segments from una, the oldest that is not acknowledged, up to
	// next, which is the number of the next new one. All before sentTo were sent.
	// For codex it is always empty, and una, next and sentTo are the same.
	queue             ring[segment]
	una, next, sentTo uint64
	bytes             int    // of the records in the queue
	credit            uint64 // the peer takes what is below
	dues, suspects    int    // how many segments are
	dueFrom, heldTo   uint64 // none is due before, none is held from there on

	rtt rtt
	// timer is when the oldest segment is sent again; zero while it is off: nothing is
	// unacknowledged, or there is no contact.
	timer time.Time

	// contact: what is sent may arrive. The rest runs with contact only.
	contact bool
	// stalled is how long, up to since, the peer was there and nothing moved. It is
	// counted from one frame of the peer to the next, so that a socket which is lost
	// and not yet missed does not count; and only while the queue holds something.
	stalled time.Duration
	since   time.Time
	// probe is when to ask a peer for its window that gave no credit; zero if this is
	// not what keeps us from sending. probes is how often that was asked in vain.
	probe  time.Time
	probes int
	// denied is when the peer first took back an ack, without confirming it since;
	// zero if it did not.
	denied time.Time
}

func newSender(cfg *Config, stats *Stats) *sender {
	first := cfg.limits.first
	return &sender{
		cfg: cfg, stats: stats, contact: true,
		una: first, next: first, sentTo: first, dueFrom: first, heldTo: first,
		// A peer that has received nothing takes this much, whether it said so or not.
		credit: min(first+uint64(cfg.limits.segments), maxSeq),
	}
}

func (s *sender) reliable() bool { return s.cfg.Profile == Reliable }

// write begins a message.
func (s *sender) write(msg []byte) error {
	if s.msg != nil {
		return ErrBusy
	}
	if len(msg) == 0 || len(msg) > s.cfg.limits.message {
		return fmt.Errorf("send %d bytes: %w", len(msg), ErrSize)
	}
	s.msg, s.cut, s.index, s.count = msg, 0, 0, 1
	if s.reliable() {
		piece := s.cfg.limits.piece
		s.count = uint32((len(msg) + piece - 1) / piece)
	}
	return nil
}

// withdraw takes a message back if none of it was cut. Otherwise the rest is copied and
// will be sent, or the peer could make nothing of what comes after.
func (s *sender) withdraw() bool {
	if s.msg == nil {
		return false
	}
	if s.index == 0 {
		s.msg = nil
		return true
	}
	s.msg, s.cut = bytes.Clone(s.msg[s.cut:]), 0
	return false
}

// piece is the plaintext of the next new segment.
func (s *sender) piece() (prefix, piece []byte) {
	size := s.cfg.limits.piece
	if !s.reliable() && s.index == 0 {
		binary.BigEndian.PutUint32(s.head[:], uint32(len(s.msg)))
		prefix, size = s.head[:], size-prefixSize
	}
	return prefix, s.msg[s.cut:min(len(s.msg), s.cut+size)]
}

// room says whether one more segment is within all bounds: "unacknowledged segments
// <= 256 and <= 8 MiB, and seq < peer's window".
func (s *sender) room(size int) bool {
	return !s.reliable() || s.next < s.credit &&
		s.next-s.una < uint64(s.cfg.limits.segments) && s.bytes+size <= s.cfg.limits.bytes
}

// seal makes the next new segment, if there is something to send and room for it.
func (s *sender) seal() (d Data, ok bool, err error) {
	if s.msg == nil {
		return d, false, nil
	}
	if s.next >= maxSeq {
		return d, false, ErrSeqEnd
	}
	prefix, piece := s.piece()
	if !s.room(len(prefix) + len(piece) + tagSize) {
		return d, false, nil
	}
	d = Data{Seq: uint32(s.next), Count: 1}
	if s.reliable() {
		d.Index, d.Count = s.index, s.count
	}
	if d.Payload, err = s.cfg.Seal(d, prefix, piece); err != nil {
		return d, false, fmt.Errorf("seal segment %d: %w", s.next, err)
	}
	s.next++
	if !s.reliable() { // once sent, it is the socket's
		s.una, s.sentTo = s.next, s.next
	}
	s.index++
	if s.cut += len(piece); s.cut == len(s.msg) {
		s.msg = nil
	}
	return d, true, nil
}

// fill puts one more new segment into the queue.
func (s *sender) fill(now time.Time) (bool, error) {
	d, ok, err := s.seal()
	if !ok || err != nil {
		return false, err
	}
	seq := uint64(d.Seq)
	s.queue.reserve(s.una, seq)
	*s.queue.at(seq) = segment{data: d, state: flying}
	s.bytes += len(d.Payload)
	s.mark(seq, due)
	if seq == s.una {
		s.stalled, s.since = 0, now
	}
	return true, nil
}

// pull returns the next segment to send now: an older one before a new one.
func (s *sender) pull(now time.Time) (d Data, ok bool, err error) {
	if !s.reliable() {
		return s.seal()
	}
	if s.dues == 0 {
		if ok, err := s.fill(now); !ok {
			return d, false, err
		}
	}
	seq := max(s.dueFrom, s.una)
	for s.queue.at(seq).state != due {
		seq++
	}
	s.dueFrom = seq + 1
	s.sentTo = max(s.sentTo, seq+1)
	s.mark(seq, flying)
	seg := s.queue.at(seq)
	seg.sent = now
	if seg.times++; seg.times > 1 {
		s.stats.Resent++
	}
	// RFC 6298 (5.1), and (5.6) for the oldest.
	if s.timer.IsZero() || seq == s.una {
		s.timer = now.Add(s.rtt.timeout())
	}
	return seg.data, true, nil
}

// mark changes the state of a segment.
func (s *sender) mark(seq uint64, to state) {
	seg := s.queue.at(seq)
	switch seg.state {
	case due:
		s.dues--
	case suspect:
		s.suspects--
	case flying, held:
	}
	seg.state = to
	switch to {
	case due:
		s.dues++
		s.dueFrom = min(s.dueFrom, seq)
	case suspect:
		s.suspects++
	case held:
		s.heldTo = max(s.heldTo, seq+1)
	case flying:
	}
}

// starved says that only the peer's window keeps us from sending, and nothing is on its
// way whose ack could open it.
func (s *sender) starved() bool {
	return s.reliable() && s.contact && s.msg != nil && s.una == s.next && s.next >= s.credit && s.next < maxSeq
}

// watchWindow keeps the probe's time. It is called when there is nothing to send now.
func (s *sender) watchWindow(now time.Time) {
	switch {
	case !s.starved():
		s.probe, s.probes = time.Time{}, 0
	case s.probe.IsZero():
		s.probe = now.Add(s.rtt.doubled(s.probes))
	}
}

// trim gives up memory that an idle stream does not need.
func (s *sender) trim() {
	if s.una == s.next {
		s.queue = ring[segment]{}
	}
}

// drop forgets all that was to be sent.
func (s *sender) drop() {
	s.msg = nil
	s.queue = ring[segment]{}
	s.bytes, s.dues, s.suspects = 0, 0, 0
	s.timer, s.probe = time.Time{}, time.Time{}
}
