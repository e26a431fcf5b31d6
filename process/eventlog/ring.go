package eventlog

import "sort"

// A ring is the newest chunks of output within a Retention. It releases those that it
// evicts. It is guarded by its owner.
type ring struct {
	limit  Retention
	chunks []Event // chunks[head:] are kept
	head   int
	bytes  int
}

func (r *ring) add(e Event) {
	r.chunks = append(r.chunks, e)
	r.bytes += len(e.Data)
	for r.bytes > r.limit.Bytes || len(r.chunks)-r.head > r.limit.Chunks {
		r.bytes -= len(r.chunks[r.head].Data)
		r.chunks[r.head].Release()
		r.chunks[r.head] = Event{}
		r.head++
	}
	// Moving them only when half of the slice is free makes the cost of a move per
	// chunk constant.
	if r.head > 32 && 2*r.head > len(r.chunks) {
		kept := copy(r.chunks, r.chunks[r.head:])
		clear(r.chunks[kept:])
		r.chunks, r.head = r.chunks[:kept], 0
	}
}

// after returns what is kept with numbers above seq, oldest first. It is valid until the
// next add or drop.
func (r *ring) after(seq uint64) []Event {
	kept := r.chunks[r.head:]
	return kept[sort.Search(len(kept), func(i int) bool { return kept[i].Seq > seq }):]
}

func (r *ring) drop() {
	for i := range r.chunks {
		r.chunks[i].Release()
	}
	r.chunks, r.head, r.bytes = nil, 0, 0
}
