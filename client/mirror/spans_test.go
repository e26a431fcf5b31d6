package mirror

import (
	"testing"

	"pgregory.net/rapid"
)

// Spans are what a plain set of numbers is.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s spans
		want := map[int64]bool{}
		for range rapid.IntRange(0, 12).Draw(rt, "n") {
			if rapid.IntRange(0, 3).Draw(rt, "what") == 0 {
				rev := rapid.Int64Range(0, 40).Draw(rt, "above")
				s = s.above(rev)
				for r := range want {
					if r <= rev {
						delete(want, r)
					}
				}
				continue
			}
			lo := rapid.Int64Range(0, 40).Draw(rt, "lo")
			hi := rapid.Int64Range(0, 40).Draw(rt, "hi")
			s = s.add(lo, hi)
			for r := lo + 1; r <= hi; r++ {
				want[r] = true
			}
		}
		for r := int64(0); r <= 41; r++ {
			if s.has(r) != want[r] {
				rt.Fatalf("%v has %d: %t", s, r, s.has(r))
			}
			for hi := r; hi <= 41; hi++ {
				all := true
				for x := r + 1; x <= hi; x++ {
					all = all && want[x]
				}
				if s.covers(r, hi) != all {
					rt.Fatalf("%v covers %d to %d: %t", s, r, hi, !all)
				}
			}
		}
		for i := 1; i < len(s); i++ {
			if s[i-1].Hi >= s[i].Lo {
				rt.Fatalf("%v is not apart", s)
			}
		}
	})
}

func TestSpansBounded(t *testing.T) {
	var s spans
	for i := range int64(2 * maxSpans) {
		s = s.add(3*i, 3*i+1)
	}
	if len(s) != maxSpans || !s.has(6*maxSpans-2) || s.has(1) {
		t.Errorf("%d spans, from %v to %v", len(s), s[0], s[len(s)-1])
	}
}
