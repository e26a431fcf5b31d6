package mirror

import (
	"cmp"
	"slices"
)

// A span is the revisions above Lo up to Hi.
type span struct {
	Lo int64 `json:"lo"`
	Hi int64 `json:"hi"`
}

// spans are sets of revisions, in order and apart from each other. They are values: no
// method changes what another one holds.
type spans []span

// add returns the set with the revisions above lo up to hi.
func (s spans) add(lo, hi int64) spans {
	if hi <= lo {
		return s
	}
	out := make(spans, 0, len(s)+1)
	for _, p := range s {
		if p.Hi < lo || p.Lo > hi {
			out = append(out, p)
			continue
		}
		lo, hi = min(lo, p.Lo), max(hi, p.Hi)
	}
	out = append(out, span{lo, hi})
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.Lo, b.Lo) })
	if extra := len(out) - maxSpans; extra > 0 {
		out = out[extra:]
	}
	return out
}

// above returns the set without revisions up to rev.
func (s spans) above(rev int64) spans {
	var out spans
	for _, p := range s {
		if p.Hi > rev {
			out = append(out, span{max(p.Lo, rev), p.Hi})
		}
	}
	return out
}

// find is the span that has a revision.
func (s spans) find(rev int64) (span, bool) {
	i, _ := slices.BinarySearchFunc(s, rev, func(p span, rev int64) int { return cmp.Compare(p.Hi, rev) })
	if i < len(s) && s[i].Lo < rev {
		return s[i], true
	}
	return span{}, false
}

func (s spans) has(rev int64) bool {
	_, ok := s.find(rev)
	return ok
}

// covers reports whether all revisions above lo up to hi are in the set.
func (s spans) covers(lo, hi int64) bool {
	if lo >= hi {
		return true
	}
	p, ok := s.find(hi)
	return ok && p.Lo <= lo
}
