package shell

import (
	"testing"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// A log has what is to be kept, and at most one part more.
func TestExtent(t *testing.T) {
	for _, size := range []int{1, 7, 100, 999, 64 << 10} {
		x := extent{most: 16_000}
		first, total, kept := uint64(1), int64(0), map[uint64]int64{}
		for seq := uint64(1); total < 1<<20 && seq < 40_000; seq++ {
			x.add([]eventlog.Event{{Seq: seq, Kind: eventlog.KindOutput, Data: make([]byte, size)}})
			kept[seq], total = int64(size), total+int64(size)
			if cut := x.trim(); cut > 0 {
				for ; first < cut; first++ {
					delete(kept, first)
				}
			}
			sum := int64(0)
			if seq%97 == 0 || size > 1000 {
				for _, n := range kept {
					sum += n
				}
				if sum != x.bytes {
					t.Fatalf("%d bytes are counted, %d are kept", x.bytes, sum)
				}
			}
			if total > x.most && x.bytes < x.most {
				t.Fatalf("%d bytes are kept of %d", x.bytes, total)
			}
			if x.bytes > x.most+x.most/logParts+2*int64(size) {
				t.Fatalf("%d bytes are kept", x.bytes)
			}
		}
	}
}

// Many events of nothing are bounded, too.
func TestExtentOfEvents(t *testing.T) {
	x := extent{most: 1 << 30}
	batch := make([]eventlog.Event, 1000)
	for seq := uint64(0); seq < 3*maxLogEvents; {
		for i := range batch {
			seq++
			batch[i].Seq = seq
		}
		x.add(batch)
		x.trim()
		if x.events > maxLogEvents+maxLogEvents/logParts+len(batch) {
			t.Fatalf("%d events are kept", x.events)
		}
	}
	if !x.over() || x.events < maxLogEvents {
		t.Errorf("%d events are kept", x.events)
	}
}
