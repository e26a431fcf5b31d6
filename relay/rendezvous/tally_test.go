package rendezvous

import "testing"

func TestTally(t *testing.T) {
	var x tally
	for range 3 {
		if !x.add("a", 3) {
			t.Fatal("not let in")
		}
	}
	if x.add("a", 3) {
		t.Error("one too many")
	}
	if !x.add("b", 3) {
		t.Error("another token has to wait")
	}
	x.less("a")
	if !x.add("a", 3) || x.add("a", 3) {
		t.Error("what was taken back does not count")
	}

	// A list that was asked for when a had 3, b 1, and others made 2 for c elsewhere.
	before := x.now()
	x.less("a")
	x.less("a")
	x.add("b", 3)
	x.add("d", 3)
	x.recount(before, map[string]int{"a": 3, "b": 1, "c": 2})
	for token, want := range map[string]int{"a": 1, "b": 2, "c": 2, "d": 1} {
		if got := x.now()[token]; got != want {
			t.Errorf("%s has %d, want %d", token, got, want)
		}
	}
	x.less("c")
	x.less("c")
	x.less("c") // one that another node counted
	x.recount(x.now(), map[string]int{"a": 1})
	if len(x.now()) != 1 {
		t.Errorf("tokens that have nothing are kept: %v", x.now())
	}
}
