// Package bufpool keeps the memory of large messages for reuse: that of whole files, of the
// messages that carry them, and of long lists. Short messages have pools of their own, so that
// they hold no large memory.
package bufpool

import (
	"runtime"
	"slices"
	"sync"
)

// LeastSize is the least size of memory that is kept, in bytes: fresh memory of that size costs
// more than to fill it.
const LeastSize = 64 << 10

// classes is how many sizes are kept: four from each power of two to the next, so that
// what is used again is too large by a quarter at most. The last is 512 MiB.
const classes = 53

// A shelf keeps the memory of large messages and of their contents. It frees memory that
// is not used between two runs of the garbage collector. A sync.Pool does the same, but has
// a place for each processor that the others do not take from, so that large memory would
// be fresh too often.
type shelf struct {
	mu       sync.Mutex
	young    [classes][][]byte
	old      [classes][][]byte // what was young before the latest run of the collector
	watching bool              // age is called after the next
}

var kept shelf

// class returns the least size that is kept and has room for n bytes, and its place.
func class(n int) (size, place int) {
	size = LeastSize
	for step := LeastSize / 4; size < n && place < classes; place++ {
		if place > 0 && place%4 == 0 {
			step *= 2
		}
		size += step
	}
	return size, place
}

// Size is n, rounded up to a size that Take may find kept.
func Size(n int) int {
	size, _ := class(n)
	return max(size, n)
}

// Take returns an empty slice with a capacity of size, with old bytes in it.
func Take(size int) []byte {
	if least, place := class(size); least == size && place < classes {
		if b := kept.take(place); b != nil {
			return b
		}
	}
	return make([]byte, 0, size)
}

// Keep has Take use the memory of b again, to which nothing may refer any more.
// It leaves memory that is not of such a size to the garbage collector.
func Keep(b []byte) {
	if least, place := class(cap(b)); least == cap(b) && place < classes {
		kept.keep(b[:0], place)
	}
}

// Clear gives all that is kept to the garbage collector.
func Clear() { kept.clear() }

func (s *shelf) take(place int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range []*[][]byte{&s.young[place], &s.old[place]} {
		if n := len(*from); n > 0 {
			b := (*from)[n-1]
			*from = slices.Delete(*from, n-1, n)
			return b
		}
	}
	return nil
}

func (s *shelf) keep(b []byte, place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.young[place] = append(s.young[place], b)
	if !s.watching {
		s.watching = true
		s.watch()
	}
}

// watch has age called after the next run of the garbage collector.
func (s *shelf) watch() {
	runtime.SetFinalizer(new([16]byte), func(*[16]byte) { s.age() })
}

// age frees what has been old since the run of the collector before the latest.
func (s *shelf) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = false
	for i := range s.old {
		s.old[i], s.young[i] = s.young[i], nil
		s.watching = s.watching || len(s.old[i]) > 0
	}
	if s.watching {
		s.watch()
	}
}

// clear frees all.
func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.young[:])
	clear(s.old[:])
}
