package tree

// maxAtHand bounds the bytes of the chunks that are at hand.
const maxAtHand = 16 << 20

// A hand has the bytes of chunks that were just read, until they are asked for.
type hand struct {
	bytes map[Hash][]byte
	size  int64
}

// Hand keeps a chunk that Check is known to let pass in memory, until it is asked for or Unhand
// is called. Its bytes must not be changed any more. Beyond a bound it is not kept.
func (f *Forest) Hand(d Data) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, is := f.hand.bytes[d.Hash]; is || f.hand.size+int64(len(d.Bytes)) > maxAtHand {
		return
	}
	if f.hand.bytes == nil {
		f.hand.bytes = map[Hash][]byte{}
	}
	f.hand.bytes[d.Hash] = d.Bytes
	f.hand.size += int64(len(d.Bytes))
}

// Unhand forgets what is at hand.
func (f *Forest) Unhand() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hand = hand{}
}

// fromHand appends the bytes of a chunk that is at hand, and reports whether it was.
func (f *Forest) fromHand(h Hash, dst []byte) ([]byte, bool) {
	f.mu.Lock()
	b, is := f.hand.bytes[h]
	if is { // most are asked for once
		delete(f.hand.bytes, h)
		delete(f.listed, h)
		f.hand.size -= int64(len(b))
	}
	f.mu.Unlock()
	if !is {
		return dst, false
	}
	if dst == nil {
		return b[:len(b):len(b)], true
	}
	return append(dst, b...), true
}
