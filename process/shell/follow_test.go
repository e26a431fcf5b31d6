package shell_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
)

// follow is Follow for a test.
func follow(t *testing.T, s *shell.Shell, after shell.After) shell.Events {
	t.Helper()
	events, err := s.Follow(t.Context(), "x", after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Close)
	return events
}

// rest follows to the end, from whatever is kept.
func rest(t *testing.T, events shell.Events) (tr transcript) {
	t.Helper()
	for {
		e, err := events.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return tr
		}
		if err != nil {
			t.Fatal(err)
		}
		tr.add(t, e)
	}
}

// The newest output of a run that prints more than is kept can be read, while it is live
// and after its end, also long after GetExec has lost it.
func TestF8NewestOutputIsKept(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	bubble(t, config{KeepFor: 24 * time.Hour, Config: shell.Config{MaxLogBytes: most}}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		begin(t, s, shell.Request{ID: "x", Timeout: timeout(0)}).Close()
		printed := 0
		line := func() string { printed++; return fmt.Sprintf("%07d\n", printed) }
		for range 3 * most / 8 / 64 {
			text := ""
			for range 64 {
				text += line()
			}
			sp.child(0).out.print(text)
			synctest.Wait()
		}
		_, err := s.GetExec(t.Context(), "x", shell.After{})
		wantCode(t, err, shell.CodeTruncated)
		check := func(tr transcript, exits int) {
			t.Helper()
			n := len(tr.stdout)
			if n < most || n > most+most/8 || tr.exits != exits || tr.first == 1 {
				t.Fatalf("%d bytes from event %d on, %d exits", n, tr.first, tr.exits)
			}
			for i := 0; i < n; i += 8 {
				if want := fmt.Sprintf("%07d\n", printed-(n-i)/8+1); string(tr.stdout[i:i+8]) != want {
					t.Fatalf("got %q, want %q", tr.stdout[i:i+8], want)
				}
			}
		}
		live := follow(t, s, shell.After{})
		var tr transcript
		for tr.last < uint64(3*most/8/64) {
			tr.add(t, next(t, live))
		}
		check(tr, 0)
		live.Close()
		sp.child(0).exit(9)
		synctest.Wait()
		check(rest(t, follow(t, s, shell.After{})), 1)
		time.Sleep(12 * time.Hour)
		_, err = s.GetExec(t.Context(), "x", shell.After{})
		wantCode(t, err, shell.CodeNotFound)
		tr = rest(t, follow(t, s, shell.After{}))
		check(tr, 1)
		if again := rest(t, follow(t, s, shell.After{Seq: tr.last - 2})); again.events != 2 || again.code != 9 {
			t.Errorf("%+v", again)
		}
		time.Sleep(12*time.Hour + time.Minute)
		_, err = s.Follow(t.Context(), "x", shell.After{})
		wantCode(t, err, shell.CodeNotFound)
	})
}

// Any number follow a run that is live. Each gets all of it, whoever comes and goes.
func TestF8ManyFollowers(t *testing.T) {
	t.Parallel()
	bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		first := begin(t, s, shell.Request{ID: "x"})
		out := sp.child(0).out
		out.print("a")
		synctest.Wait()
		var all []shell.Events
		for range 4 {
			all = append(all, follow(t, s, shell.After{}))
		}
		tail := follow(t, s, shell.After{Tail: true})
		_, err := s.GetExec(t.Context(), "x", shell.After{})
		wantCode(t, err, shell.CodeBusy)
		out.print("b")
		next(t, first)
		first.Close() // the next one holds the command up from now on
		next(t, all[0])
		all[0].Close()
		out.print("c")
		synctest.Wait()
		sp.child(0).exit(5)
		for _, events := range all[1:] {
			collect(t, events).want(t, 5, "abc", "")
		}
		if tr := rest(t, tail); string(tr.stdout) != "bc" || tr.code != 5 {
			t.Errorf("%+v", tr)
		}
	})
}

// One that does not read holds up neither the command nor those that read, unless it is
// the only one.
func TestF8SlowFollower(t *testing.T) {
	t.Parallel()
	bubble(t, config{Config: shell.Config{MaxLogBytes: 1 << 20}}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		first := begin(t, s, shell.Request{ID: "x"})
		slow := follow(t, s, shell.After{})
		out := sp.child(0).out
		const all = 100
		data := string(make([]byte, 32<<10))
		var tr transcript
		for range all {
			out.print(data)
			tr.add(t, next(t, first))
		}
		if tr.events != all {
			t.Errorf("%+v", tr.events)
		}
		first.Close()
		for range all {
			out.print(data)
		}
		synctest.Wait()
		if n, _ := out.Buffered(); n < all*len(data)/2 {
			t.Errorf("%d bytes are left: nobody holds the command up", n)
		}
		sp.child(0).exit(0)
		got := rest(t, slow)
		if got.exits != 1 || got.last != 2*all+1 || len(got.stdout) < (all+1<<20/len(data))*len(data) {
			t.Errorf("%d bytes from %d to %d", len(got.stdout), got.first, got.last)
		}
	})
}

// Any number follow a run, also after its end, and each gets all of it.
func TestF8AnyNumberOfFollowers(t *testing.T) {
	t.Parallel()
	bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		const prints, each = 20, 15
		begin(t, s, shell.Request{ID: "x", Timeout: timeout(0)}).Close()
		var want string
		var all []shell.Events
		join := func() {
			for range each {
				all = append(all, follow(t, s, shell.After{}))
			}
		}
		for i := range prints {
			join()
			line := fmt.Sprintln("line", i)
			sp.child(0).out.print(line)
			want += line
		}
		synctest.Wait()
		sp.child(0).exit(3)
		synctest.Wait()
		join()
		for _, events := range all {
			collect(t, events).want(t, 3, want, "")
		}
	})
}

// Of those that share a run, a slow one holds up no other, whichever was there first.
func TestF8SlowFollowerIsPassed(t *testing.T) {
	t.Parallel()
	bubble(t, config{}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		begin(t, s, shell.Request{ID: "x", Timeout: timeout(0)}).Close()
		slow, fast := follow(t, s, shell.After{}), follow(t, s, shell.After{})
		const all, piece = 100, 32 << 10
		out := sp.child(0).out
		for i := range all {
			out.print(strings.Repeat(string(rune('a'+i%26)), piece))
		}
		synctest.Wait()
		var tr, late transcript
		for range 3 { // less than has the command go on
			late.add(t, next(t, slow))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for len(tr.stdout) < all*piece {
			e, err := fast.Next(ctx)
			if err != nil {
				t.Fatalf("after %d bytes: %v", len(tr.stdout), err)
			}
			tr.add(t, e)
		}
		sp.child(0).exit(0)
		tr.add(t, next(t, fast))
		for late.exits == 0 {
			late.add(t, next(t, slow))
		}
		late.want(t, 0, string(tr.stdout), "")
		if tr.first != 1 || tr.exits != 1 {
			t.Errorf("%d exits, from event %d on", tr.exits, tr.first)
		}
	})
}

// fullStore is a Store whose disk has no room for a while.
func fullStore() (*memory, *atomic.Bool) {
	var full atomic.Bool
	return failing(func(op string) error {
		if full.Load() && op == "append" {
			return fmt.Errorf("append: %w", eventlog.ErrFull)
		}
		return nil
	}), &full
}

// While the disk is full a command waits, as it does for a follower that does not read. Nothing
// that it has printed is lost, nor its end.
func TestF7FullDiskHoldsTheCommand(t *testing.T) {
	t.Parallel()
	for _, followed := range []bool{true, false} {
		store, full := fullStore()
		bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			events := begin(t, s, shell.Request{ID: "x", Timeout: timeout(0)})
			out := sp.child(0).out
			out.print("first")
			var tr transcript
			tr.add(t, next(t, events))
			if !followed {
				events.Close()
			}
			full.Store(true)
			const piece, all = 1000, 5000 * 1000
			for range all / piece {
				out.print(strings.Repeat("x", piece))
			}
			time.Sleep(time.Hour)
			if n, _ := out.Buffered(); n < all-300_000 {
				t.Errorf("%d of %d bytes are in the pipe", n, all)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if followed {
				if e, err := events.Next(ctx); err == nil {
					t.Errorf("event %d is not in the log", e.Seq)
				}
			}
			cancel()
			full.Store(false)
			if followed {
				for len(tr.stdout) < len("first")+all {
					tr.add(t, next(t, events))
				}
			}
			synctest.Wait()
			time.Sleep(time.Minute)
			full.Store(true) // also at the end
			sp.child(0).exit(7)
			time.Sleep(time.Hour)
			if rec, err := store.Find(t.Context(), "x"); err != nil || rec.Ended {
				t.Errorf("%+v, %v", rec, err)
			}
			full.Store(false)
			time.Sleep(time.Minute)
			whole := rest(t, follow(t, s, shell.After{}))
			if whole.first != 1 || len(whole.stdout) != len("first")+all || whole.exits != 1 || whole.code != 7 {
				t.Errorf("%d bytes from %d on, exit %d", len(whole.stdout), whole.first, whole.code)
			}
		})
	}
}

// A run that waits for room can be disposed of, and does not hold up the end of the server.
func TestF7FullDiskIsLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"dispose", "close"} {
		store, full := fullStore()
		bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			begin(t, s, shell.Request{ID: "x"}).Close()
			full.Store(true)
			sp.child(0).out.print("text")
			synctest.Wait()
			if how == "dispose" {
				if err := s.DisposeExec(t.Context(), "x"); err != nil {
					t.Error(err)
				}
				if _, err := store.Find(t.Context(), "x"); !errors.Is(err, errNoRun) {
					t.Error(err)
				}
			}
		})
	}
}

// What a run has printed that the last server has left is to be read at once, also while there is no room to
// end the run. It is ended once there is.
func TestF7LogOfLeftRun(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	store := failing(func(op string) error {
		if full.Load() && op == "recover" {
			return fmt.Errorf("recover: %w", syscall.ENOSPC)
		}
		return nil
	})
	if err := left(store, 1, "x", time.Now(), printed(1, "one "), printed(2, "two")); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, _ *fakeSpawner) {
		read := func() {
			t.Helper()
			for after, want := range map[shell.After]string{
				{}: "one two 1 -1", {Seq: 1}: "two 1 -1", {Seq: 2}: " 1 -1", {Seq: 3}: " 0 0", {Tail: true}: " 0 0",
			} {
				tr := rest(t, follow(t, s, after))
				if got := fmt.Sprint(string(tr.stdout), " ", tr.exits, " ", tr.code); got != want {
					t.Errorf("after %+v: %q, not %q", after, got, want)
				}
			}
		}
		read()
		events := follow(t, s, shell.After{})
		tr := transcript{}
		tr.add(t, next(t, events))
		full.Store(false)
		time.Sleep(time.Minute)
		if r, err := store.Find(t.Context(), "x"); err != nil || !r.Ended {
			t.Errorf("with room: %+v, %v", r, err)
		}
		for tr.exits == 0 {
			tr.add(t, next(t, events))
		}
		if _, err := events.Next(t.Context()); !errors.Is(err, io.EOF) || tr.code != -1 || tr.last != 3 {
			t.Errorf("the end is %+v, %v", tr, err)
		}
		read()
	})
}

// Runs that have been kept for long enough go also while there is no room to end one that the last server
// has left: their room may be what is missing.
func TestF7SweepsWithoutRoom(t *testing.T) {
	t.Parallel()
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the bubble
	for name, ended := range map[string]time.Time{"at the start": began.AddDate(-1, 0, 0), "later": began.Add(-time.Minute)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := new(memory)
			if err := errors.Join(left(store, 1, "old", ended, exited(1)), left(store, 2, "left", ended)); err != nil {
				t.Fatal(err)
			}
			store.Before = func(op string) error {
				if _, err := store.Find(t.Context(), "old"); op == "recover" && err == nil {
					return fmt.Errorf("recover: %w", syscall.ENOSPC)
				}
				return nil
			}
			bubble(t, config{Store: store, KeepFor: time.Hour}, func(t *testing.T, _ *shell.Shell, _ *fakeSpawner) {
				time.Sleep(time.Hour)
				synctest.Wait()
				if _, err := store.Find(t.Context(), "old"); !errors.Is(err, errNoRun) {
					t.Errorf("a run is kept for ever: %v", err)
				}
				if r, err := store.Find(t.Context(), "left"); err != nil || !r.Ended {
					t.Errorf("a run that was left: %+v, %v", r, err)
				}
			})
		})
	}
}
