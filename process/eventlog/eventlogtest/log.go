package eventlogtest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// RunLog tests the logs that open returns: empty ones that keep what limit says.
func RunLog(t *testing.T, open func(limit eventlog.Retention) (*eventlog.Log, error)) {
	fresh := func(t *testing.T, limit eventlog.Retention) *eventlog.Log {
		t.Helper()
		store, err := open(limit)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		return store
	}
	roomy := eventlog.Retention{Bytes: 1 << 20, Chunks: 1000}
	t.Run("Empty", func(t *testing.T) { testEmpty(t, fresh(t, roomy)) })
	t.Run("OneCounter", func(t *testing.T) { testOneCounter(t, fresh(t, roomy)) })
	t.Run("Budget", func(t *testing.T) { testBudget(t, fresh(t, roomy)) })
	t.Run("EvictsByBytes", func(t *testing.T) { testEvictsByBytes(t, fresh(t, eventlog.Retention{Bytes: 10, Chunks: 1000})) })
	t.Run("EvictsByChunks", func(t *testing.T) { testEvictsByChunks(t, fresh(t, eventlog.Retention{Bytes: 1 << 20, Chunks: 50})) })
	t.Run("KeepsExit", func(t *testing.T) { testKeepsExit(t, fresh(t, eventlog.Retention{Bytes: 4, Chunks: 4})) })
	t.Run("EndsWithClosed", func(t *testing.T) { testEndsWithClosed(t, fresh(t, roomy)) })
	t.Run("Concurrent", func(t *testing.T) { testConcurrentLog(t, fresh(t, eventlog.Retention{Bytes: 1 << 20, Chunks: 10_000})) })
	t.Run("Model", func(t *testing.T) { testModel(t, open) })
}

// events are compared by what stores return.
var events = cmpopts.IgnoreUnexported(eventlog.Event{})

func output(data string) eventlog.Event {
	return eventlog.Event{Kind: eventlog.KindOutput, Stream: "stdout", Data: []byte(data)}
}

func add(t *testing.T, store *eventlog.Log, events ...eventlog.Event) {
	t.Helper()
	for _, e := range events {
		if _, err := store.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

// read returns the numbers of the events found, and the page.
func read(t *testing.T, store *eventlog.Log, after uint64, maxBytes int) ([]uint64, eventlog.Page) {
	t.Helper()
	page, err := store.Read(nil, after, maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	seqs := []uint64{}
	for _, e := range page.Events {
		seqs = append(seqs, e.Seq)
	}
	return seqs, page
}

func want(t *testing.T, got []uint64, wanted ...uint64) {
	t.Helper()
	if wanted == nil {
		wanted = []uint64{}
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

func testEmpty(t *testing.T, store *eventlog.Log) {
	seqs, page := read(t, store, 0, -1)
	want(t, seqs)
	if page.Next != 1 || page.Exit != nil || page.Closed {
		t.Errorf("got %+v", page)
	}
}

func testOneCounter(t *testing.T, store *eventlog.Log) {
	exit := &eventlog.Exit{Code: 143, Signal: "SIGTERM", SandboxDenied: true, TimedOut: true, Limit: "cpu"}
	all := []eventlog.Event{
		output("one"),
		{Kind: eventlog.KindOutput, Stream: "stderr", Data: []byte{0, 0xff}},
		{Kind: eventlog.KindExited, Exit: exit},
		output("late"),
		{Kind: eventlog.KindClosed},
	}
	for i, e := range all {
		seq, err := store.Append(e)
		if err != nil || seq != uint64(i+1) {
			t.Fatalf("event %d got number %d, %v", i, seq, err)
		}
		all[i].Seq = seq
		if _, page := read(t, store, 0, -1); page.Next != seq+1 || (page.Exit != nil) != (i >= 2) || page.Closed != (i == 4) {
			t.Errorf("after event %d: %+v", seq, page)
		}
	}
	page, err := store.Read(nil, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(eventlog.Page{Events: all, Next: 6, Exit: exit, Closed: true}, page, events); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	for after := range uint64(7) {
		seqs, page := read(t, store, after, -1)
		var wanted []uint64
		for seq := after + 1; seq <= 5; seq++ {
			wanted = append(wanted, seq)
		}
		want(t, seqs, wanted...)
		if page.Next != 6 {
			t.Errorf("after %d: next is %d", after, page.Next)
		}
	}
	kept := []eventlog.Event{{Seq: 77}}
	if page, _ := store.Read(kept, 4, -1); len(page.Events) != 2 || page.Events[0].Seq != 77 {
		t.Errorf("Read did not append: %+v", page.Events)
	}
}

func testBudget(t *testing.T, store *eventlog.Log) {
	add(t, store, output("aaaa"), eventlog.Event{Kind: eventlog.KindExited, Exit: &eventlog.Exit{}}, output("bbbb"), output("cc"))
	for _, c := range []struct {
		after    uint64
		maxBytes int
		want     []uint64
	}{
		{0, 0, []uint64{1, 2}},
		{0, 4, []uint64{1, 2}},
		{0, 7, []uint64{1, 2}},
		{0, 8, []uint64{1, 2, 3}},
		{0, 9, []uint64{1, 2, 3}},
		{0, 10, []uint64{1, 2, 3, 4}},
		{1, 0, []uint64{2, 3}},
		{2, 1, []uint64{3}},
		{3, 1, []uint64{4}},
		{4, 1, nil},
	} {
		t.Run(fmt.Sprintf("after %d up to %d", c.after, c.maxBytes), func(t *testing.T) {
			seqs, _ := read(t, store, c.after, c.maxBytes)
			want(t, seqs, c.want...)
		})
	}
}

func testEvictsByBytes(t *testing.T, store *eventlog.Log) {
	add(t, store, output("aaaa"), output("bbbb"), output("cc"))
	seqs, _ := read(t, store, 0, -1)
	want(t, seqs, 1, 2, 3) // exactly the limit
	add(t, store, output("d"))
	seqs, page := read(t, store, 0, -1)
	want(t, seqs, 2, 3, 4) // whole chunks go
	if page.Next != 5 {
		t.Errorf("next is %d", page.Next)
	}
	add(t, store, output("0123456789"))
	seqs, _ = read(t, store, 0, -1)
	want(t, seqs, 5)
}

func testEvictsByChunks(t *testing.T, store *eventlog.Log) {
	for range 500 {
		add(t, store, output("x"))
	}
	seqs, _ := read(t, store, 0, -1)
	if len(seqs) != 50 || seqs[0] != 451 || seqs[49] != 500 {
		t.Errorf("got %v", seqs)
	}
	seqs, _ = read(t, store, 499, -1)
	want(t, seqs, 500)
}

func testKeepsExit(t *testing.T, store *eventlog.Log) {
	add(t, store, output("ab"), eventlog.Event{Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: 3}})
	for range 10 {
		add(t, store, output("xy"))
	}
	add(t, store, eventlog.Event{Kind: eventlog.KindClosed})
	seqs, page := read(t, store, 0, -1)
	want(t, seqs, 2, 11, 12, 13)
	if page.Exit == nil || page.Exit.Code != 3 {
		t.Errorf("exit is %+v", page.Exit)
	}
}

func testEndsWithClosed(t *testing.T, store *eventlog.Log) {
	add(t, store, eventlog.Event{Kind: eventlog.KindExited, Exit: &eventlog.Exit{}}, eventlog.Event{Kind: eventlog.KindClosed})
	if _, err := store.Append(output("late")); !errors.Is(err, eventlog.ErrLogClosed) {
		t.Errorf("append after the last event: %v", err)
	}
	seqs, page := read(t, store, 0, -1)
	want(t, seqs, 1, 2)
	if page.Next != 3 {
		t.Errorf("next is %d", page.Next)
	}
}

func testConcurrentLog(t *testing.T, store *eventlog.Log) {
	const writers, each = 4, 500
	var wg sync.WaitGroup
	seen := make(chan uint64, writers*each)
	for range writers {
		wg.Go(func() {
			for range each {
				seq, err := store.Append(output("x"))
				if err != nil {
					t.Error(err)
					return
				}
				seen <- seq
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for after := uint64(0); ; {
			page, err := store.Read(nil, after, 64)
			if err != nil {
				t.Error(err)
				return
			}
			for _, e := range page.Events {
				if e.Seq != after+1 {
					t.Errorf("event %d follows %d", e.Seq, after)
				}
				after = e.Seq
			}
			if after == writers*each {
				return
			}
			select {
			case <-stop:
				if len(page.Events) == 0 {
					return
				}
			default:
			}
		}
	})
	wg.Wait()
	close(stop)
	reader.Wait()
	close(seen)
	given := make(map[uint64]bool)
	for seq := range seen {
		given[seq] = true
	}
	if len(given) != writers*each || given[0] {
		t.Errorf("%d distinct numbers for %d events", len(given), writers*each)
	}
}

// testModel compares random histories with the rule applied to a plain slice.
func testModel(t *testing.T, open func(eventlog.Retention) (*eventlog.Log, error)) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := eventlog.Retention{Bytes: rapid.IntRange(1, 60).Draw(rt, "bytes"), Chunks: rapid.IntRange(1, 12).Draw(rt, "chunks")}
		store, err := open(limit)
		if err != nil {
			rt.Fatal(err)
		}
		defer store.Close()
		var history []eventlog.Event
		exitAt := rapid.IntRange(0, 40).Draw(rt, "exit")
		for i := range rapid.IntRange(0, 80).Draw(rt, "events") {
			e := eventlog.Event{Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: i}}
			if i != exitAt {
				size := rapid.IntRange(1, limit.Bytes).Draw(rt, "size")
				e = eventlog.Event{Kind: eventlog.KindOutput, Stream: "stdout", Data: bytes.Repeat([]byte{byte(i)}, size)}
			}
			if e.Seq, err = store.Append(e); err != nil {
				rt.Fatal(err)
			}
			history = append(history, e)
		}
		after := uint64(rapid.IntRange(0, len(history)+1).Draw(rt, "after"))
		maxBytes := rapid.IntRange(-1, 80).Draw(rt, "maxBytes")
		page, err := store.Read(nil, after, maxBytes)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(expect(history, limit, after, maxBytes), page, events); diff != "" {
			rt.Fatalf("page (-want +got):\n%s", diff)
		}
	})
}

// expect is LogStore.Read in the plainest form.
func expect(history []eventlog.Event, limit eventlog.Retention, after uint64, maxBytes int) eventlog.Page {
	page := eventlog.Page{Next: uint64(len(history)) + 1}
	retained := make([]bool, len(history))
	bytes, chunks := 0, 0
	for i := len(history) - 1; i >= 0; i-- {
		e := history[i]
		if e.Kind != eventlog.KindOutput {
			retained[i], page.Exit = true, e.Exit
			continue
		}
		bytes, chunks = bytes+len(e.Data), chunks+1
		retained[i] = bytes <= limit.Bytes && chunks <= limit.Chunks
	}
	taken, first := 0, true
	for i, e := range history {
		if !retained[i] || e.Seq <= after {
			continue
		}
		if e.Kind == eventlog.KindOutput {
			if maxBytes >= 0 && !first && taken+len(e.Data) > maxBytes {
				break
			}
			taken, first = taken+len(e.Data), false
		}
		page.Events = append(page.Events, e)
	}
	return page
}
