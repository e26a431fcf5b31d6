package process

// newest is output of which the newest chunks within a Retention are kept. Chunks that it
// does not keep, or that are dropped, are given up. It is guarded by its owner.
type newest struct {
	limit  Retention
	chunks []Event // chunks[head:] are kept
	head   int
	bytes  int
}

func (n *newest) add(e Event) {
	n.chunks = append(n.chunks, e)
	n.bytes += len(e.Data)
	for n.bytes > n.limit.Bytes || len(n.chunks)-n.head > n.limit.Chunks {
		n.bytes -= len(n.chunks[n.head].Data)
		n.chunks[n.head].giveUp()
		n.chunks[n.head] = Event{}
		n.head++
	}
	// Moving them only when half of the slice is free makes the cost of a move per
	// chunk constant.
	if n.head > 32 && 2*n.head > len(n.chunks) {
		kept := copy(n.chunks, n.chunks[n.head:])
		clear(n.chunks[kept:])
		n.chunks, n.head = n.chunks[:kept], 0
	}
}

// list is what is kept, oldest first. It is valid until the next call.
func (n *newest) list() []Event { return n.chunks[n.head:] }

// take is list for who becomes the owner of the chunks.
func (n *newest) take() []Event {
	list := n.list()
	n.chunks, n.head, n.bytes = nil, 0, 0
	return list
}

func (n *newest) drop() {
	list := n.take()
	for i := range list {
		list[i].giveUp()
	}
}
