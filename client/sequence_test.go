package client

import (
	"errors"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/protocol"
)

// history is what a process did: outputs, an exit, maybe an end.
type history struct {
	events []event // events[i] has the number i+1
}

func drawHistory(t *rapid.T) history {
	var h history
	n := rapid.IntRange(0, 30).Draw(t, "outputs")
	exitAt := rapid.IntRange(0, n+1).Draw(t, "exit") // n+1: it still runs
	for i := range n + 1 {
		if i == exitAt {
			denied := false
			h.events = append(h.events, event{kind: exitedEvent, exit: exit{denied: &denied}})
		}
		if i < n {
			h.events = append(h.events, event{kind: outputEvent, stream: "stdout", data: []byte{byte(i)}})
		}
	}
	if exitAt <= n && rapid.Bool().Draw(t, "closed") {
		h.events = append(h.events, event{kind: closedEvent})
	}
	for i := range h.events {
		h.events[i].seq = uint64(i + 1)
	}
	return h
}

// read is the server's answer to a process/read with everything retained but the
// first evicted numbers.
func (h history) read(after, evicted uint64) *protocol.ReadResult {
	r := &protocol.ReadResult{NextSeq: uint64(len(h.events)) + 1}
	for _, e := range h.events {
		switch {
		case e.kind == exitedEvent:
			code := 0
			r.Exited, r.ExitCode = true, &code
		case e.kind == closedEvent:
			r.Closed = true
		case e.seq > after && e.seq > evicted:
			r.Chunks = append(r.Chunks, protocol.OutputChunk{Seq: e.seq, Stream: e.stream, Chunk: e.data})
		}
	}
	return r
}

// page is the answer to one for max bytes of output.
func (h history) page(after, evicted, most uint64) *protocol.ReadResult {
	r := h.read(after, evicted)
	var size uint64
	for i, c := range r.Chunks {
		if size += uint64(len(c.Chunk)); i > 0 && size > most {
			r.Chunks = r.Chunks[:i]
			break
		}
	}
	if n := len(r.Chunks); n > 0 {
		r.NextSeq = r.Chunks[n-1].Seq + 1
	}
	return r
}

// Whatever arrives, in whatever order, how often, with whatever missing: each event
// is published once, in order, and after a read nothing is missing.
func TestSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		var s sequence
		var got []event
		publish := func(e event) { got = append(got, e) }
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 0))
		evicted := uint64(rapid.IntRange(0, len(h.events)).Draw(t, "evicted"))
		for range rapid.IntRange(0, 60).Draw(t, "arrivals") {
			if len(h.events) > 0 {
				s.add(h.events[r.IntN(len(h.events))], publish)
			}
		}
		lost := false
		for seq := s.last + 1; seq <= evicted; seq++ {
			_, early := s.early[seq]
			lost = lost || h.events[seq-1].kind == outputEvent && !early
		}
		before := len(got)
		var err error
		if size := rapid.Uint64Range(0, 30).Draw(t, "page"); size == 0 {
			err = s.merge(h.read(s.last, evicted), publish)
		} else {
			through := s.last
			for more := true; more && err == nil; {
				through, more, err = s.mergePage(h.page(max(s.last, through), evicted, size), publish)
			}
		}
		if lost != errors.Is(err, ErrOutputLost) {
			t.Fatalf("lost %v, error %v", lost, err)
		}
		if lost {
			if n := len(got); n > before && got[n-1].seq > evicted {
				t.Fatal("published beyond a hole")
			}
		} else if len(got) != len(h.events) {
			t.Fatalf("published %d of %d", len(got), len(h.events))
		}
		for i, e := range got {
			want := h.events[i]
			if e.seq != uint64(i+1) || e.kind != want.kind || string(e.data) != string(want.data) {
				t.Fatalf("event %d is %+v, want %+v", i, e, want)
			}
		}
		if !lost && (s.hasHole() || s.earlyBytes != 0) {
			t.Fatalf("%d early events left, %d bytes", len(s.early), s.earlyBytes)
		}
	})
}

func TestEarlyEventsAreBounded(t *testing.T) {
	var s sequence
	publish := func(event) { t.Error("published beyond a hole") }
	block := make([]byte, 1<<20)
	for seq := uint64(2); seq < 2+maxEarlyBytes>>20; seq++ {
		if !s.add(event{seq: seq, data: block}, publish) {
			t.Fatalf("event %d refused", seq)
		}
	}
	if s.add(event{seq: 1000, data: block}, publish) {
		t.Error("kept more than maxEarlyBytes")
	}
	if !s.add(event{seq: 1001, kind: exitedEvent}, publish) {
		t.Error("the exit was refused")
	}
	s = sequence{}
	for seq := uint64(2); seq < 2+maxEarlyEvents; seq++ {
		s.add(event{seq: seq}, publish)
	}
	if s.add(event{seq: 1 << 20}, publish) {
		t.Error("kept more than maxEarlyEvents")
	}
}
