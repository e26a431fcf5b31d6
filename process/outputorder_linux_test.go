package process_test

import (
	"math/rand/v2"
	"testing"
)

// printer prints two lines for each that it reads, one on each stream: o is to be the first
// on stdout, e the first on stderr.
const printer = `while read first; do
	case $first in
	o) echo o; echo e >&2;;
	e) echo e >&2; echo o;;
	esac
done`

// What is printed on both streams is told in the order in which it was printed, for as long
// as all that was printed before was read.
func TestF10NotificationsInOrder(t *testing.T) {
	t.Parallel()
	c := connect(t)
	c.start(pipeStdin(c.sh("p", printer)))
	want := ""
	for range 500 {
		text := []string{"o\ne\n", "e\no\n"}[rand.IntN(2)]
		want += text
		c.write("p", text[:2])
		r := c.await("p", "both lines", func(r *record) bool { return len(r.out) >= len(want) })
		if got := string(r.out); got != want {
			t.Fatalf("it ends with %q, want %q", got[len(got)-4:], text)
		}
	}
	c.terminate("p")
	c.finish("p")
}
