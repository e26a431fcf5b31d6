package simnet

import (
	"bytes"
	"math/rand/v2"
	"time"
)

// A Delivery is a frame on its way.
type Delivery struct {
	Frame []byte
	// After is how much later than usual it arrives. Frames overtake each other.
	After time.Duration
	// Note says in the trace what was done to it; "" for nothing.
	Note string
}

// A Filter is shown each frame of a direction, in order, and returns what arrives
// instead: nothing, the frame, or others. The frame is its to keep, not to change.
// It is called under a lock of the direction and must not wait.
type Filter func(frame []byte) []Delivery

// Pass lets every frame arrive.
func Pass(frame []byte) []Delivery { return []Delivery{{Frame: frame}} }

// Faults happen to frames by chance. Each number but those of time is the share of
// frames that it happens to.
type Faults struct {
	Drop, Duplicate, Corrupt, Truncate float64
	// Late frames arrive up to Delay later than others; for Delay 0, up to a second.
	Late  float64
	Delay time.Duration
}

// Filter returns a Filter whose chance comes from seed.
func (f Faults) Filter(seed uint64) Filter {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	return func(frame []byte) []Delivery {
		d := Delivery{Frame: frame}
		// Every number is drawn, so that one fault less does not change all that follows.
		drop, twice, corrupt, truncate, late := r.Float64(), r.Float64(), r.Float64(), r.Float64(), r.Float64()
		at, bit, after := r.IntN(max(len(frame), 1)), byte(1)<<r.IntN(8), f.delay(r)
		if drop < f.Drop {
			return []Delivery{{Note: "dropped"}}
		}
		if corrupt < f.Corrupt && len(frame) > 0 {
			d.Frame = bytes.Clone(d.Frame)
			d.Frame[at] ^= bit
			d.Note += " corrupt"
		}
		if truncate < f.Truncate {
			d.Frame = d.Frame[:at]
			d.Note += " truncated"
		}
		if late < f.Late {
			d.After = after
			d.Note += " late"
		}
		if twice < f.Duplicate {
			again := d
			again.After += after
			again.Note += " again"
			return []Delivery{d, again}
		}
		return []Delivery{d}
	}
}

func (f Faults) delay(r *rand.Rand) time.Duration {
	limit := f.Delay
	if limit == 0 {
		limit = time.Second
	}
	return time.Duration(r.Int64N(int64(limit) + 1))
}

// Chain has each filter see what the one before lets through; times add up.
func Chain(filters ...Filter) Filter {
	return func(frame []byte) []Delivery {
		all := []Delivery{{Frame: frame}}
		for _, filter := range filters {
			var next []Delivery
			for _, d := range all {
				if d.Frame == nil {
					next = append(next, d)
					continue
				}
				for _, e := range filter(d.Frame) {
					e.After += d.After
					e.Note = d.Note + e.Note
					next = append(next, e)
				}
			}
			all = next
		}
		return all
	}
}
