package rpc

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/protocol/bufpool"
)

// A guard keeps the memory of the program near what the Budget counts: while much is in
// use the garbage collector has a limit, and what was in use goes back to the system.
type guard struct {
	budget  *Budget
	size    int64 // what the program may have for what the Budget counts, garbage included
	from    int64 // use from which the guard looks
	running atomic.Bool
}

const (
	// guardSlack is what the program may have beyond size and what it had before.
	guardSlack = 8 << 20
	// guardInterval is how often the guard looks while something is in use.
	guardInterval = 500 * time.Millisecond
	// guardQuiet is for how many looks little must be in use before memory goes back.
	guardQuiet = 4
)

// Guard has the garbage collector keep what the Budget counts, with the garbage of it, within
// size bytes. It is for the one Budget of a program, before that is used.
func (b *Budget) Guard(size int64) {
	b.guard = &guard{budget: b, size: size, from: min(b.size/8, 32<<20)}
}

// wake has the guard look, if it does not yet.
func (g *guard) wake() {
	if g.running.CompareAndSwap(false, true) {
		go g.run() // ends soon after little is in use
	}
}

func (g *guard) run() {
	before := debug.SetMemoryLimit(-1)
	if limit := g.other() + g.size + guardSlack; limit < before {
		debug.SetMemoryLimit(limit)
	}
	tick := time.NewTicker(guardInterval)
	defer tick.Stop()
	for quiet := 0; quiet < guardQuiet; {
		<-tick.C
		if quiet++; g.budget.Used() >= g.from {
			quiet = 0
		}
	}
	bufpool.Clear()
	debug.FreeOSMemory() // pools give up their memory at the second collection
	debug.FreeOSMemory()
	debug.SetMemoryLimit(before)
	g.running.Store(false)
	if g.budget.Used() >= g.from {
		g.wake()
	}
}

// other is about the memory that the program needs besides what the Budget counts, without
// the garbage that there happens to be.
func (g *guard) other() int64 {
	sample := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(sample)
	var n [6]int64
	for i := range sample {
		n[i] = int64(min(sample[i].Value.Uint64(), math.MaxInt64))
	}
	all := n[0] - n[1] - n[2]
	return max(0, min(all-g.budget.Used(), all-n[3]-n[4]+n[5]))
}
