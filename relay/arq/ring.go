package arq

// A ring holds a value for each number of a range that moves up. It grows to the
// range, to a power of two; which numbers are in use its owner knows.
type ring[T any] struct {
	slots []T
}

// at is the place of a number within the range last reserved.
func (r *ring[T]) at(seq uint64) *T { return &r.slots[seq&uint64(len(r.slots)-1)] }

// reserve makes room for the numbers from first to last. Before, first was the lowest
// in use.
func (r *ring[T]) reserve(first, last uint64) {
	need := last - first + 1
	if need <= uint64(len(r.slots)) {
		return
	}
	size := uint64(max(8, len(r.slots)))
	for size < need {
		size *= 2
	}
	grown := ring[T]{make([]T, size)}
	for seq := first; seq < first+uint64(len(r.slots)); seq++ {
		*grown.at(seq) = *r.at(seq)
	}
	*r = grown
}
