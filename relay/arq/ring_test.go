package arq

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRing compares a ring with a map.
func TestRing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.SampledFrom([]uint64{0, 5, 1<<32 - 10}).Draw(rt, "base")
		var r ring[uint64]
		model := map[uint64]uint64{}
		first, end := base, base
		for i, up := range rapid.SliceOfN(rapid.IntRange(-20, 40), 0, 60).Draw(rt, "steps") {
			for ; up < 0 && first < end; up++ {
				delete(model, first)
				*r.at(first) = 0
				first++
			}
			if up > 0 {
				end += uint64(up)
				r.reserve(first, end-1)
				model[end-1], *r.at(end - 1) = uint64(i), uint64(i)
			}
			for seq := first; seq < end; seq++ {
				if *r.at(seq) != model[seq] {
					rt.Fatalf("step %d: %d is %d, want %d", i, seq, *r.at(seq), model[seq])
				}
			}
			if n := len(r.slots); n&(n-1) != 0 || n > 8 && uint64(n) > 64*40 {
				rt.Fatalf("%d slots", n)
			}
		}
	})
}
