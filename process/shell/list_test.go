package shell_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
)

// listed are the runs that List returns, a line each.
func listed(t *testing.T, s *shell.Shell, ended bool) string {
	t.Helper()
	runs, more, err := s.List(t.Context(), ended)
	if err != nil || more {
		t.Fatal(more, err)
	}
	var out strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&out, "%s pid %d %q in %q %v ago", r.ID, r.PID, r.About.Command, r.About.Cwd, time.Since(r.Started))
		if r.Ended {
			fmt.Fprintf(&out, ", code %d", r.Code)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// Runs are listed from their beginning to the end of their time, the oldest first.
func TestList(t *testing.T) {
	t.Parallel()
	bubble(t, config{KeepFor: shell.DefaultTTL, Config: shell.Config{Dir: func(string) (string, error) { return "/", nil }}}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		want := func(live, all string) {
			t.Helper()
			if diff := cmp.Diff(live, listed(t, s, false)); diff != "" {
				t.Errorf("live (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(all, listed(t, s, true)); diff != "" {
				t.Errorf("all (-want +got):\n%s", diff)
			}
		}
		want("", "")
		first := begin(t, s, shell.Request{ID: "z", Command: "make", Cwd: "/w", Timeout: timeout(0)})
		defer first.Close()
		time.Sleep(time.Second)
		defer begin(t, s, shell.Request{ID: "a", Command: "ls", Timeout: timeout(0)}).Close()
		both := "z pid 1 \"make\" in \"/w\" 1s ago\na pid 2 \"ls\" in \"\" 0s ago\n"
		want(both, both)

		sp.child(0).exit(3)
		collect(t, first)
		live := "a pid 2 \"ls\" in \"\" 0s ago\n"
		want(live, "z pid 0 \"make\" in \"/w\" 1s ago, code 3\n"+live)

		sp.fail = errors.New("no room")
		collect(t, begin(t, s, shell.Request{ID: "z", Command: "again"}))
		want(live, live+"z pid 0 \"again\" in \"\" 0s ago, code -1\n")

		time.Sleep(shell.DefaultTTL + time.Millisecond)
		live = "a pid 2 \"ls\" in \"\" 5m0.001s ago\n"
		want(live, live)
		if err := s.DisposeExec(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		want("", "")
	})
}

// A run that is about to be recorded is not listed yet, and holds up nobody who lists.
func TestListBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		store := failing(func(op string) error {
			if op == "begin" {
				<-release
			}
			return nil
		})
		s, end, err := config{Store: store, Config: shell.Config{Spawner: new(fakeSpawner)}}.open()
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends when it is recorded
			if _, _, err := s.Exec(t.Context(), shell.Request{ID: "x"}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if got := listed(t, s, true); got != "" {
			t.Error(got)
		}
		close(release)
		synctest.Wait()
		if got := listed(t, s, true); !strings.HasPrefix(got, "x pid 1 ") {
			t.Error(got)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}

// An answer has so many runs, those that began last, and so much of each.
func TestListBounds(t *testing.T) {
	t.Parallel()
	const many, most = 1100, 1024
	store := new(memory)
	for i := range many {
		if err := left(store, int64(i+1), fmt.Sprint(i), time.Now(), exited(1)); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, func(cfg *config) { cfg.Store = store })
	long := strings.Repeat("é", 2000)
	f.run(shell.Request{ID: "long", Command: ": " + long, Cwd: long})
	runs, more, err := f.List(t.Context(), true)
	if err != nil || !more || len(runs) != most || runs[0].ID != fmt.Sprint(many+1-most) {
		t.Fatalf("%d runs, %v, %v", len(runs), more, err)
	}
	about := runs[most-1].About
	for _, text := range []string{about.Command, about.Cwd} {
		if len(text) > 1024 || len(text) < 1020 || !strings.HasSuffix(text, "é…") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// What the store cannot say is no list.
func TestListFailure(t *testing.T) {
	t.Parallel()
	failure := errors.New("the disk is gone")
	f := open(t, func(cfg *config) { cfg.Store = failingStore{cfg.Store, failure} })
	if runs, _, err := f.List(t.Context(), true); !errors.Is(err, failure) {
		t.Errorf("%v, %v", runs, err)
	}
}

type failingStore struct {
	eventlog.Store
	err error
}

func (s failingStore) List(context.Context, eventlog.Query) ([]eventlog.Record, error) {
	return nil, s.err
}
