package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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

// tuneGC has the collector run less often while the heap is small. GOGC wins over it. It
// is for what passes output on, a relay and the clients of one; a server stays small.
func tuneGC(getenv func(string) string) {
	if getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var watch func(*[16]byte)
	watch = func(sentinel *[16]byte) {
		metrics.Read(live)
		debug.SetGCPercent(growth(live[0].Value.Uint64()))
		runtime.SetFinalizer(sentinel, watch) // so that the next run calls it again
	}
	watch(new([16]byte))
}

// growth is how much a heap may grow, in percent of what lives.
func growth(live uint64) int {
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
