package process

import (
	"slices"
	"sync"
	"testing"
)

// Whoever logs and the publisher tell of every event once, in order, however they meet,
// and whether or not what was tried at once could be told.
func TestTurns(t *testing.T) {
	const loggers, each = 4, 3000
	turn := newTurn()
	var mu sync.Mutex
	last, told, atOnce := uint64(0), []uint64(nil), 0
	tell := func(seq uint64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, seq)
	}
	logged := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
	over := make(chan struct{})
	go func() { // the publisher
		defer close(over)
		for after := uint64(0); ; {
			for to := logged(); after < to; after++ {
				tell(after + 1)
			}
			if after == loggers*each {
				return
			}
			if !turn.rest(after) {
				continue
			}
			for ok := false; !ok; {
				<-turn.due
				after, ok = turn.take()
			}
		}
	}()
	var wg sync.WaitGroup
	for range loggers {
		wg.Go(func() {
			for i := range each {
				mu.Lock()
				last++
				seq := last
				mu.Unlock()
				if i%7 == 0 || !turn.begin(seq) {
					turn.leave()
					continue
				}
				works := i%5 != 0
				if works {
					tell(seq)
					mu.Lock()
					atOnce++
					mu.Unlock()
				}
				if seq == loggers*each && works {
					works = false // the publisher ends with the last
					mu.Lock()
					told = told[:len(told)-1]
					mu.Unlock()
				}
				turn.end(seq, works)
			}
		})
	}
	wg.Wait()
	<-over
	if len(told) != loggers*each || !slices.IsSorted(told) || told[0] != 1 || told[len(told)-1] != loggers*each {
		t.Errorf("%d told of, in order: %v", len(told), slices.IsSorted(told))
	}
}

func TestTurnGoesToWhoLogs(t *testing.T) {
	turn := newTurn()
	if turn.begin(1) {
		t.Error("taken from the publisher")
	}
	if !turn.rest(0) || !turn.begin(1) {
		t.Fatal("not free after a rest")
	}
	if turn.begin(2) {
		t.Error("taken twice")
	}
	turn.end(1, true)
	if turn.begin(3) || !turn.begin(2) {
		t.Error("not in order")
	}
	turn.leave()
	turn.end(2, false)
	<-turn.due
	if after, ok := turn.take(); after != 1 || !ok {
		t.Errorf("the publisher goes on after %d, %v", after, ok)
	}
}
