package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A script is a Store that fails as it says, and notes what is written.
type script struct {
	Store
	mu      sync.Mutex
	fail    func(c *Change) error
	written []Change
	most    int // bytes of output in one Write
	sweeps  int
	// lost is the error of Recover.
	lost     error
	recovers int
	last     int64 // number given
}

func (s *script) Write(_ context.Context, changes []Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		if s.fail != nil {
			if err := s.fail(&changes[i]); err != nil {
				return err
			}
		}
	}
	for i := range changes {
		if changes[i].Log == 0 {
			s.last++
			changes[i].Log = s.last
		}
	}
	s.written = append(s.written, changes...)
	size := 0
	for i := range changes {
		size += Size(changes[i].Events)
	}
	s.most = max(s.most, size)
	return nil
}

func (s *script) Recover(context.Context, time.Time) ([]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recovers++
	return nil, s.lost
}

func (s *script) Sweep(context.Context, Keep) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeps++
	return nil
}

// A fixed is a Source that wants one change written, until it is.
type fixed struct {
	change Change
	err    error // of the last Wrote
	tries  int
	done   bool
}

func (f *fixed) Take() (Change, bool) { return f.change, !f.done }

func (f *fixed) Wrote(_ *Change, err error) bool {
	f.tries++
	f.err, f.done = err, err == nil
	return errors.Is(err, ErrFull)
}

func openScript(t *testing.T, s *script) *Recorder {
	t.Helper()
	r, err := Open(t.Context(), Config{Store: s, KeepBytes: 400})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Changes that fail together are written one by one: no log fails for another.
func TestWriteApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("no")
		s := &script{fail: func(c *Change) error {
			if c.Log == 4 {
				return no
			}
			return nil
		}}
		r := openScript(t, s)
		var all []*fixed
		for i := range 5 {
			all = append(all, &fixed{change: Change{Log: int64(i) + 1}})
			r.Mark(all[i], false)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for i, f := range all {
			if i == 3 != errors.Is(f.err, no) || i != 3 && f.err != nil || f.tries != 1 {
				t.Errorf("%d: %+v", i, f)
			}
		}
		if len(s.written) != 4 {
			t.Error(s.written)
		}
	})
}

// Output of many logs is not written all at once, but all of it is written: also when the
// server ends meanwhile.
func TestManyLogsAreWrittenInTurn(t *testing.T) {
	const logs, chunks, most = 20, 15, 2 << 20
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{}
			r := openScript(t, s)
			var all [logs]*Log
			for i := range all {
				l := NewLog(r, Retention{})
				all[i] = l
				l.Describe(Info{Origin: OriginSession})
				for range chunks {
					if _, err := l.Append(Event{Kind: KindOutput, Data: GetBuffer()[:]}); err != nil {
						t.Fatal(err)
					}
				}
			}
			var wg sync.WaitGroup
			for _, l := range all {
				wg.Go(func() { // an exit waits until it is written
					for _, e := range []Event{{Kind: KindExited, Exit: &Exit{}}, {Kind: KindClosed}} {
						if _, err := l.Append(e); err != nil {
							t.Error(err)
						}
					}
				})
			}
			if !ends {
				wg.Wait()
				time.Sleep(writeDelay)
				synctest.Wait()
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			wg.Wait()
			if s.most > most {
				t.Errorf("%d bytes of output were written at once", s.most)
			}
			last := map[int64]uint64{}
			for _, c := range s.written {
				for _, e := range c.Events {
					if e.Seq != last[c.Log]+1 {
						t.Errorf("log %d: event %d follows %d", c.Log, e.Seq, last[c.Log])
					}
					last[c.Log] = e.Seq
				}
			}
			for log, n := range last {
				if n < chunks || !ends && n != chunks+2 {
					t.Errorf("log %d has %d events", log, n)
				}
			}
			if len(last) != logs {
				t.Errorf("%d logs", len(last))
			}
		})
	}
}

// While a command prints faster than can be written, the store has the newest output that the
// log had, as much as is kept and without holes: the server may be killed at any time.
func TestFloodIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r := openScript(t, s)
		l := NewLog(r, Retention{})
		l.Describe(Info{Origin: OriginSession})
		print := func() {
			for range 20 {
				if _, err := l.Append(Event{Kind: KindOutput, Data: GetBuffer()[:]}); err != nil {
					t.Error(err)
				}
			}
		}
		writes := 0
		s.fail = func(*Change) error { // while it is written
			if writes++; writes < 10 {
				print()
			}
			return nil
		}
		print()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		var kept []uint64
		for i, c := range s.written {
			for _, e := range c.Events {
				kept = append(kept, e.Seq)
			}
			for len(kept) > 0 && kept[0] < c.First {
				kept = kept[1:]
			}
			if len(kept) != 16 || kept[15]-kept[0] != 15 {
				t.Errorf("after write %d the store has %v", i, kept)
			}
		}
		if len(s.written) != 10 {
			t.Errorf("%d writes", len(s.written))
		}
	})
}

// While there is no room, a source that wants it is asked again, ever more slowly, and others
// are written at once.
func TestF7FullStoreIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		s := &script{fail: func(c *Change) error {
			if full && c.Log == 1 {
				return fmt.Errorf("disk: %w", ErrFull)
			}
			return nil
		}}
		r := openScript(t, s)
		waits, other := &fixed{change: Change{Log: 1}}, &fixed{change: Change{Log: 2}}
		r.Mark(waits, true)
		time.Sleep(10 * time.Second)
		r.Mark(other, true)
		synctest.Wait()
		if !other.done || waits.done || waits.tries < 10 || waits.tries > 20 {
			t.Errorf("%+v, %+v", other, waits)
		}
		s.mu.Lock()
		full = false
		s.mu.Unlock()
		time.Sleep(maxFullDelay)
		synctest.Wait()
		if !waits.done {
			t.Errorf("%+v", waits)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Much output is swept before its time.
func TestSweepEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(script)
		r := openScript(t, s)
		for i, size := range []int{400 / sweepParts, 1} {
			r.Mark(&fixed{change: Change{Log: 1, Events: []Event{{Data: make([]byte, size)}}}}, true)
			synctest.Wait()
			if s.sweeps != i+1 { // one was made by Open
				t.Errorf("%d sweeps", s.sweeps)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// With Later the store is not used before there is something to write, and gives the numbers
// then. While it cannot be used, nothing is recorded, and nobody is held up.
func TestLater(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{}
			if fails {
				s.lost = errors.New("the store is in use")
			}
			r, err := Open(t.Context(), Config{Store: s, Later: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if s.recovers+s.sweeps > 0 {
				t.Error("the store was used")
			}
			log := NewLog(r, Retention{})
			begin := time.Now()
			log.Describe(Info{ID: "x"})
			for _, e := range []Event{{Kind: KindOutput, Data: []byte("x")}, {Kind: KindExited, Exit: new(Exit)}, {Kind: KindClosed}} {
				if _, err := log.Append(e); err != nil {
					t.Fatal(err)
				}
			}
			if page, err := log.Read(nil, 0, -1); err != nil || page.Exit == nil || time.Since(begin) > 0 {
				t.Errorf("%+v, %v after %v", page, err, time.Since(begin))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if want := map[bool]int{false: 1, true: 0}[fails]; len(s.written) != want || s.recovers != 1 {
				t.Errorf("%+v after %d", s.written, s.recovers)
			}
			if !fails && (log.Number() != 1 || !s.written[0].At.Equal(begin) || len(s.written[0].Events) != 3) {
				t.Errorf("%+v", s.written)
			}
			s.mu.Lock()
			s.lost = nil
			s.mu.Unlock()
			next := NewLog(r, Retention{})
			next.Describe(Info{ID: "y"})
			if err := errors.Join(log.Close(), next.Close(), r.Close()); err != nil {
				t.Error(err)
			}
			if fails && (next.Number() != 1 || log.Number() != 0) || !fails && next.Number() != 2 {
				t.Errorf("the numbers are %d and %d", log.Number(), next.Number())
			}
		})
	}
}

// Numbers follow the order of beginning, also of commands that are written together.
func TestLaterNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(t.Context(), Config{Store: new(script), Later: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var logs []*Log
		for range 20 {
			log := NewLog(r, Retention{})
			log.Describe(Info{ID: "x"})
			logs = append(logs, log)
		}
		for i := range logs { // in another order
			if _, err := logs[19-i].Append(Event{Kind: KindOutput, Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		for i, log := range logs {
			if n := log.Number(); n != int64(1+i) {
				t.Errorf("command %d has number %d", i, n)
			}
		}
	})
}

// While there is no room, a process goes on and its exit is told; once there is, all is
// written that the log has kept. Those that ended meanwhile wait too, up to a bound.
func TestLogFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := true
		s := &script{fail: func(*Change) error {
			if full {
				return fmt.Errorf("disk: %w", ErrFull)
			}
			return nil
		}}
		var told []Record
		r, err := Open(t.Context(), Config{Store: s, Ended: func(rec *Record) { told = append(told, *rec) }})
		if err != nil {
			t.Fatal(err)
		}
		live := NewLog(r, Retention{Bytes: 100})
		live.Describe(Info{ID: "live"})
		for range maxRetried + 9 {
			log := NewLog(r, Retention{})
			log.Describe(Info{ID: "gone"})
			for _, e := range []Event{{Kind: KindOutput, Data: []byte("x")}, {Kind: KindExited, Exit: new(Exit)}, {Kind: KindClosed}} {
				if _, err := log.Append(e); err != nil {
					t.Fatal(err)
				}
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			if _, err := live.Append(Event{Kind: KindOutput, Data: make([]byte, 10)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if page, err := live.Read(nil, 0, -1); err != nil || len(page.Events) != 10 || live.Number() != 0 {
			t.Errorf("%+v, %v, number %d", page, err, live.Number())
		}
		if len(told) != 10 { // those for which there is no place
			t.Errorf("%d ends are told of", len(told))
		}
		s.mu.Lock()
		full = false
		s.mu.Unlock()
		time.Sleep(2 * maxFullDelay)
		synctest.Wait()
		if n := len(s.written); n != maxRetried || len(told) != maxRetried+9 {
			t.Errorf("%d logs are written, %d ends are told of", n, len(told))
		}
		for _, c := range s.written {
			switch {
			case c.Info.ID == "live":
				if len(c.Events) != 10 || c.Events[0].Seq != 11 || c.First != 11 || live.Number() != c.Log {
					t.Errorf("%+v", c)
				}
			case !c.Ended || len(c.Events) != 2 || c.Events[0].Seq != 2: // its output was not held any longer
				t.Errorf("%+v", c)
			}
		}
		if _, err := live.Append(Event{Kind: KindOutput, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if c := s.written[len(s.written)-1]; c.Info != nil || c.Log != live.Number() || len(c.Events) != 1 || c.Events[0].Seq != 21 {
			t.Errorf("%+v", c)
		}
	})
}

// The end of a log that another has replaced, or that cannot be written, is passed on as
// well, and once.
func TestEndedIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("no")
		s := &script{fail: func(c *Change) error {
			if c.Ended && !c.Forget {
				return no
			}
			return nil
		}}
		var told []Record
		r, err := Open(t.Context(), Config{Store: s, NoArgs: true, Ended: func(rec *Record) { told = append(told, *rec) }})
		if err != nil {
			t.Fatal(err)
		}
		log := NewLog(r, Retention{})
		log.Describe(Info{ID: "x", Argv: []string{"a", "secret"}})
		time.Sleep(time.Second)
		for _, e := range []Event{{Kind: KindOutput, Data: []byte("xyz")}, {Kind: KindExited, Exit: &Exit{Code: 3}}, {Kind: KindClosed}} {
			if _, err := log.Append(e); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		_, before := r.Changed()
		if err := r.Forget(t.Context(), 9, &Record{Log: 9, Info: Info{ID: "y", Argv: []string{"b", "secret"}}, Exit: &Exit{Code: 137}, Printed: 7}); err != nil {
			t.Fatal(err)
		}
		if _, after := r.Changed(); after == before {
			t.Error("nobody is woken")
		}
		if err := errors.Join(r.Forget(t.Context(), 9, nil), log.Close(), r.Close()); err != nil {
			t.Error(err)
		}
		if len(told) != 2 || told[0].Log != log.Number() || told[0].Exit.Code != 3 || told[0].Printed != 3 || told[0].CommandLine() != "a" ||
			told[1].Log != 9 || told[1].Exit.Code != 137 || told[1].Printed != 7 || told[1].CommandLine() != "b" {
			t.Errorf("%+v", told)
		}
	})
}

// Flush writes what is marked and would wait, and what is being written.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r, err := Open(t.Context(), Config{Store: s, Later: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for i := range 100 {
			l := NewLog(r, Retention{})
			l.Describe(Info{Origin: OriginSession})
			for range 15 {
				if _, err := l.Append(Event{Kind: KindOutput, Data: GetBuffer()[:]}); err != nil {
					t.Fatal(err)
				}
			}
			if i%10 > 0 {
				continue
			}
			if err := r.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			if s.last != int64(i)+1 {
				t.Errorf("%d logs are written of %d", s.last, i+1)
			}
			s.mu.Unlock()
		}
		if d := time.Since(begun); d > 0 {
			t.Errorf("it took %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Errorf("after Close: %v", err)
		}
	})
}
