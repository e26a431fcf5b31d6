package main

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	for live, want := range map[uint64]int{
		0: mostGrowth, 1 << 20: mostGrowth, 8 << 20: 500, 24 << 20: usualGrowth, 40 << 20: usualGrowth, smallHeap: usualGrowth, largeHeap: leastGrowth,
		1 << 30: leastGrowth,
	} {
		if got := passingGrowth(live, 0); got != want {
			t.Errorf("passingGrowth(%d) = %d, want %d", live, got, want)
		}
	}
	for live, want := range map[uint64]int{0: usualGrowth, 22 << 20: usualGrowth, 30 << 20: 49, indexHeap - 1: indexGrowth, indexHeap: indexGrowth, 1 << 30: indexGrowth} {
		if got := indexingGrowth(live, busyPause); got != want {
			t.Errorf("indexingGrowth(%d) = %d after a pause, want %d", live, got, want)
		}
	}
	for live, want := range map[uint64]int{0: mostGrowth, 8 << 20: 300, 16 << 20: usualGrowth, 30 << 20: 49, indexHeap - 1: indexGrowth, indexHeap: indexGrowth} {
		if got := indexingGrowth(live, busyPause-1); got != want {
			t.Errorf("indexingGrowth(%d) = %d without a pause, want %d", live, got, want)
		}
	}
	for live, want := range map[uint64]int{0: mostGrowth, 8 << 20: 459, 22 << 20: 103, 30 << 20: 49, indexHeap - 1: indexGrowth, indexHeap: indexGrowth, 1 << 30: indexGrowth} {
		if got := endingGrowth(live, busyPause); got != want {
			t.Errorf("endingGrowth(%d) = %d, want %d", live, got, want)
		}
	}
}

// The collector's setting follows the heap, run after run.
func TestTuneGC(t *testing.T) {
	before := debug.SetGCPercent(usualGrowth)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	tuneGC(func(string) string { return "" }, passingGrowth)
	wait := func(what string, ok func(percent int) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.GC() {
			percent := debug.SetGCPercent(-1)
			debug.SetGCPercent(percent)
			if ok(percent) {
				return
			}
		}
		t.Errorf("the setting does not become %s", what)
	}
	wait("high with a small heap", func(p int) bool { return p > usualGrowth })
	large := make([]byte, 2*smallHeap)
	wait("usual with a large one", func(p int) bool { return p == usualGrowth })
	tuneGC(func(string) string { return "" }, indexingGrowth)
	wait("lower with an index as large", func(p int) bool { return p == indexGrowth })
	runtime.KeepAlive(large)
	wait("high while the collector runs all the time", func(p int) bool { return p > usualGrowth })
	tuneGC(func(string) string { return "" }, passingGrowth)
	wait("high again", func(p int) bool { return p > usualGrowth })
}

func TestTuneGCLeavesGOGC(t *testing.T) {
	before := debug.SetGCPercent(77)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for range 100 { // what the test above has begun may set it at any time, too
		debug.SetGCPercent(77)
		tuneGC(func(string) string { return "77" }, passingGrowth)
		if debug.SetGCPercent(77) == 77 {
			return
		}
	}
	t.Error("GOGC is overridden")
}
