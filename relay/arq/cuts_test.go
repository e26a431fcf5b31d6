package arq

import (
	"fmt"
	"testing"
	"time"
)

// TestSocketLostAtEveryFrame loses a socket at each frame in turn that an end sends or
// receives: of the harness, of the executor, of both.
func TestSocketLostAtEveryFrame(t *testing.T) {
	script := func() *plan {
		p := planFor(1)
		p.trouble = trouble{delay: 20 * time.Millisecond, jitter: time.Millisecond}
		p.config.limits = limits{piece: 20, segments: 8, bytes: 300, message: 10_000, pieces: 500}
		p.notice, p.absence = 2*time.Second, 2*time.Second
		for i := range p.messages {
			p.messages[i], p.writes[i] = nil, nil
			for n, size := range []int{1, 20, 21, 100, 250, 3} {
				p.messages[i] = append(p.messages[i], fmt.Appendf(nil, "%d%d%0*d", i, n, size, n))
				p.writes[i] = append(p.writes[i], time.Duration(n)*30*time.Millisecond)
			}
		}
		return p
	}
	for _, c := range []struct {
		name string
		end  int
		both bool
	}{{"harness", 0, false}, {"executor", 1, false}, {"both", 0, true}, {"both, executor first", 1, true}} {
		t.Run(c.name, func(t *testing.T) {
			for at := 1; ; at++ {
				for try := range uint64(3) { // other delays
					p := script()
					p.seed = uint64(at)<<8 | try
					p.cuts, p.cutEvery, p.cutBoth, p.cutAlone = 1, 1, c.both, !c.both
					w, err := simulateFrom(p, nil, func(w *world) {
						w.ends[1-c.end].fuse, w.ends[c.end].fuse = -1, at
					})
					if err != nil {
						simulateFrom(p, t.Logf, func(w *world) { w.ends[1-c.end].fuse, w.ends[c.end].fuse = -1, at })
						t.Fatalf("cut at frame %d, try %d: %v", at, try, err)
					}

					if w.cuts == 1 { // more frames than there were
						if at < 40 {
							t.Fatalf("only %d frames passed", at)
						}
						return
					}
				}
			}
		})
	}
}
