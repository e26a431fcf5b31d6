package rpc

import (
	"runtime"
	"slices"
	"sync"
)

// leastMemory is the least size of memory that is kept for reuse: fresh memory of that size
// costs more than to fill it.
const leastMemory = 64 << 10

// memoryClasses is how many sizes are kept: four from each power of two to the next, so that
// what is used again is too large by a quarter at most. The last is 512 MiB.
const memoryClasses = 53

// A shelf keeps the memory of large messages and of their contents. It frees memory that
// is not used between two runs of the garbage collector. A sync.Pool does the same, but has
// a place for each processor that the others do not take from, so that large memory would
// be fresh too often.
type shelf struct {
	mu       sync.Mutex
	young    [memoryClasses][][]byte
	old      [memoryClasses][][]byte // what was young before the latest run of the collector
	watching bool                    // age is called after the next
}

var memory shelf

// memoryClass returns the least size that is kept and has room for n bytes, and its place.
func memoryClass(n int) (size, place int) {
	size = leastMemory
	for step := leastMemory / 4; size < n && place < memoryClasses; place++ {
		if place > 0 && place%4 == 0 {
			step *= 2
		}
		size += step
	}
	return size, place
}

// MemorySize is n, rounded up to a size that TakeMemory may find kept.
func MemorySize(n int) int {
	size, _ := memoryClass(n)
	return max(size, n)
}

// TakeMemory returns an empty slice with a capacity of size, with old bytes in it.
func TakeMemory(size int) []byte {
	if class, place := memoryClass(size); class == size && place < memoryClasses {
		if b := memory.take(place); b != nil {
			return b
		}
	}
	return make([]byte, 0, size)
}

// KeepMemory has TakeMemory use the memory of b again, to which nothing may refer any more.
// It leaves memory that is not of such a size to the garbage collector.
func KeepMemory(b []byte) {
	if class, place := memoryClass(cap(b)); class == cap(b) && place < memoryClasses {
		memory.keep(b[:0], place)
	}
}

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
