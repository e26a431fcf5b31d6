package fs

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Requests that come while a sandbox's helper is being checked share the next check: none
// gets the answer of one that began before it came.
func TestSL12RequestsShareChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, goOn := 0, make(chan struct{})
		s := newSharedCheck(func() bool {
			runs++ // one at a time
			fresh := runs == 1
			<-goOn
			return fresh
		})
		var wg sync.WaitGroup
		ask := func(want bool) {
			wg.Go(func() {
				if got := s.ask(); got != want {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
		ask(true)
		synctest.Wait()
		for range 10 {
			ask(false)
		}
		synctest.Wait()
		goOn <- struct{}{}
		synctest.Wait()
		goOn <- struct{}{}
		wg.Wait()
		if runs != 2 {
			t.Errorf("%d checks", runs)
		}
	})
}
