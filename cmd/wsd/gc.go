package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// With a live heap of a few MB the collector runs for every few MB that pass, and costs
// half of what it takes to carry output over a relay. As long as little lives, the heap
// may grow to smallHeap between two runs.
//
// Most of a large heap is bytes that wait for a slow reader. The collector does not scan
// them, so it can run often, and the program holds little besides them.
const (
	smallHeap   = 48 << 20
	largeHeap   = 128 << 20
	leastGrowth = 25  // percent
	usualGrowth = 100 // as Go has it
	mostGrowth  = 800
)

// A synchronisation of many files keeps what both sides know of them. From indexHeap on the heap
// grows by indexGrowth: as much garbage as index would be most of the memory of a large push.
const (
	indexHeap   = 32 << 20
	indexGrowth = 50 // percent
)

// gcGrowth is how much the heap may grow, in percent, when so many bytes of it live; nil while
// that is up to Go.
var gcGrowth atomic.Pointer[func(live uint64) int]

// tuneGC has the collector run as often as growth says from now on. GOGC wins over it.
func tuneGC(getenv func(string) string, growth func(live uint64) int) {
	if getenv("GOGC") != "" {
		return
	}
	if gcGrowth.Swap(&growth) != nil {
		return // the watch below uses it from the next run on
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var watch func(*[16]byte)
	watch = func(sentinel *[16]byte) {
		metrics.Read(live)
		debug.SetGCPercent((*gcGrowth.Load())(live[0].Value.Uint64()))
		runtime.SetFinalizer(sentinel, watch) // so that the next run calls it again
	}
	watch(new([16]byte))
}

// passingGrowth is for what passes output on, a relay and the clients of one.
func passingGrowth(live uint64) int {
	if live == 0 {
		return mostGrowth
	}
	if live >= largeHeap {
		return leastGrowth
	}
	if live >= smallHeap {
		return usualGrowth
	}
	return int(min(mostGrowth, max(usualGrowth, (smallHeap-live)*100/live)))
}

// indexingGrowth is for both sides of a synchronisation. A small heap stays as small as Go keeps
// it: a server may be there for very little.
func indexingGrowth(live uint64) int {
	if live >= indexHeap {
		return indexGrowth
	}
	return usualGrowth
}

// endingGrowth is indexingGrowth for a synchronisation that ends: as long as little lives, it need not
// stay small.
func endingGrowth(live uint64) int {
	if live >= indexHeap {
		return indexGrowth
	}
	return passingGrowth(live)
}
