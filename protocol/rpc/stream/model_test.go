package stream

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// plan is what one stream of a run does.
type plan struct {
	params askParams
	give   bool          // from the client to the server
	read   int           // how many items are read before it is given up; -1 for all
	pause  time.Duration // after each
}

// Whatever streams of both directions do beside each other, each gives its items in order
// and each once, to its end or until it is given up; sources are closed, once, and nothing
// is left.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		plans := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) plan {
			window := rapid.Int64Range(1, 100_000).Draw(rt, "window")
			p := plan{
				params: askParams{
					Count: rapid.IntRange(0, 200).Draw(rt, "count"), Size: rapid.SampledFrom([]int{0, 10, 5000, 300_000}).Draw(rt, "size"),
					Window: &window, Eager: rapid.Bool().Draw(rt, "eager"),
				},
				give: rapid.Bool().Draw(rt, "give"), read: -1,
				pause: time.Duration(rapid.SampledFrom([]int{0, 0, 1, 1000}).Draw(rt, "pause")) * time.Millisecond,
			}
			if p.params.Size == 300_000 {
				p.params.Count %= 6
			}
			if rapid.IntRange(0, 3).Draw(rt, "gives up") == 0 {
				p.read = rapid.IntRange(0, p.params.Count).Draw(rt, "read")
			}
			return p
		}), 1, 8).Draw(rt, "plans")
		if err := runPlans(t, plans); err != nil {
			rt.Fatal(err)
		}
	})
}

// runPlans runs plans in a bubble, out of which failures are carried as errors.
func runPlans(t *testing.T, plans []plan) error {
	var mu sync.Mutex
	var failures []error
	synctest.Test(t, func(t *testing.T) {
		c, e := both(t)
		var wg sync.WaitGroup
		asked := 0
		for i, p := range plans {
			if !p.give {
				asked++
			}
			wg.Go(func() {
				run := c.runAsk
				if p.give {
					run = c.runGive
				}
				if err := run(t, &p); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failures = append(failures, fmt.Errorf("stream %d: %w", i, err))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if n := len(e.service.closed); n != asked {
			failures = append(failures, fmt.Errorf("%d sources were closed of %d", n, asked))
		}
		if n := len(c.set.in) + len(c.set.out) + len(e.service.set.in) + len(e.service.set.out); n != 0 {
			failures = append(failures, fmt.Errorf("%d streams are left", n))
		}
	})
	return errors.Join(failures...)
}

func (c *caller) runAsk(t *testing.T, p *plan) error {
	o := &opened{set: c.set, window: *p.params.Window}
	if err := c.peer.Call(t.Context(), "ask", &p.params, o); err != nil {
		return err
	}
	in := o.in
	defer in.Close(nil)
	for i := 0; i != p.read; i++ {
		raw, err := in.Next(t.Context())
		if errors.Is(err, io.EOF) && i == p.params.Count {
			return nil
		}
		if err != nil {
			return fmt.Errorf("item %d: %w", i, err)
		}
		time.Sleep(p.pause) // it is valid for that long
		if want := fmt.Sprintf(`{"n":%d,"text":"%s"}`, i+1, strings.Repeat("x", p.params.Size)); string(raw) != want {
			return fmt.Errorf("item %d is %.40s", i, raw)
		}
	}
	return nil
}

func (c *caller) runGive(t *testing.T, p *plan) error {
	src := numbers(p.params.Count, p.params.Size, io.EOF)
	src.Eager = p.params.Eager
	closed := 0
	src.Close = func(error) { closed++ }
	sum, err := c.give(t.Context(), src)
	if want := p.params.Count * (p.params.Count + 1) / 2; err != nil || sum != want {
		return fmt.Errorf("the sum is %d, %w; want %d", sum, err, want)
	}
	if closed != 1 {
		return fmt.Errorf("the source was closed %d times", closed)
	}
	return nil
}
