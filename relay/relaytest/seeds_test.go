package relaytest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/simnet"
)

// defaultSeeds is for CI; the race detector runs a twentieth of them.
const defaultSeeds = 200

var (
	seedCount = flag.Int("relay.seeds", defaultSeeds, "how many seeds the tests with seeds run")
	oneSeed   = flag.Uint64("relay.seed", 0, "run this seed only")
)

// seeds runs f for each seed; by default for a part of defaultSeeds only.
func seeds(t *testing.T, part int, f func(t *testing.T, seed uint64)) {
	// On one processor goroutines that one instant wakes run in the same order each time.
	if !raceEnabled {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	first, count := uint64(1), *seedCount
	if *oneSeed != 0 {
		first, count = *oneSeed, 1
	}
	if count == defaultSeeds {
		if count /= part; raceEnabled {
			count /= 20
		}
	}
	for seed := first; seed < first+uint64(count) && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, seed) })
		})
	}
}

// Frames are lost, repeated, altered and late on every socket, and sockets are cut, all
// by chance: what two harnesses say to an executor over the reliable profile arrives
// once, in order, whole, in both directions.
func TestFrameSeeds(t *testing.T) {
	seeds(t, 1, testFrameSeed)
}

func testFrameSeed(t *testing.T, seed uint64) { runFrameSeed(t, seed) }

// runFrameSeed returns the trace.
func runFrameSeed(t *testing.T, seed uint64) *simnet.Trace {
	r := rand.New(rand.NewPCG(seed, 1))
	m := newMiddle(t, seed)
	var stormy atomic.Bool // not while a stream is opened, which has one try
	faults := func() simnet.Filter {
		f := simnet.Faults{
			Drop: r.Float64() * 0.2, Duplicate: r.Float64() * 0.2, Late: r.Float64() * 0.3,
			Delay: time.Duration(r.Int64N(int64(3 * time.Second))),
		}
		storm := simnet.Chain(f.Filter(r.Uint64()), every(4+r.IntN(20), flip(rand.New(rand.NewPCG(seed, r.Uint64())))))
		return func(msg []byte) []simnet.Delivery {
			if !stormy.Load() {
				return simnet.Pass(msg)
			}
			return storm(msg)
		}
	}
	m.execForth, m.execBack = faults(), faults()
	stop := m.runExecutor()
	defer stop()
	one := m.connect(m.harness("one", frame.Reliable, faults(), faults()))
	defer one.conn.Close()
	two := m.connect(m.harness("two", frame.Reliable, faults(), faults()))
	defer two.conn.Close()
	stormy.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	var both, cuts sync.WaitGroup
	for i, c := range []*conversation{one, two} {
		c.most = []int{2000, 130_000}[i]
		both.Go(func() {
			if err := c.exchange(ctx, 15); err != nil {
				t.Errorf("seed %d, harness %d: %v", seed, i, err)
			}
		})
	}
	calm := make(chan struct{})
	cuts.Go(func() {
		for range r.IntN(5) {
			timer := time.NewTimer(time.Duration(r.Int64N(int64(4 * time.Second))))
			select {
			case <-calm:
				return
			case <-timer.C:
			}
			m.cut([]string{"executor", "one", "two"}[r.IntN(3)])
		}
	})
	both.Wait()
	close(calm)
	cuts.Wait()
	stormy.Store(false)
	return m.trace
}

// A seed that failed must fail again: the frames of a run are the same, in the same
// order, in the next. Only the kernel can upset that, by taking the processor away for
// so long that the runtime changes goroutines; not every time.
func TestSeedsRepeat(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector runs goroutines in random order")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	random := regexp.MustCompile(`"[0-9a-f]{8}"|stream.*|\bpeer.*`) // names and keys
	seen := map[string]bool{}
	for range 5 {
		var trace string
		synctest.Test(t, func(t *testing.T) { trace = runFrameSeed(t, 5).String() })
		trace = random.ReplaceAllString(trace, "")
		if seen[trace] {
			return
		}
		seen[trace] = true
	}
	t.Error("five runs, five traces")
}

// Sockets are cut at any byte, blocked in a direction, refused, hosts vanish and the
// relay is restarted, by chance. What harnesses and executor say to each other over the
// reliable profile arrives once, in order, whole; over the codex profile up to where
// its stream ended.
func TestSeeds(t *testing.T) {
	seeds(t, 1, testSeed)
}

func testSeed(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	w := newWorld(t, seed)
	defer w.close()
	for _, name := range []string{"executor", "one", "two"} {
		w.network.Host(name).SetPath(simnet.Path{
			Latency: time.Duration(1 + r.Int64N(int64(100*time.Millisecond))), Jitter: time.Duration(r.Int64N(int64(20 * time.Millisecond))),
			Bandwidth: 200_000 << r.IntN(10),
		})
	}
	w.executor("executor", nil, w.echoes)
	settle()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	reliable := w.connect(w.harness("one", frame.Reliable))
	codex := w.connect(w.harness("two", frame.Codex))
	var both, trouble sync.WaitGroup
	reliable.most = 60_000
	var over atomic.Bool
	both.Go(func() {
		for last := false; !last; { // once more after the trouble
			last = over.Load()
			if err := reliable.exchange(ctx, 5); err != nil {
				t.Errorf("seed %d, reliable: %v", seed, err)
				return
			}
		}
	})
	both.Go(func() {
		codex.most = 20_000
		for !over.Load() {
			if err := codex.exchange(ctx, 5); err != nil {
				if isAltered(err) {
					t.Errorf("seed %d, codex: %v", seed, err)
				}
				return
			}
		}
	})
	trouble.Go(func() {
		for range 1 + r.IntN(4) {
			time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
			w.trouble(r, 6, 20*time.Second)
		}
		over.Store(true)
	})
	both.Wait()
	trouble.Wait()
}

// trouble makes one of the first kinds of fault happen, and mends after span at most
// what does not mend itself.
func (w *world) trouble(r *rand.Rand, kinds int, most time.Duration) {
	host := w.network.Host([]string{"executor", "one", "two", "localhost"}[r.IntN(4)])
	links := host.Links()
	span := time.Duration(r.Int64N(int64(most)))
	kind := r.IntN(kinds)
	switch kind {
	case 0:
		w.trace.Note("cut all links of %s", host.Name())
		host.CutAll()
	case 1:
		if len(links) == 0 {
			return
		}
		l := links[r.IntN(len(links))]
		n := r.IntN(100_000)
		w.trace.Note("cut a link of %s after %d bytes", l.From().Name(), n)
		if r.IntN(2) == 0 {
			l.CutThere(n)
		} else {
			l.CutBack(n)
		}
	case 2:
		w.trace.Note("the relay refuses for %v, and cuts", span)
		w.relayHost.Refuse(true)
		w.relayHost.CutAll()
		time.Sleep(span)
		w.relayHost.Refuse(false)
	case 3:
		w.stopRelay()
		time.Sleep(span)
		w.startRelay()
	case 4:
		w.trace.Note("%s vanishes for %v", host.Name(), span)
		host.Vanish(true)
		time.Sleep(span)
		host.Vanish(false)
	case 5:
		if len(links) == 0 {
			return
		}
		l := links[r.IntN(len(links))]
		there := r.IntN(2) == 0
		w.trace.Note("block a link of %s for good, there=%v", l.From().Name(), there)
		if there {
			l.BlockThere(true)
		} else {
			l.BlockBack(true)
		}
	}
}

// Whole sessions over either profile, a client with a process that prints all the
// while, and trouble that passes: all of the output is read, once, in order.
func TestSessionSeeds(t *testing.T) {
	seeds(t, 4, testSessionSeed)
}

func testSessionSeed(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	w := newWorld(t, seed)
	defer w.close()
	for _, name := range []string{"executor", "one", "two"} {
		w.network.Host(name).SetPath(simnet.Path{
			Latency: time.Duration(1 + r.Int64N(int64(50*time.Millisecond))), Jitter: time.Duration(r.Int64N(int64(10 * time.Millisecond))),
		})
	}
	w.serverExecutor()
	settle()
	var all sync.WaitGroup
	for name, profile := range map[string]frame.Profile{"one": frame.Reliable, "two": frame.Codex} {
		p := w.startCounter(w.client(w.harness(name, profile)), 200, 60*time.Millisecond)
		all.Go(func() {
			if err := readLines(t.Context(), p, 200); err != nil {
				t.Errorf("seed %d, %s: %v", seed, profile, err)
			}
		})
	}
	all.Go(func() {
		for range 1 + r.IntN(4) {
			time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
			w.trouble(r, 4, 4*time.Second)
		}
	})
	all.Wait()
}
