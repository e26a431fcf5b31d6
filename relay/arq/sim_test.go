package arq

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("arq.seed", 0, "simulate this seed alone, and print its trace")
	seedsFlag = flag.Int("arq.seeds", 0, "how many seeds to simulate (10,000, fewer with -short and -race)")
)

// A plan is all that a seed decides before time begins.
type plan struct {
	seed  uint64
	class string
	trouble
	config   Config
	messages [2][][]byte
	writes   [2][]time.Duration // when, one for each message
	consumer time.Duration      // a message is taken so much later at most
	notice   time.Duration      // the loss of a socket is noticed so late at most
	absence  time.Duration      // a new socket comes so late at most
	mayFail  bool
}

func (p *plan) reliable() bool { return p.config.Profile == Reliable }

// classes of trouble. Each is for one claim; the last has everything in it.
var classes = []struct {
	name string
	plan func(p *plan, r *rand.Rand)
}{
	{"healthy", func(p *plan, r *rand.Rand) {}},
	{"mild", func(p *plan, r *rand.Rand) {
		p.loss, p.duplicate, p.jitter = r.Float64()*0.05, r.Float64()*0.05, upTo(r, 50*time.Millisecond)
	}},
	// Up to 40 percent, both ways, and delays of up to 5 s: 60 s without progress are
	// then nothing strange, so nobody gives up here.
	{"lossy", func(p *plan, r *rand.Rand) {
		p.loss, p.duplicate, p.spike = r.Float64()*0.4, r.Float64()*0.2, r.Float64()*0.1
		p.delay, p.jitter = upTo(r, time.Second), upTo(r, time.Second)
		p.config.GiveUp = 24 * time.Hour
	}},
	// Hundreds of frames on their way overtake each other.
	{"reordered", func(p *plan, r *rand.Rand) {
		p.jitter, p.duplicate, p.loss = upTo(r, 2*time.Second), r.Float64()*0.3, r.Float64()*0.02
		p.config.limits.segments, p.config.limits.bytes = MaxSegments, MaxBytes
	}},
	{"cuts", func(p *plan, r *rand.Rand) {
		p.cuts, p.cutEvery = 1+r.IntN(6), 1+r.IntN(80)
		p.jitter = upTo(r, 100*time.Millisecond)
	}},
	{"restarts", func(p *plan, r *rand.Rand) {
		p.cuts, p.cutEvery = 1+r.IntN(6), 1+r.IntN(80)
		p.absence, p.notice = time.Minute>>r.IntN(16), time.Minute>>r.IntN(16)
		p.loss, p.duplicate, p.jitter = r.Float64()*0.1, r.Float64()*0.1, upTo(r, 2*time.Second)
		p.config.GiveUp = time.Hour
	}},
	{"slow", func(p *plan, r *rand.Rand) {
		p.consumer = upTo(r, 3*time.Second)
		p.loss, p.jitter = r.Float64()*0.1, upTo(r, 100*time.Millisecond)
		p.config.limits.segments = 4 + r.IntN(30)
	}},
	{"narrow", func(p *plan, r *rand.Rand) {
		p.pace, p.jitter = time.Duration(1+r.IntN(20))*time.Millisecond, upTo(r, 200*time.Millisecond)
		p.loss = r.Float64() * 0.1
	}},
	{"corrupt", func(p *plan, r *rand.Rand) {
		p.corrupt, p.loss, p.jitter = r.Float64()*0.1, r.Float64()*0.1, upTo(r, 100*time.Millisecond)
		p.config.GiveUp = time.Hour
	}},
	{"forged", func(p *plan, r *rand.Rand) {
		p.forge, p.forgeries = harmless, 1+r.IntN(20)
		p.loss, p.jitter, p.cuts, p.cutEvery = r.Float64()*0.05, upTo(r, 100*time.Millisecond), r.IntN(2), 100
		p.config.GiveUp = time.Hour
	}},
	{"hostile", func(p *plan, r *rand.Rand) {
		p.forge, p.forgeries, p.mayFail = harmless|forgeAck|forgeEpoch|forgeReset, 1+r.IntN(4), true
		p.loss, p.corrupt, p.jitter, p.cuts, p.cutEvery = r.Float64()*0.1, r.Float64()*0.1, upTo(r, 100*time.Millisecond), r.IntN(3), 100
	}},
	{"throwaway", func(p *plan, r *rand.Rand) { // acks forged to throw data away, and nothing else
		p.forge, p.forgeries, p.mayFail = forgeAck, 1+r.IntN(8), true
		p.loss, p.jitter = r.Float64()*0.3, upTo(r, 100*time.Millisecond)
	}},
	// The codex profile trusts its socket: copies and a limited disorder, no loss.
	{"codex", func(p *plan, r *rand.Rand) {
		p.config.Profile = Codex
		p.pace, p.jitter, p.duplicate = time.Millisecond, upTo(r, 20*time.Millisecond), r.Float64()*0.2
	}},
	{"end of numbers", func(p *plan, r *rand.Rand) {
		p.config.limits.first, p.mayFail = maxSeq-uint64(r.IntN(100)), true
		p.loss = r.Float64() * 0.1
	}},
	{"everything", func(p *plan, r *rand.Rand) {
		p.loss, p.duplicate, p.corrupt, p.spike = r.Float64()*0.4, r.Float64()*0.2, r.Float64()*0.05, r.Float64()*0.1
		p.delay, p.jitter = upTo(r, 300*time.Millisecond), upTo(r, 2*time.Second)
		p.cuts, p.cutEvery = r.IntN(5), 1+r.IntN(200)
		p.forge, p.forgeries = harmless, r.IntN(10)
		p.consumer, p.pace = upTo(r, time.Second), upTo(r, 5*time.Millisecond)
		p.config.GiveUp, p.config.Life = 24*time.Hour, 24*time.Hour
	}},
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }

func planFor(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 1))
	class := classes[seed%uint64(len(classes))]
	p := &plan{seed: seed, class: class.name, notice: 40 * time.Second, absence: 20 * time.Second}
	p.delay = upTo(r, 100*time.Millisecond)
	l := &p.config.limits
	l.piece = 5 + r.IntN(48)
	l.segments = 1 << (2 + r.IntN(7))
	l.bytes = (l.piece + tagSize) * (1 + r.IntN(2*l.segments))
	l.message, l.pieces = 512*l.piece, 512
	class.plan(p, r)
	l.bytes = max(l.bytes, l.piece+tagSize)
	most := 12 << r.IntN(3)
	for i := range p.messages {
		var at time.Duration
		for range r.IntN(most) {
			if r.IntN(4) == 0 {
				at += upTo(r, []time.Duration{time.Second, 10 * time.Second, time.Minute}[r.IntN(3)])
			}
			size := 1 + r.IntN(l.piece)
			switch r.IntN(16) {
			case 0:
				size = 1 + r.IntN(100*l.piece)
			case 1, 2, 3:
				size = 1 + r.IntN(8*l.piece)
			}
			p.messages[i] = append(p.messages[i], text(r, size))
			p.writes[i] = append(p.writes[i], at)
		}
	}
	return p
}

// text is a message unlike any other.
func text(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	x := r.Uint64()
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

// simulate plays a seed. Its error says what went wrong.
func simulate(p *plan, trace func(string, ...any)) (*world, error) {
	return simulateFrom(p, trace, func(*world) {})
}

func simulateFrom(p *plan, trace func(string, ...any), prepare func(*world)) (*world, error) {
	w := newWorld(p)
	prepare(w)
	if trace != nil {
		w.trace = func(format string, args ...any) {
			trace("%12.6f %s", w.now.Seconds(), fmt.Sprintf(format, args...))
		}
	}
	const longest, most = 48 * time.Hour, 2_000_000
	for {
		switch {
		case w.done():
			return w, w.idle()
		case w.over():
			return w, w.loud()
		case len(w.agenda) == 0:
			return w, w.stuck("nothing is going to happen")
		case w.agenda[0].at > longest:
			return w, w.stuck("no end after 48 h")
		case w.steps > most:
			return w, w.stuck("no end after 2,000,000 steps")
		}
		if err := w.step(); err != nil {
			return w, err
		}
	}
}

func (w *world) stuck(why string) error {
	return fmt.Errorf("%s: received %d and %d of %d and %d messages; %v %v; %v %v", why,
		w.ends[0].received, w.ends[1].received, len(w.messages[1]), len(w.messages[0]),
		w.ends[0].stream.phase, w.ends[0].stream.Cursors(), w.ends[1].stream.phase, w.ends[1].stream.Cursors())
}

// done: all was received, and each end knows.
func (w *world) done() bool {
	for i, e := range w.ends {
		if e.stream.Err() != nil || e.received < len(w.messages[1-i]) || !e.finished || !e.stream.Flushed() {
			return false
		}
	}
	return true
}

// over: both ends know that the stream failed.
func (w *world) over() bool {
	return w.ends[0].stream.Err() != nil && w.ends[1].stream.Err() != nil
}

// loud checks how the stream failed. What was received before was checked as it was taken.
func (w *world) loud() error {
	if !w.mayFail {
		return fmt.Errorf("failed: %w", errors.Join(w.ends[0].stream.Err(), w.ends[1].stream.Err()))
	}
	for _, e := range w.ends {
		for e.stream.Waiting() > 0 {
			if err := w.take(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle lets the network calm down and then sees that the streams send heartbeats and
// nothing else, and that those keep them alive.
func (w *world) idle() error {
	w.calm, w.forgeries = true, 0
	settled := w.now + 3*time.Minute
	if w.mayFail {
		// What was forged may still take effect; the longest is a life without contact.
		settled += 30 * time.Minute
	}
	end := settled + 5*time.Minute
	var before [2]Stats
	for len(w.agenda) > 0 && w.agenda[0].at <= end && !w.over() {
		if !w.watch && w.agenda[0].at > settled {
			w.watch = true
			before = [2]Stats{w.ends[0].stream.Stats(), w.ends[1].stream.Stats()}
		}
		if err := w.step(); err != nil {
			return fmt.Errorf("idle: %w", err)
		}
	}
	if w.over() {
		return w.loud()
	}
	for i, e := range w.ends {
		if !w.reliable() {
			if !e.stream.Deadline().IsZero() {
				return fmt.Errorf("end %d of the codex profile wants to be called", i)
			}
			continue
		}
		if e.stream.phase != open {
			return fmt.Errorf("end %d is %v after idling: %w", i, e.stream.phase, e.stream.Err())
		}
		if after := e.stream.Stats(); before[i].SentData != after.SentData || before[i].SentAcks != after.SentAcks {
			return fmt.Errorf("end %d was not idle: %+v, then %+v", i, before[i], after)
		}
	}
	return nil
}

// TestSimulation plays pairs of streams over a bad network, from a seed each: each message
// arrives once, in order, whole; or, where somebody forges what can do harm, both ends
// fail and say so. Bounds are checked at every step, and that who has nothing to say is
// quiet.
func TestSimulation(t *testing.T) {
	if *seedFlag != 0 {
		if err := traced(t, *seedFlag, 1<<20); err != nil {
			t.Fatal(err)
		}
		return
	}
	seeds := 10_000
	switch {
	case *seedsFlag > 0:
		seeds = *seedsFlag
	case raceEnabled:
		seeds = 600
	case testing.Short():
		seeds = 1_500
	}
	var next atomic.Uint64
	var mu sync.Mutex
	seen := map[string]*tally{}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for !t.Failed() {
				seed := next.Add(1)
				if seed > uint64(seeds) {
					return
				}
				w, err := simulate(planFor(seed), nil)
				mu.Lock()
				if err != nil && !t.Failed() {
					t.Errorf("seed %d: %v\nagain with: go test ./relay/arq -run TestSimulation -arq.seed=%d", seed, err, seed)
					traced(t, seed, 300)
				}
				if seen[w.class] == nil {
					seen[w.class] = &tally{}
				}
				seen[w.class].add(w)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if !t.Failed() {
		report(t, seen)
	}
}

// traced plays a seed again and logs the end of its trace.
func traced(t *testing.T, seed uint64, lines int) error {
	var all []string
	p := planFor(seed)
	_, err := simulate(p, func(format string, args ...any) {
		all = append(all, fmt.Sprintf(format, args...))
		if len(all) > 2*lines {
			all = append(all[:0], all[lines:]...)
		}
	})
	t.Logf("seed %d, %s: %+v %+v\n%s\n%v", seed, p.class, p.trouble, p.config.limits, strings.Join(all[max(0, len(all)-lines):], "\n"), err)
	return err
}

// A tally counts what happened in a class of seeds, to know that it did.
type tally struct {
	seeds, failed, steps int
	stats                Stats
	epochs, overtaken    int
}

func (c *tally) add(w *world) {
	c.seeds++
	c.steps += w.steps
	c.overtaken = max(c.overtaken, w.overtaken)
	if w.over() {
		c.failed++
	}
	for _, e := range w.ends {
		s := e.stream.Stats()
		c.stats.SentData += s.SentData
		c.stats.SentAcks += s.SentAcks
		c.stats.Resent += s.Resent
		c.stats.Timeouts += s.Timeouts
		c.stats.Fast += s.Fast
		c.stats.Duplicates += s.Duplicates
		c.stats.Beyond += s.Beyond
		c.stats.Unopened += s.Unopened
		c.stats.Malformed += s.Malformed
		c.stats.AckBack += s.AckBack
		c.stats.AckBeyond += s.AckBeyond
		c.stats.WindowBeyond += s.WindowBeyond
		c.stats.OldEpoch += s.OldEpoch
		c.epochs += int(e.stream.Epoch())
	}
}

// report logs the tallies and sees that each class met the trouble it is there for.
func report(t *testing.T, seen map[string]*tally) {
	t.Helper()
	for _, class := range classes {
		c := seen[class.name]
		if c == nil {
			continue
		}
		t.Logf("%-14s %5d seeds, %4d failed loudly, %8d steps, %5d sockets, overtaken by %d; %+v", class.name, c.seeds, c.failed, c.steps, c.epochs, c.overtaken, c.stats)
		met := map[string]bool{
			"lossy":          c.stats.Timeouts > 0 && c.stats.Fast > 0 && c.stats.Duplicates > 0,
			"reordered":      c.overtaken > 64,
			"cuts":           c.epochs > 0 && c.stats.Resent > 0,
			"restarts":       c.epochs > 0 && c.stats.OldEpoch > 0,
			"corrupt":        c.stats.Unopened > 0 && c.stats.Malformed > 0,
			"forged":         c.stats.WindowBeyond > 0 && c.stats.AckBeyond > 0 && c.stats.Unopened > 0,
			"hostile":        c.failed > 0 && c.failed < c.seeds,
			"throwaway":      c.failed > 0,
			"codex":          c.stats.Duplicates > 0,
			"end of numbers": c.failed > 0,
		}
		if ok, asked := met[class.name]; asked && !ok {
			t.Errorf("class %s did not meet its trouble", class.name)
		}
		if class.name == "healthy" && c.stats.Resent > 0 {
			t.Errorf("healthy streams sent %d segments again", c.stats.Resent)
		}
	}
}
