package shell_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/shell"
)

// bubble runs a test with children of its own and a clock that does not cost time.
func bubble(t *testing.T, cfg config, fn func(*testing.T, *shell.Shell, *fakeSpawner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spawner := new(fakeSpawner)
		cfg.Spawner = spawner
		s, end, err := cfg.open()
		if err != nil {
			t.Fatal(err)
		}
		fn(t, s, spawner)
		if err := end(); err != nil {
			t.Error(err)
		}
		if !spawner.closed {
			t.Error("the spawner is open")
		}
	})
}

func begin(t *testing.T, s *shell.Shell, r shell.Request) shell.Events {
	t.Helper()
	_, events, err := s.Exec(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// A run is there for the time to live after its end, then it is not, nor in the store.
func TestTTL(t *testing.T) {
	t.Parallel()
	store := new(memory)
	bubble(t, config{Store: store, KeepFor: time.Hour, Config: shell.Config{TTL: time.Minute}}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		events := begin(t, s, shell.Request{ID: "x", Timeout: timeout(0)})
		defer events.Close()
		time.Sleep(time.Hour) // a live one is kept
		sp.child(0).exit(3)
		collect(t, events)
		time.Sleep(59 * time.Second)
		if _, err := s.GetExec(t.Context(), "x", shell.After{}); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		_, err := s.GetExec(t.Context(), "x", shell.After{})
		wantCode(t, err, shell.CodeNotFound)
		wantCode(t, s.KillExec(t.Context(), "x", ""), shell.CodeNotFound)
		shared, err := s.Follow(t.Context(), "x", shell.After{}) // until the store forgets it
		if err != nil {
			t.Fatal(err)
		}
		if tr := collect(t, shared); tr.code != 3 || tr.exits != 1 {
			t.Errorf("%+v", tr)
		}
		shared.Close()
		time.Sleep(time.Hour)
		if _, err := store.Find(t.Context(), "x"); !errors.Is(err, errNoRun) {
			t.Errorf("it is in the store: %v", err)
		}
	})
}

// Deadlines: the default's, a request's, none; first SIGTERM, SIGKILL 5 s later, and no
// signal to what has ended.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout *time.Duration
		after   time.Duration
	}{{nil, 320 * time.Second}, {timeout(time.Second), time.Second}, {timeout(0), 0}} {
		bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			began := time.Now()
			events := begin(t, s, shell.Request{Timeout: c.timeout})
			child := sp.child(0)
			if c.after == 0 {
				time.Sleep(24 * time.Hour)
				select {
				case sig := <-child.signals:
					t.Errorf("got %v", sig)
				default:
				}
				child.exit(0)
				collect(t, events)
				return
			}
			for _, want := range []struct {
				sig syscall.Signal
				at  time.Duration
			}{{syscall.SIGTERM, c.after}, {syscall.SIGKILL, c.after + 5*time.Second}} {
				if sig := <-child.signals; sig != want.sig || time.Since(began) != want.at {
					t.Errorf("got %v after %v, want %v after %v", sig, time.Since(began), want.sig, want.at)
				}
			}
			if tr := collect(t, events); tr.code != 137 {
				t.Errorf("%+v", tr)
			}
		})
	}
	bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		events := begin(t, s, shell.Request{Timeout: timeout(time.Second)})
		sp.child(0).exit(0)
		collect(t, events)
		time.Sleep(time.Hour)
		select {
		case sig := <-sp.child(0).signals:
			t.Errorf("%v for a run that has ended", sig)
		default:
		}
	})
}

// Close: SIGTERM, grace, SIGKILL; nothing new; all ends are recorded.
func TestCloseGrace(t *testing.T) {
	t.Parallel()
	store := new(memory)
	bubble(t, config{Store: store, Config: shell.Config{Grace: 3 * time.Second}}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		began := time.Now()
		polite, stubborn := begin(t, s, shell.Request{ID: "polite"}), begin(t, s, shell.Request{ID: "stubborn"})
		go func() {
			if sig := <-sp.child(0).signals; sig == syscall.SIGTERM {
				sp.child(0).out.print("bye")
				sp.child(0).exit(5)
			}
		}()
		closed := make(chan error)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		_, _, err := s.Exec(t.Context(), shell.Request{Command: "true"})
		wantCode(t, err, shell.CodeShutdown)
		collect(t, polite).want(t, 5, "bye", "")
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		collect(t, stubborn).want(t, 137, "", "")
		for id, code := range map[string]int{"polite": 5, "stubborn": 137} {
			if r, err := store.Find(t.Context(), id); err != nil || !r.Ended || r.Exit.Code != code {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}

// Close records how paused runs end, whoever does not read; who does finds the rest in
// the log.
func TestClosePaused(t *testing.T) {
	t.Parallel()
	bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		events := begin(t, s, shell.Request{})
		for range 100 {
			sp.child(0).out.print(fmt.Sprintf("%65536d", 0))
		}
		synctest.Wait()
		next(t, events)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		tr := collect(t, events)
		if tr.first != 2 || len(tr.stdout) != 99<<16 || tr.code != 137 {
			t.Errorf("from %d, %d bytes, code %d", tr.first, len(tr.stdout), tr.code)
		}
	})
}

// What the log cannot take is not delivered: the command is killed, its follower told.
func TestLogFailure(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for _, op := range []string{"begin", "append", "forget"} {
		var fails bool
		store := failing(func(o string) error {
			if fails && o == op {
				return full
			}
			return nil
		})
		bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			fails = op == "begin"
			_, events, err := s.Exec(t.Context(), shell.Request{ID: "x"})
			if op == "begin" {
				if !errors.Is(err, full) {
					t.Error(err)
				}
				if sig := <-sp.child(0).signals; sig != syscall.SIGKILL {
					t.Error(sig)
				}
				fails = false
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			fails = true
			if op == "forget" {
				synctest.Wait()
				if err := s.DisposeExec(t.Context(), "x"); !errors.Is(err, full) {
					t.Error(err)
				}
			} else {
				sp.child(0).out.print("lost")
				if _, err := events.Next(t.Context()); !errors.Is(err, full) {
					t.Error(err)
				}
				if _, err := s.GetExec(t.Context(), "x", shell.After{}); err == nil {
					t.Error("an incomplete log is served")
				}
			}
			if sig := <-sp.child(0).signals; sig != syscall.SIGKILL {
				t.Error(sig)
			}
			fails = false
		})
	}
}

// Of a run that nobody reads there is a bounded number of events in memory, too.
func TestWindowEvents(t *testing.T) {
	t.Parallel()
	bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		events := begin(t, s, shell.Request{ID: "x"})
		out := sp.child(0).out
		const all = 5000
		for i := range all { // of other streams than their neighbours
			out.printTo([]string{shell.Stdout, shell.Stderr}[i%2], "x")
		}
		left := func() int {
			synctest.Wait()
			out.mu.Lock()
			defer out.mu.Unlock()
			return len(out.data)
		}
		if n := all - left(); n < 1024 || n > 1026 {
			t.Errorf("%d events were read", n)
		}
		for range 513 { // half of the window, and one that is worked on
			next(t, events)
		}
		if n := all - left(); n < 1536 || n > 1540 {
			t.Errorf("%d events were read", n)
		}
		events.Close()
		if n := left(); n > 0 {
			t.Errorf("%d events are left", n)
		}
		sp.child(0).exit(0)
		if tr := collect(t, mustGet(t, s, "x")); len(tr.stdout)+len(tr.stderr) != all {
			t.Errorf("%+v", tr.events)
		}
	})
}

// While others are written, short pieces of output become one event, but for those of another
// stream and those that are too much together.
func TestGather(t *testing.T) {
	t.Parallel()
	var written chan struct{}
	store := failing(func(op string) error {
		if op == "append" {
			<-written
		}
		return nil
	})
	bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		written = make(chan struct{})
		events := begin(t, s, shell.Request{ID: "x"})
		defer events.Close()
		out := sp.child(0).out
		out.print("first")
		synctest.Wait() // the keeper has it
		much := fmt.Sprintf("%32768d", 0)
		for _, c := range []process.Chunk{
			{Stream: shell.Stdout, Data: []byte("a")},
			{Stream: shell.Stdout, Data: []byte("b")},
			{Stream: shell.Stderr, Data: []byte("c")},
			{Stream: shell.Stderr, Data: []byte("d")},
			{Stream: shell.Stdout, Data: []byte("e")},
			{Stream: shell.Stdout, Data: []byte(much)},
			{Stream: shell.Stdout, Data: []byte("f")},
			{Stream: shell.Stdout, Data: []byte("g")},
		} {
			out.printTo(c.Stream, string(c.Data))
		}
		synctest.Wait()
		if n, _ := out.Buffered(); n != 0 {
			t.Errorf("%d bytes are in the pipe", n)
		}
		close(written)
		for _, want := range []string{"stdout first", "stdout ab", "stderr cd", "stdout e", "stdout " + much, "stdout fg"} {
			e := next(t, events)
			if got := e.Name + " " + string(e.Data); got != want {
				t.Errorf("event %d is %.40q, want %.40q", e.Seq, got, want)
			}
		}
		sp.child(0).exit(0)
		collect(t, events)
	})
}

func mustGet(t *testing.T, s *shell.Shell, id string) shell.Events {
	t.Helper()
	events, err := s.GetExec(t.Context(), id, shell.After{})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// At most so many at once, and so much stdin.
func TestRunLimits(t *testing.T) {
	t.Parallel()
	bubble(t, config{Config: shell.Config{MaxRuns: 3}}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		for range 3 {
			begin(t, s, shell.Request{})
		}
		_, _, err := s.Exec(t.Context(), shell.Request{})
		wantCode(t, err, shell.CodeBusy)
		sp.child(1).exit(0)
		synctest.Wait()
		begin(t, s, shell.Request{})
		if s.Running() != 3 {
			t.Error(s.Running())
		}
	})
}

// The order of an end: the output, what settles the workspace, the exit.
func TestSettle(t *testing.T) {
	t.Parallel()
	settling, settled := make(chan struct{}), make(chan error)
	cfg := shell.Config{Settle: func(context.Context, time.Time) error {
		settling <- struct{}{}
		return <-settled
	}}
	for _, failure := range []error{nil, errors.New("no")} {
		bubble(t, config{Config: cfg}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			settling, settled = make(chan struct{}), make(chan error)
			events := begin(t, s, shell.Request{})
			sp.child(0).out.print("hi")
			next(t, events)
			sp.child(0).exit(0)
			<-settling
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if e, err := events.Next(ctx); err == nil {
				t.Errorf("%+v before it is settled", e)
			}
			cancel()
			settled <- failure
			if tr := collect(t, events); tr.exits != 1 || tr.code != 0 {
				t.Errorf("%+v", tr)
			}
		})
	}
}

// The end of a run does not wait for what others write. Runs that end while the workspace is
// settled share the next time, whatever their number.
func TestEndDoesNotWaitForStrangers(t *testing.T) {
	t.Parallel()
	bubbleOf := func(fn func(t *testing.T, calls *atomic.Int32, let chan struct{}, s *shell.Shell, sp *fakeSpawner)) {
		var calls atomic.Int32
		var let chan struct{}
		cfg := shell.Config{Settle: func(context.Context, time.Time) error {
			calls.Add(1)
			<-let
			return nil
		}}
		bubble(t, config{Config: cfg}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			let = make(chan struct{})
			fn(t, &calls, let, s, sp)
		})
	}
	bubbleOf(func(t *testing.T, calls *atomic.Int32, let chan struct{}, s *shell.Shell, sp *fakeSpawner) {
		const runs = 20
		var all []shell.Events
		began := time.Now()
		for i := range runs {
			all = append(all, begin(t, s, shell.Request{}))
			sp.child(i).exit(i)
			synctest.Wait()
		}
		for i, events := range all {
			if tr := collect(t, events); tr.exits != 1 || tr.code != i {
				t.Errorf("%+v", tr)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the ends took %v", took)
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d settles at a time", n)
		}
		let <- struct{}{}
		synctest.Wait()
		if n := calls.Load(); n != 2 {
			t.Errorf("%d settles for all who have ended since the first began", n)
		}
		close(let)
	})
}

// What is started, and that Prepare has the last word.
func TestPrepare(t *testing.T) {
	t.Parallel()
	var refusal error
	cfg := shell.Config{
		Dir:     func(string) (string, error) { return "/", nil },
		Environ: func() []string { return []string{"PATH=/bin", "SECRET=1"} },
		Prepare: func(c *process.Command) error {
			c.Dir = "/elsewhere"
			return refusal
		},
	}
	bubble(t, config{Config: cfg}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		begin(t, s, shell.Request{Command: "x", Env: map[string]string{"A": "b"}})
		if c := sp.last; c.Path != "/bin/sh" || fmt.Sprint(c.Argv) != "[/bin/sh -c x]" || c.Dir != "/elsewhere" || fmt.Sprint(c.Env) != "[A=b PATH=/bin]" || c.PipeStdin || c.Terminal != nil {
			t.Errorf("%+v", c)
		}
		refusal = errors.New("no namespace")
		collect(t, begin(t, s, shell.Request{Command: "x"})).want(t, -1, "", "spawn failed: no namespace\n")
		refusal = nil
		sp.fail = &process.SpawnError{Op: "open pipe", Errno: syscall.EMFILE}
		collect(t, begin(t, s, shell.Request{Command: "x"})).want(t, -1, "", "spawn failed: /bin/sh: too many open files\n")
	})
}

// Runs end whole: no goroutine and no descriptor stays.
func TestNoLeak(t *testing.T) {
	f := open(t)
	f.run(shell.Request{Command: "true"})
	const forking = 4 // threads that fork may be started meanwhile, and stay
	before := runtime.NumGoroutine() + forking
	for range 50 {
		f.run(shell.Request{Command: "echo hi", Stdin: []byte("x")})
	}
	for begin := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(begin) > patience {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}
