package eventlog_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/eventlog/eventlogtest"
	"github.com/wsd-dev/wsd/protocol"
)

func TestMemoryStore(t *testing.T) {
	eventlogtest.Run(t, func(*testing.T) eventlog.Store { return new(eventlogtest.Memory) })
}

// A log that is written is like one in memory, described or not.
func TestLog(t *testing.T) {
	for _, c := range []struct{ recorded, described bool }{{false, false}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			var rec *eventlog.Recorder
			if c.recorded {
				rec = open(t, new(eventlogtest.Memory))
			}
			eventlogtest.RunLog(t, func(limit eventlog.Retention) (*eventlog.Log, error) {
				log := eventlog.NewLog(rec, limit)
				if c.described {
					log.Describe(eventlog.Info{Origin: eventlog.OriginSession, ID: "p"})
				}
				return log, nil
			})
		})
	}
}

// TestLogDefaults keeps the wire's window: 1 MiB and 50,000 chunks.
func TestLogDefaults(t *testing.T) {
	for _, c := range []struct {
		name           string
		chunks, size   int
		first, through uint64
	}{
		{"3 MiB in 8 KiB chunks", 384, 8192, 257, 384},
		{"one-byte chunks", 56_231, 1, 6_232, 56_231},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := eventlog.NewLog(nil, eventlog.Retention{})
			for range c.chunks {
				if _, err := log.Append(eventlog.Event{Kind: eventlog.KindOutput, Data: make([]byte, c.size)}); err != nil {
					t.Fatal(err)
				}
			}
			page, err := log.Read(nil, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			if got := page.Events[0].Seq; got != c.first {
				t.Errorf("first retained is %d, want %d", got, c.first)
			}
			if got := page.Events[len(page.Events)-1].Seq; got != c.through {
				t.Errorf("last retained is %d, want %d", got, c.through)
			}
		})
	}
}

func open(t testing.TB, store eventlog.Store) *eventlog.Recorder {
	t.Helper()
	rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
	return rec
}

// begin opens and describes the log of a process.
func begin(rec *eventlog.Recorder, limit eventlog.Retention, id string) *eventlog.Log {
	log := eventlog.NewLog(rec, limit)
	log.Describe(eventlog.Info{Origin: eventlog.OriginSession, ID: id, Started: time.Now()})
	return log
}

// find returns the newest log of a process, which has ended as far as the next server knows.
func find(t *testing.T, store eventlog.Store, id string) eventlog.Record {
	t.Helper()
	if _, err := store.Recover(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	list, err := store.List(t.Context(), eventlog.Query{ID: &id, Ended: true, Limit: 1})
	if err != nil || len(list) == 0 {
		t.Fatalf("%s is not there, %v", id, err)
	}
	return list[0]
}

func add(t *testing.T, log *eventlog.Log, events ...eventlog.Event) {
	t.Helper()
	for _, e := range events {
		if _, err := log.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

func printed(text string) eventlog.Event {
	return eventlog.Event{Kind: eventlog.KindOutput, Stream: protocol.StreamStdout, Data: []byte(text)}
}

func exited(code int) eventlog.Event {
	return eventlog.Event{Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: code}}
}

var closed = eventlog.Event{Kind: eventlog.KindClosed}

// Once an exit is in the log, it and all output before it are in the store, even if nobody
// closes anything.
func TestLogExit(t *testing.T) {
	store := new(eventlogtest.Memory)
	rec := open(t, store)
	for i := range 50 {
		id := fmt.Sprint(i)
		add(t, begin(rec, eventlog.Retention{}, id), printed("one"), printed("two"), exited(i))
		r := find(t, store, id)
		if r.Exit == nil || r.Exit.Code != i || r.Last != 3 {
			t.Fatalf("%+v", r)
		}
		if events, err := store.Read(t.Context(), r.Log, 0, 100, -1); err != nil || len(events) != 3 {
			t.Fatal(events, err)
		}
	}
}

// heldStore says when it is to write, and does not before it is let go.
func heldStore() (store *eventlogtest.Memory, held, letGo chan struct{}) {
	held, letGo = make(chan struct{}, 100), make(chan struct{})
	return &eventlogtest.Memory{Before: func(op string) error {
		if op != "recover" {
			held <- struct{}{}
			<-letGo
		}
		return nil
	}}, held, letGo
}

// While an exit is written, nobody is told, nor are later events numbered.
func TestLogExitIsWrittenFirst(t *testing.T) {
	store, held, hold := heldStore()
	rec := open(t, store)
	log := begin(rec, eventlog.Retention{}, "p")
	<-held
	done := make(chan struct{})
	go func() {
		add(t, log, printed("x"), exited(3))
		close(done)
	}()
	for {
		page, err := log.Read(nil, 0, -1)
		if err != nil || page.Exit != nil || page.Next > 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		if page.Next == 2 {
			break
		}
	}
	close(hold)
	<-done
	if page, err := log.Read(nil, 0, -1); err != nil || page.Exit == nil || page.Next != 3 || len(page.Events) != 2 {
		t.Errorf("%+v, %v", page, err)
	}
}

// The store keeps the newest output, as the log does, also when the log is closed before it
// is written; a slow store holds nobody up.
func TestLogRetention(t *testing.T) {
	store, held, hold := heldStore()
	rec := open(t, store)
	log := begin(rec, eventlog.Retention{Bytes: 1000, Chunks: 1000}, "p")
	<-held // the store is busy
	for i := range 5000 {
		add(t, log, printed(fmt.Sprintf("%010d", i)))
	}
	go func() { <-held; close(hold) }()
	hold <- struct{}{}
	add(t, log, exited(0), closed)
	if err := errors.Join(log.Close(), rec.Close()); err != nil {
		t.Fatal(err)
	}
	r := find(t, store, "p")
	events, err := store.Read(t.Context(), r.Log, 0, -1, -1)
	if err != nil || len(events) != 101 || string(events[99].Data) != "0000004999" || events[99].Seq != 5000 || r.Last != 5002 {
		t.Errorf("%d events, last %d, %v", len(events), r.Last, err)
	}
	if r.Bytes != 1000 || r.Printed != 50_000 {
		t.Errorf("%+v", r)
	}
}

// Close writes what came before it, whatever comes while it waits for a slow store.
func TestRecorderCloses(t *testing.T) {
	store, held, hold := heldStore()
	rec := open(t, store)
	begin(rec, eventlog.Retention{}, "first")
	<-held // the store is busy
	log := begin(rec, eventlog.Retention{}, "p")
	add(t, log, printed("before"))
	ended := make(chan error)
	go func() { ended <- rec.Close() }()
	for rec.Mark(log, false) { // until Close has begun
	}
	add(t, log, printed("after"), exited(0))
	close(hold)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	events, err := store.Read(t.Context(), find(t, store, "p").Log, 0, 100, -1)
	if err != nil || len(events) == 0 || string(events[0].Data) != "before" {
		t.Errorf("%+v, %v", events, err)
	}
}

// A store that cannot be written costs the record, not the process.
func TestLogFailure(t *testing.T) {
	store := &eventlogtest.Memory{Before: func(op string) error {
		if op == "recover" {
			return nil
		}
		return errors.New("the disk is full")
	}}
	rec := open(t, store)
	log := begin(rec, eventlog.Retention{}, "p")
	add(t, log, printed("x"), exited(0), printed("y"), closed)
	if page, err := log.Read(nil, 0, -1); err != nil || len(page.Events) != 4 || !page.Closed {
		t.Errorf("%+v, %v", page, err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
	add(t, begin(rec, eventlog.Retention{}, "q"), exited(0))
}

// A number is no other log's, also when the newest was forgotten, and over a restart.
func TestNumbers(t *testing.T) {
	store := new(eventlogtest.Memory)
	var last int64
	for range 3 {
		rec := open(t, store)
		for range 2 {
			log := begin(rec, eventlog.Retention{}, "x")
			add(t, log, exited(0))
			n := log.Number()
			if n <= last {
				t.Errorf("%d after %d", n, last)
			}
			last = n
			if err := store.Write(t.Context(), []eventlog.Change{{Log: n, Forget: true}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
