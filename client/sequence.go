package client

import (
	"fmt"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// maxEarlyBytes and maxEarlyEvents bound the events of one process that arrived
	// before one that precedes them. What is beyond is dropped and asked for again.
	maxEarlyBytes  = 16 << 20
	maxEarlyEvents = 65_536
)

type eventKind uint8

const (
	outputEvent eventKind = iota
	exitedEvent
	closedEvent
)

// event is one numbered event of a process.
type event struct {
	seq    uint64
	kind   eventKind
	stream string // of an outputEvent
	data   []byte // of an outputEvent
	exit   exit   // of an exitedEvent
}

// exit is an ExitStatus whose SandboxDenied may not be known yet.
type exit struct {
	ExitStatus
	denied *bool
}

// sequence puts the events of one process in the order of their numbers, each once.
// It is plain state: no locks, no clock.
type sequence struct {
	last       uint64 // the number of the last event that was published
	early      map[uint64]event
	earlyBytes int
	exitSeq    uint64 // 0 until an exitedEvent has arrived
	closeSeq   uint64 // 0 until a closedEvent has arrived
}

// add takes an event that arrived and calls publish for each event that is next. It
// returns false for an event that cannot be kept.
func (s *sequence) add(e event, publish func(event)) bool {
	switch {
	case e.seq <= s.last:
		return true // known
	case e.seq == s.last+1:
		s.note(e)
		s.last = e.seq
		publish(e)
		s.flush(publish)
		return true
	}
	if _, known := s.early[e.seq]; known {
		return true
	}
	if e.kind == outputEvent && (s.earlyBytes+len(e.data) > maxEarlyBytes || len(s.early) >= maxEarlyEvents) {
		return false
	}
	s.note(e)
	if s.early == nil {
		s.early = make(map[uint64]event)
	}
	s.early[e.seq] = e
	s.earlyBytes += len(e.data)
	return true
}

func (s *sequence) note(e event) {
	switch e.kind {
	case exitedEvent:
		s.exitSeq = e.seq
	case closedEvent:
		s.closeSeq = e.seq
	case outputEvent:
	}
}

// flush publishes the early events that are next.
func (s *sequence) flush(publish func(event)) {
	for len(s.early) > 0 {
		e, ok := s.early[s.last+1]
		if !ok {
			return
		}
		s.take(e)
		s.last = e.seq
		publish(e)
	}
}

func (s *sequence) take(e event) {
	delete(s.early, e.seq)
	s.earlyBytes -= len(e.data)
}

// hasHole reports whether an event is missing that precedes one that arrived.
func (s *sequence) hasHole() bool { return len(s.early) > 0 }

// merge takes the answer to a process/read without maxBytes and publishes what is
// next. The exit and the end take a number each but are not among the chunks: one
// number that no chunk has may be the exit's, and the last one the end's. Any other
// number that is missing is output that the server no longer has: that is the error,
// ErrOutputLost.
func (s *sequence) merge(r *protocol.ReadResult, publish func(event)) error {
	if err := s.check(r); err != nil {
		return err
	}
	chunks := r.Chunks
	for s.last+1 < r.NextSeq {
		next := s.last + 1
		for len(chunks) > 0 && chunks[0].Seq < next {
			chunks = chunks[1:]
		}
		e, isEarly := s.early[next]
		switch {
		case isEarly:
			s.take(e)
		case len(chunks) > 0 && chunks[0].Seq == next:
			e = event{seq: next, kind: outputEvent, stream: chunks[0].Stream, data: chunks[0].Chunk}
		case r.Closed && s.closeSeq == 0 && next == r.NextSeq-1:
			e = event{seq: next, kind: closedEvent}
		default: // check has left nothing else
			e = event{seq: next, kind: exitedEvent, exit: exitOf(r)}
		}
		s.note(e)
		s.last = next
		publish(e)
	}
	s.flush(publish)
	return nil
}

// mergePage takes the answer to a process/read with maxBytes, and reports whether there
// may be more; through is the last number it tells of. What r says of the exit and the
// end is of the present. So a number that no chunk has may be the exit's or lost output's,
// and what comes after it waits for the answer without chunks, which is the last one.
func (s *sequence) mergePage(r *protocol.ReadResult, publish func(event)) (through uint64, more bool, err error) {
	if len(r.Chunks) == 0 {
		return 0, false, s.merge(r, publish)
	}
	for _, c := range r.Chunks {
		if !s.add(event{seq: c.Seq, kind: outputEvent, stream: c.Stream, data: c.Chunk}, publish) {
			return 0, false, fmt.Errorf("%w: events after %d are missing, and too much came after them", ErrOutputLost, s.last)
		}
		through = c.Seq
	}
	return through, true, nil
}

// check counts the numbers that r should tell of and does not.
func (s *sequence) check(r *protocol.ReadResult) error {
	if s.last+1 >= r.NextSeq {
		return nil
	}
	missing := r.NextSeq - 1 - s.last
	for seq := range s.early {
		if seq < r.NextSeq {
			missing--
		}
	}
	before := s.last
	for _, chunk := range r.Chunks {
		if chunk.Seq <= before || chunk.Seq >= r.NextSeq {
			continue
		}
		before = chunk.Seq
		if _, isEarly := s.early[chunk.Seq]; !isEarly {
			missing--
		}
	}
	if r.Exited && s.exitSeq == 0 {
		missing--
	}
	if r.Closed && s.closeSeq == 0 {
		missing--
	}
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("%w: events after %d are missing while recovering through %d", ErrOutputLost, s.last, r.NextSeq-1)
}

// exitOf is the exit that the answer to a process/read tells of.
func exitOf(r *protocol.ReadResult) exit {
	e := exit{denied: &r.SandboxDenied}
	e.Code = -1 // the server does not know
	if r.ExitCode != nil {
		e.Code = *r.ExitCode
	}
	e.Signal, e.TimedOut, e.Limit = r.Signal, r.TimedOut, r.Limit
	return e
}
