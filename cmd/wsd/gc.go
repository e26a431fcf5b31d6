package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
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
// grows by indexGrowth: as much garbage as index would be most of the memory of a large push. A heap
// with a little less in use grows no larger than one with indexHeap.
const (
	indexHeap   = 32 << 20
	indexGrowth = 40 // percent
)

// A program is busy if the collector runs again within busyPause. Its heap may grow to busyHeap. When the work
// is over, the runtime forces a collection within two minutes, and the heap is small again.
const (
	busyPause = time.Second
	busyHeap  = 32 << 20
)

// A growth returns how much the heap may grow, in percent as for debug.SetGCPercent. live is the number of
// bytes in use, and pause the time since the last run of the collector.
type growth func(live uint64, pause time.Duration) int

// gcGrowth is nil while that is up to Go.
var gcGrowth atomic.Pointer[growth]

// tuneGC has the collector run as often as growth says from now on. GOGC wins over it.
func tuneGC(getenv func(string) string, g growth) {
	if getenv("GOGC") != "" {
		return
	}
	if gcGrowth.Swap(&g) != nil {
		return // the watch below uses it from the next run on
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var last time.Time
	var watch func(*[16]byte)
	watch = func(sentinel *[16]byte) {
		metrics.Read(live)
		now := time.Now()
		debug.SetGCPercent((*gcGrowth.Load())(live[0].Value.Uint64(), now.Sub(last)))
		last = now
		runtime.SetFinalizer(sentinel, watch) // so that the next run calls it again
	}
	watch(new([16]byte))
}

// upTo has a small heap grow to limit.
func upTo(limit, live uint64) int {
	if live == 0 {
		return mostGrowth
	}
	return int(min(mostGrowth, max(usualGrowth, (limit-min(limit, live))*100/live)))
}

// passingGrowth is for what passes output on, a relay and the clients of one.
func passingGrowth(live uint64, _ time.Duration) int {
	if live >= largeHeap {
		return leastGrowth
	}
	return upTo(smallHeap, live)
}

// withIndex bounds the growth of a heap that may have a large index.
func withIndex(live uint64, growth int) int {
	if live >= indexHeap {
		return indexGrowth
	}
	if live == 0 {
		return growth
	}
	const most = indexHeap * (100 + indexGrowth) / 100
	return int(min(uint64(growth), (most-live)*100/live)) //nolint:gosec // A growth is a small number.
}

// indexingGrowth is for both sides of a synchronisation. A small heap stays as small as Go keeps
// it while there is little to do: a server may be there for very little.
func indexingGrowth(live uint64, pause time.Duration) int {
	if pause >= busyPause {
		return withIndex(live, usualGrowth)
	}
	return withIndex(live, upTo(busyHeap, live))
}

// endingGrowth is indexingGrowth for a synchronisation that ends: as long as little lives, it need not
// stay small.
func endingGrowth(live uint64, pause time.Duration) int {
	return withIndex(live, passingGrowth(live, pause))
}
