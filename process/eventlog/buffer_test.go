package eventlog

import (
	"bytes"
	"testing"
)

// full is a chunk that fills its buffer.
func full(mark byte) Event {
	buf := new([ChunkBytes]byte)
	buf[0] = mark
	return Event{Kind: KindOutput, Data: buf[:]}
}

// lent reports whether the log or somebody else holds the data of e.
func lent(e Event) bool { return e.loan.holders.Load() > 0 }

func TestLoan(t *testing.T) {
	log := NewLog(nil, Retention{Bytes: 2 * ChunkBytes, Chunks: 10})
	add := func(mark byte) {
		t.Helper()
		if _, err := log.Append(full(mark)); err != nil {
			t.Fatal(err)
		}
	}
	read := func() Page {
		t.Helper()
		page, err := log.Read(nil, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	add(1)
	add(2)
	kept, given := read(), read()
	given.Release()
	add(3)
	add(4) // the log forgets 1 and 2
	for i, e := range kept.Events {
		if !lent(e) || e.Data[0] != byte(i+1) {
			t.Errorf("chunk %d, which is held, is given back", i+1)
		}
	}
	kept.Release()
	for i, e := range kept.Events {
		if lent(e) {
			t.Errorf("chunk %d, which nobody holds, is not given back", i+1)
		}
	}
	last := read()
	last.Release()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, e := range last.Events {
		if lent(e) {
			t.Errorf("chunk %d outlives its log", e.Data[0])
		}
	}
}

// TestLoanOfSmallChunks: they have memory of their own size, and are not lent.
func TestLoanOfSmallChunks(t *testing.T) {
	log := NewLog(nil, Retention{})
	if _, err := log.Append(Event{Kind: KindOutput, Data: bytes.Repeat([]byte("x"), 100)}); err != nil {
		t.Fatal(err)
	}
	page, err := log.Read(nil, 0, -1)
	if err != nil || page.Events[0].loan != nil {
		t.Errorf("got %+v, %v", page, err)
	}
	page.Release()
}
