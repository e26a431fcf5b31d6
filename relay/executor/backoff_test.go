package executor

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	b := backoff{rand: rand.New(rand.NewPCG(1, 1))}
	for round := range 500 {
		for i, base := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			base *= time.Second
			if d := b.next(); d < base/2 || d > base {
				t.Fatalf("round %d, wait %d: %v, want %v to %v", round, i, d, base/2, base)
			}
			b.lasted(BackoffCleared - 1)
		}
		b.lasted(BackoffCleared)
	}
}
