package bufpool

import "testing"

func TestSizes(t *testing.T) {
	for n := range LeastSize + 1 {
		if got := Size(n); got != LeastSize {
			t.Fatalf("%d bytes: %d", n, got)
		}
	}
	for n := LeastSize + 1; n < 600<<20; n += n / 37 {
		size := Size(n)
		if size < n || size > n+n/4 {
			t.Fatalf("%d bytes: %d", n, size)
		}
		if Size(size) != size {
			t.Fatalf("%d is rounded up to %d", size, Size(size))
		}
	}
	for _, size := range []int{0, 1, LeastSize, 3 << 19, 24 << 20, 24<<20 + 1} {
		if b := Take(size); len(b) != 0 || cap(b) != size {
			t.Errorf("want %d, got %d of %d bytes", size, len(b), cap(b))
		}
	}
	Keep(nil)
	Keep(make([]byte, LeastSize+1)) // no size that is asked for
	if b := Take(Size(LeastSize + 1)); cap(b) != LeastSize/4*5 {
		t.Errorf("got %d bytes", cap(b))
	}
}

// Kept memory is used again by any goroutine, and freed once two runs of the garbage
// collector have not seen it used.
func TestShelf(t *testing.T) {
	var s shelf
	_, place := class(LeastSize)
	first, second := make([]byte, 0, LeastSize), make([]byte, 0, LeastSize)
	same := func(a, b []byte) bool { return cap(a) > 0 && cap(b) > 0 && &a[:1][0] == &b[:1][0] }
	s.keep(first, place)
	s.age()
	s.keep(second, place)
	if got := s.take(place); !same(got, second) {
		t.Error("the latest is not used first")
	}
	if got := s.take(place); !same(got, first) {
		t.Error("what one run has found is gone")
	}
	if s.take(place) != nil {
		t.Error("there is a third")
	}
	s.keep(first, place)
	s.age()
	s.age()
	if s.take(place) != nil || s.watching {
		t.Error("what two runs have found is kept")
	}
	s.keep(first, place)
	s.age()
	s.keep(second, place)
	if s.clear(); s.take(place) != nil {
		t.Error("something is left")
	}
}
