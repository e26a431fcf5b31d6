package watch

import (
	"slices"
	"testing"
	"time"
)

func newPending(limit int) *pending {
	return &pending{limit: limit, wake: make(chan struct{}, 1), kinds: make(map[string]Kind)}
}

func TestPendingCoalesces(t *testing.T) {
	p := newPending(10)
	for _, c := range []Change{
		{"a", Created}, {"b", Modified}, {"a", Modified}, {"b", Removed}, {"c", Removed}, {"c", Created}, {"d", Created}, {"d", Removed},
	} {
		p.add(c.Path, c.Kind)
	}
	if b, wait, err := p.take(3, p.since.Add(Window/2)); err != nil || len(b.Changes) > 0 || wait != Window/2 {
		t.Errorf("within the window: %v, wait %v, %v", b, wait, err)
	}
	b, _, err := p.take(3, p.since.Add(Window))
	want := []Change{{"a", Created}, {"b", Removed}, {"c", Created}}
	if err != nil || b.Overflow || !slices.Equal(b.Changes, want) {
		t.Errorf("got %v, %v; want %v", b, err, want)
	}
	if b, _, _ := p.take(3, p.since.Add(Window)); !slices.Equal(b.Changes, []Change{{"d", Removed}}) {
		t.Errorf("the rest: %v", b)
	}
	if b, wait, _ := p.take(3, time.Now()); len(b.Changes) > 0 || wait != 0 {
		t.Errorf("nothing left: %v, wait %v", b, wait)
	}
}

func TestPendingOverflow(t *testing.T) {
	p := newPending(2)
	for _, path := range []string{"a", "b", "c"} {
		p.add(path, Created)
	}
	b, _, _ := p.take(10, time.Now()) // at once: waiting makes nothing better
	if !b.Overflow || len(b.Changes) > 0 {
		t.Errorf("got %v", b)
	}
	p.add("d", Created)
	if b, _, _ := p.take(10, time.Now().Add(Window)); b.Overflow || len(b.Changes) != 1 {
		t.Errorf("after that: %v", b)
	}
}
