package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/eventlog/eventlogtest"
	"github.com/wsd-dev/wsd/protocol"
)

func ptr[T any](v T) *T { return &v }

// bubble serves what a Recorder writes, in fake time.
func bubble(t *testing.T, fn func(t *testing.T, rec *eventlog.Recorder, s *Service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: &withoutExits{new(eventlogtest.Memory), map[int64]bool{}}})
		if err != nil {
			t.Fatal(err)
		}
		fn(t, rec, NewService(rec))
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
}

// command begins the log of a command.
func command(rec *eventlog.Recorder, id string) *eventlog.Log {
	log := eventlog.NewLog(rec, eventlog.Retention{})
	log.Describe(eventlog.Info{Origin: eventlog.OriginSession, ID: id, SessionID: "s", Client: "c", Argv: []string{"make", id, "&&", "x", "<y"}, Started: time.Now()})
	return log
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

var ended = []eventlog.Event{{Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: 3, Signal: "SIGTERM"}}, {Kind: eventlog.KindClosed}}

func TestList(t *testing.T) {
	bubble(t, func(t *testing.T, rec *eventlog.Recorder, s *Service) {
		for i := range 5 {
			add(t, command(rec, fmt.Sprint("c", i)), append([]eventlog.Event{printed("text")}, ended...)...)
		}
		time.Sleep(time.Second)
		command(rec, "live")
		time.Sleep(time.Second)
		for name, c := range map[string]struct {
			params protocol.HistoryParams
			want   string
			more   bool
		}{
			"all":     {protocol.HistoryParams{}, "live c4 c3 c2 c1 c0", false},
			"limit":   {protocol.HistoryParams{Limit: ptr(uint64(2))}, "live c4", true},
			"before":  {protocol.HistoryParams{Before: ptr(int64(3)), Limit: ptr(uint64(2))}, "c1 c0", false},
			"number":  {protocol.HistoryParams{Number: ptr(int64(2))}, "c1", false},
			"id":      {protocol.HistoryParams{ID: ptr("c3")}, "c3", false},
			"text":    {protocol.HistoryParams{Text: ptr("make c2 && x <y")}, "c2", false},
			"no id":   {protocol.HistoryParams{ID: ptr("")}, "", false},
			"client":  {protocol.HistoryParams{Client: ptr("other")}, "", false},
			"live":    {protocol.HistoryParams{Live: ptr(true)}, "live", false},
			"failed":  {protocol.HistoryParams{Failed: ptr(true), Limit: ptr(uint64(1))}, "c4", true},
			"started": {protocol.HistoryParams{SinceMs: ptr(time.Now().Add(-time.Second).UnixMilli())}, "live", false},
		} {
			r, err := s.list(t.Context(), &c.params)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, cmd := range r.Commands {
				got = append(got, cmd.ID)
			}
			if strings.Join(got, " ") != c.want || r.More != c.more {
				t.Errorf("%s: %v, more %v; want %s", name, got, r.More, c.want)
			}
		}
		r, err := s.list(t.Context(), &protocol.HistoryParams{ID: ptr("c0")})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Commands[0]; c.Number != 1 || *c.ExitCode != 3 || c.Signal != "SIGTERM" || c.EndedAtMs == nil || c.Bytes != 4 || c.SessionID != "s" || c.Durable {
			t.Errorf("%+v", c)
		}
	})
}

// wantEnds asks for what ended after an end and compares the ids, and whether there is more.
func wantEnds(t *testing.T, s *Service, p protocol.HistoryParams, ids string, lastEnd int64, more bool) {
	t.Helper()
	r, err := s.list(t.Context(), &p)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range r.Commands {
		got = append(got, r.Commands[i].ID)
	}
	if strings.Join(got, " ") != ids || r.LastEnd != lastEnd || r.More != more {
		t.Errorf("after end %d: %v, last end %d, more %v; want %s, %d, %v", *p.AfterEnd, got, r.LastEnd, r.More, ids, lastEnd, more)
	}
}

// Ends are listed in their order, a page at a time, and those that do not fit are passed over.
func TestListEnds(t *testing.T) {
	bubble(t, func(t *testing.T, rec *eventlog.Recorder, s *Service) {
		var logs []*eventlog.Log
		for i := range 5 {
			logs = append(logs, command(rec, fmt.Sprint("c", i)))
			time.Sleep(time.Second)
		}
		for _, i := range []int{3, 0, 4, 1} {
			add(t, logs[i], ended...)
			time.Sleep(time.Second)
		}
		if r, err := s.list(t.Context(), &protocol.HistoryParams{Limit: ptr(uint64(1))}); err != nil || r.LastEnd != 4 {
			t.Errorf("%+v, %v", r, err)
		}
		two, none := ptr(uint64(2)), ptr(uint64(0))
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(0))}, "c3 c0 c4 c1", 4, false)
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(0)), Limit: two}, "c3 c0", 2, true)
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(2)), Limit: two}, "c4 c1", 4, false)
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(1)), Limit: none}, "", 1, true)
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(1)), ID: ptr("c3")}, "", 4, false)
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(4))}, "", 4, false)
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(9)), WaitMs: ptr(uint64(60_000))}, "", 4, false)
	})
}

// A follower gets every end, of more commands than one answer has and that began in another
// order.
func TestListManyEnds(t *testing.T) {
	bubble(t, func(t *testing.T, rec *eventlog.Recorder, s *Service) {
		var logs []*eventlog.Log
		for i := range protocol.MaxHistoryLimit + 500 {
			logs = append(logs, command(rec, fmt.Sprint(i)))
		}
		time.Sleep(time.Second)
		for _, log := range slices.Backward(logs) {
			add(t, log, ended...)
		}
		time.Sleep(time.Second)
		want := int64(len(logs))
		for p := (protocol.HistoryParams{AfterEnd: new(int64(0)), WaitMs: ptr(uint64(1000))}); want > 0; {
			r, err := s.list(t.Context(), &p)
			if err != nil || len(r.Commands) == 0 || r.More != (want > protocol.MaxHistoryLimit) {
				t.Fatalf("%d commands, more %v, %v; %d are left", len(r.Commands), r.More, err, want)
			}
			for i := range r.Commands {
				if r.Commands[i].Number != want {
					t.Fatalf("command %d comes instead of %d", r.Commands[i].Number, want)
				}
				want--
			}
			p.AfterEnd = &r.LastEnd
		}
	})
}

// A counted Store counts what it is asked.
type counted struct {
	eventlog.Store
	lists, ends, reads atomic.Int64
}

func (c *counted) List(ctx context.Context, q eventlog.Query) ([]eventlog.Record, error) {
	c.lists.Add(1)
	return c.Store.List(ctx, q)
}

func (c *counted) LastEnd(ctx context.Context) (int64, error) {
	c.ends.Add(1)
	return c.Store.LastEnd(ctx)
}

func (c *counted) Read(ctx context.Context, log int64, after uint64, maxBytes, maxEvents int) ([]eventlog.Event, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, log, after, maxBytes, maxEvents)
}

// An answer waits for the end of a command. Output costs nothing meanwhile, and a beginning
// a look at the last end.
func TestListWaits(t *testing.T) {
	store := &counted{Store: new(eventlogtest.Memory)}
	synctest.Test(t, func(t *testing.T) {
		rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		s := NewService(rec)
		begin := time.Now()
		wait := ptr(uint64(60_000))
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(0)), WaitMs: wait}, "", 0, false)
		if waited := time.Since(begin); waited != time.Minute {
			t.Errorf("it waited %v", waited)
		}
		lists, ends := store.lists.Load(), store.ends.Load()
		go func() {
			log := command(rec, "x")
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				add(t, log, printed("text"))
			}
			add(t, command(rec, "y"), ended...)
			add(t, log, ended...)
		}()
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(0)), ID: ptr("x"), WaitMs: wait}, "x", 2, false)
		if lists, ends = store.lists.Load()-lists, store.ends.Load()-ends; lists > 2 || ends > 5 {
			t.Errorf("%d lists and %d looks at the last end, for two beginnings and two ends", lists, ends)
		}
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A waiting answer finds the writes of another server to a shared store.
func TestSharedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(eventlogtest.Memory)
		var recs []*eventlog.Recorder
		for range 2 {
			rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: store, Later: 200 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := rec.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			recs = append(recs, rec)
		}
		s, wait := NewService(recs[0]), ptr(uint64(60_000))
		log := command(recs[1], "x")
		time.Sleep(time.Second)
		time.AfterFunc(10*time.Second, func() { add(t, log, printed("text")) })
		time.AfterFunc(20*time.Second, func() { add(t, log, ended...) })
		begin := time.Now()
		if r, err := s.read(t.Context(), &protocol.HistoryReadParams{Number: 1, WaitMs: wait}); err != nil || len(r.Chunks) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		wantEnds(t, s, protocol.HistoryParams{AfterEnd: ptr(int64(0)), WaitMs: wait}, "x", 1, false)
		if waited := time.Since(begin); waited < 20*time.Second || waited > 21*time.Second {
			t.Errorf("the end is heard of after %v", waited)
		}
		for _, rec := range recs {
			if err := rec.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// Events that are not kept are named, and an exit is not one of them.
func TestMissing(t *testing.T) {
	bubble(t, func(t *testing.T, rec *eventlog.Recorder, s *Service) {
		want := func(log int64, after uint64, missing, chunks string) {
			t.Helper()
			r, err := s.read(t.Context(), &protocol.HistoryReadParams{Number: log, AfterSeq: &after})
			if err != nil {
				t.Fatal(err)
			}
			gotMissing, gotChunks := "", ""
			if m := r.Missing; m != nil {
				gotMissing = fmt.Sprint(m.From)
				if m.To != nil {
					gotMissing += fmt.Sprint("-", *m.To)
				}
			}
			for _, c := range r.Chunks {
				gotChunks += fmt.Sprint(c.Seq, " ")
			}
			if gotMissing != missing || strings.TrimSpace(gotChunks) != chunks {
				t.Errorf("log %d after %d: missing %s, chunks %s; want %s, %s", log, after, gotMissing, gotChunks, missing, chunks)
			}
		}
		begin := func(id string, info eventlog.Info) *eventlog.Log {
			log := eventlog.NewLog(rec, eventlog.Retention{Chunks: 2})
			info.ID, info.Started = id, time.Now()
			log.Describe(info)
			time.Sleep(time.Second)
			return log
		}
		log := begin("live", eventlog.Info{Origin: eventlog.OriginSession})
		add(t, log, printed("1"), printed("2"))
		time.Sleep(time.Second)
		want(1, 0, "", "1 2")
		add(t, log, printed("3"), printed("4"))
		time.Sleep(time.Second)
		want(1, 0, "1-2", "3 4")
		want(1, 1, "2-2", "3 4")
		want(1, 2, "", "3 4")
		want(1, 4, "", "")
		add(t, log, ended[0], printed("6"))
		time.Sleep(time.Second)
		want(1, 0, "1-3", "4 6")
		want(1, 4, "", "6")
		want(1, 5, "", "6")
		add(t, log, ended[1])
		time.Sleep(time.Second)
		want(1, 4, "", "6")
		want(1, 6, "", "")
		want(1, 99, "", "")
		// A log of an earlier version has no event for its exit.
		old := eventlog.Change{
			Info: &eventlog.Info{Origin: eventlog.OriginSession, ID: "old", Started: time.Now()}, At: time.Now(), Ended: true, Bytes: 3, Printed: 3,
			Events: []eventlog.Event{{Seq: 1, Kind: eventlog.KindOutput, Data: []byte("1")}, {Seq: 2, Kind: eventlog.KindOutput, Data: []byte("2")}, {Seq: 4, Kind: eventlog.KindOutput, Data: []byte("4")}},
		}
		exit := eventlog.Change{At: time.Now(), Ended: true, Bytes: 3, Printed: 3, Events: []eventlog.Event{{Seq: 3, Kind: eventlog.KindExited, Exit: &eventlog.Exit{}}}}
		write := func(c *eventlog.Change) {
			t.Helper()
			changes := []eventlog.Change{*c}
			if err := rec.Store().Write(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
			c.Log = changes[0].Log
		}
		write(&old)
		exit.Log = old.Log
		write(&exit)
		s.rec.Store().(*withoutExits).logs[old.Log] = true
		want(old.Log, 2, "", "4")
		want(old.Log, 4, "", "")
		// A run of which its client has disposed.
		run := eventlog.Change{Info: &eventlog.Info{Origin: eventlog.OriginRun, ID: "run", Started: time.Now()}, Events: []eventlog.Event{{Seq: 1, Kind: eventlog.KindOutput, Data: []byte("1")}}}
		write(&run)
		if err := rec.Forget(t.Context(), run.Log, &eventlog.Record{Exit: &eventlog.Exit{Code: 137}, Printed: 5}); err != nil {
			t.Fatal(err)
		}
		want(run.Log, 1, "2", "")
		run = eventlog.Change{
			Info: run.Info, Ended: true, Bytes: 1, Printed: 1,
			Events: []eventlog.Event{{Seq: 1, Kind: eventlog.KindOutput, Data: []byte("1")}, {Seq: 2, Kind: eventlog.KindExited, Exit: &eventlog.Exit{}}},
		}
		write(&run)
		if err := rec.Forget(t.Context(), run.Log, nil); err != nil {
			t.Fatal(err)
		}
		want(run.Log, 0, "1-1", "")
		want(run.Log, 1, "", "")
	})
}

// withoutExits is a Store of logs of which some have no event for their exit.
type withoutExits struct {
	eventlog.Store
	logs map[int64]bool
}

func (w *withoutExits) Read(ctx context.Context, log int64, after uint64, maxBytes, maxEvents int) ([]eventlog.Event, error) {
	events, err := w.Store.Read(ctx, log, after, maxBytes, maxEvents)
	if w.logs[log] {
		events = slices.DeleteFunc(events, func(e eventlog.Event) bool { return e.Kind == eventlog.KindExited })
	}
	return events, err
}

// A reader that waits looks at the events once for all that was written in the meantime, and
// at the command only when one has begun or ended.
func TestReadWaits(t *testing.T) {
	store := &counted{Store: new(eventlogtest.Memory)}
	synctest.Test(t, func(t *testing.T) {
		rec, err := eventlog.Open(t.Context(), eventlog.Config{Store: store})
		if err != nil {
			t.Fatal(err)
		}
		quiet, noisy := command(rec, "quiet"), command(rec, "noisy")
		time.Sleep(time.Second)
		go func() {
			for range 100 {
				time.Sleep(100 * time.Millisecond)
				add(t, noisy, printed("text"))
			}
			add(t, quiet, printed("text"))
		}()
		r, err := NewService(rec).read(t.Context(), &protocol.HistoryReadParams{Number: 1, WaitMs: ptr(uint64(60_000))})
		if err != nil || len(r.Chunks) != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if lists, reads := store.lists.Load(), store.reads.Load(); lists != 1 || reads > 102 {
			t.Errorf("%d lists and %d reads for 101 pieces of output", lists, reads)
		}
		if err := rec.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A command that is live is read to its end, by any number of readers.
func TestRead(t *testing.T) {
	bubble(t, func(t *testing.T, rec *eventlog.Recorder, s *Service) {
		log := command(rec, "x")
		go func() { // ends with the command
			for i := range 10 {
				time.Sleep(time.Second)
				add(t, log, printed(fmt.Sprint(i)))
			}
			add(t, log, ended...)
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		results := make(chan string)
		for range 3 {
			go func() { // ends with the command
				text := ""
				for after := uint64(0); ; {
					r, err := s.read(context.Background(), &protocol.HistoryReadParams{Number: 1, AfterSeq: &after, WaitMs: ptr(uint64(3000))})
					if err != nil {
						results <- err.Error()
						return
					}
					for _, chunk := range r.Chunks {
						text, after = text+string(chunk.Chunk), chunk.Seq
					}
					if r.Ended {
						results <- fmt.Sprint(text, " ", *r.Command.ExitCode)
						return
					}
				}
			}()
		}
		for range 3 {
			if got := <-results; got != "0123456789 3" {
				t.Error(got)
			}
		}
		for _, number := range []int64{0, 2} {
			if r, err := s.read(t.Context(), &protocol.HistoryReadParams{Number: number}); err == nil {
				t.Errorf("command %d is %+v", number, r)
			}
		}
	})
}
