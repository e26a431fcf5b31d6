package shell_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/process/shell"
)

// A hookedStore calls beforeFind, if set, once before the next List.
type hookedStore struct {
	memory
	beforeFind func()
}

func (s *hookedStore) List(ctx context.Context, q eventlog.Query) ([]eventlog.Record, error) {
	if hook := s.beforeFind; hook != nil {
		s.beforeFind = nil
		hook()
	}
	return s.memory.List(ctx, q)
}

// finish ends a run's command and checks that the run is still found then.
func finish(t *testing.T, s *shell.Shell, child *fakeChild, events shell.Events) {
	t.Helper()
	child.exit(7)
	if tr := collect(t, events); tr.code != 7 {
		t.Errorf("the new run: %+v", tr)
	}
	again, err := s.GetExec(t.Context(), "x", shell.After{})
	if err != nil {
		t.Errorf("the new run, when it has ended: %v", err)
		return
	}
	defer again.Close()
	if tr := collect(t, again); tr.code != 7 {
		t.Errorf("the log of the new run: %+v", tr)
	}
}

// TestDisposeLeavesNextRun: a run that takes the id while the one before it is disposed
// of is not touched.
func TestDisposeLeavesNextRun(t *testing.T) {
	t.Parallel()
	store := &hookedStore{}
	bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		begin(t, s, shell.Request{ID: "x"}).Close()
		synctest.Wait()
		forgetting, forget := make(chan struct{}), make(chan struct{})
		var once sync.Once
		store.Before = func(op string) error {
			if op == "forget" {
				once.Do(func() {
					close(forgetting)
					<-forget
				})
			}
			return nil
		}
		disposed := make(chan error, 1)
		go func() { disposed <- s.DisposeExec(t.Context(), "x") }() // ends with the bubble
		<-forgetting
		events := begin(t, s, shell.Request{ID: "x"})
		defer events.Close()
		close(forget)
		if err := <-disposed; err != nil {
			t.Error(err)
		}
		finish(t, s, sp.child(1), events)
	})
}

// TestDisposeOfRestartedRun: the same, when the run before has ended or was never there.
func TestDisposeOfRestartedRun(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"none", "ended"} {
		store := &hookedStore{}
		bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
			if before == "ended" {
				events := begin(t, s, shell.Request{ID: "x"})
				sp.child(0).exit(0)
				collect(t, events)
			}
			var events shell.Events
			store.beforeFind = func() { events = begin(t, s, shell.Request{ID: "x"}) }
			if err := s.DisposeExec(t.Context(), "x"); err != nil {
				t.Errorf("%s: %v", before, err)
			}
			defer events.Close()
			finish(t, s, sp.child(len(sp.children)-1), events)
		})
	}
}

// TestDisposeOfBrokenRun: a run whose log could not be written to its end can be disposed
// of.
func TestDisposeOfBrokenRun(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	store := &hookedStore{}
	fails := ""
	store.Before = func(op string) error {
		if op == fails {
			return full
		}
		return nil
	}
	bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		events := begin(t, s, shell.Request{ID: "x"})
		defer events.Close()
		fails = "append"
		sp.child(0).exit(0)
		if _, err := events.Next(t.Context()); !errors.Is(err, full) {
			t.Error(err)
		}
		synctest.Wait()
		fails = ""
		if err := s.DisposeExec(t.Context(), "x"); err != nil {
			t.Error(err)
		}
		if _, err := store.Find(t.Context(), "x"); !errors.Is(err, errNoRun) {
			t.Errorf("it is in the store: %v", err)
		}
	})
}

// TestGetRestartedRun: a run that begins while the id is looked up is followed.
func TestGetRestartedRun(t *testing.T) {
	t.Parallel()
	store := &hookedStore{}
	bubble(t, config{Store: store}, func(t *testing.T, s *shell.Shell, sp *fakeSpawner) {
		store.beforeFind = func() { begin(t, s, shell.Request{ID: "x"}).Close() }
		events, err := s.GetExec(t.Context(), "x", shell.After{})
		if err != nil {
			t.Error(err)
			sp.child(0).exit(0)
			return
		}
		defer events.Close()
		finish(t, s, sp.child(0), events)
	})
}
