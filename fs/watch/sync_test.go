package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
)

// What was done before Sync can be taken after it, at once.
func TestSync(t *testing.T) {
	if runtime.GOOS != "linux" {
		sub, err := NewClosingHub().Subscribe(1)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		if sub.Sync() {
			t.Error("it says that all is told")
		}
		return
	}
	sub, err := NewClosingHub().Subscribe(100_000)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	dir := t.TempDir()
	id, err := sub.Add(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		name := fmt.Sprint(i)
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o666); err != nil {
			t.Fatal(err)
		}
		if !sub.Sync() {
			t.Fatal("not told")
		}
		events, lost := sub.Take()
		closed := slices.Index(events, Event{ID: id, Name: name, Op: Modify, Closed: true})
		if lost || !slices.Contains(events, Event{ID: id, Name: name, Op: Create}) || closed < 0 {
			t.Fatalf("file %d: %v, lost %v", i, events, lost)
		}
	}
	if !sub.Sync() {
		t.Fatal("not told that nothing has happened")
	}
	if events, _ := sub.Take(); len(events) > 0 {
		t.Errorf("told again: %v", events)
	}
}

// Others that sync, and the goroutine that reads, do not come between.
func TestSyncAtOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	hub := NewClosingHub()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			sub, err := hub.Subscribe(100_000)
			if err != nil {
				t.Error(err)
				return
			}
			defer sub.Close()
			dir := t.TempDir()
			if _, err := sub.Add(dir, false); err != nil {
				t.Error(err)
				return
			}
			for i := range 200 {
				if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o777); err != nil {
					t.Error(err)
					return
				}
				if !sub.Sync() {
					t.Error("not told")
				}
				if events, lost := sub.Take(); lost || len(events) != 1 || events[0].Name != fmt.Sprint(i) {
					t.Errorf("directory %d: %v, lost %v", i, events, lost)
					return
				}
			}
		})
	}
	wg.Wait()
}

// A hub that nobody uses has nothing to tell.
func TestSyncClosed(t *testing.T) {
	sub, err := NewHub().Subscribe(1)
	if err != nil {
		t.Fatal(err)
	}
	sub.Close()
	if sub.Sync() {
		t.Error("synced")
	}
}
