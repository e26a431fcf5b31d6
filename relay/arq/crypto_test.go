package arq

import (
	"encoding/binary"
	"errors"
)

// A fakeCipher stands in for relay/seal: it authenticates a piece together with its
// place, insists on the order of the numbers, and encrypts nothing. It makes one copy of
// what it seals and none of what it opens.
type fakeCipher struct {
	sealed, opened uint64 // the number of the next record each way
	seals          int
}

var errForged = errors.New("does not authenticate")

func (c *fakeCipher) seal(d Data, prefix, piece []byte) ([]byte, error) {
	if uint64(d.Seq) != c.sealed || d.Payload != nil {
		return nil, errors.New("sealed out of order")
	}
	c.sealed++
	c.seals++
	record := make([]byte, tagSize, tagSize+len(prefix)+len(piece))
	record = append(append(record, prefix...), piece...)
	binary.LittleEndian.PutUint64(record, uint64(d.Seq)<<32|uint64(d.Index)<<16|uint64(d.Count))
	binary.LittleEndian.PutUint64(record[8:], checksum(record[:8], record[tagSize:]))
	return record, nil
}

func (c *fakeCipher) open(d Data) ([]byte, error) {
	if uint64(d.Seq) != c.opened {
		panic("opened out of order")
	}
	if len(d.Payload) < tagSize ||
		binary.LittleEndian.Uint64(d.Payload) != uint64(d.Seq)<<32|uint64(d.Index)<<16|uint64(d.Count) ||
		binary.LittleEndian.Uint64(d.Payload[8:]) != checksum(d.Payload[:8], d.Payload[tagSize:]) {
		return nil, errForged
	}
	c.opened++
	return d.Payload[tagSize:], nil
}

// checksum is FNV-1a, eight bytes at a time.
func checksum(parts ...[]byte) uint64 {
	h := uint64(14695981039346656037)
	for _, p := range parts {
		for ; len(p) >= 8; p = p[8:] {
			h = (h ^ binary.LittleEndian.Uint64(p)) * 1099511628211
		}
		for _, b := range p {
			h = (h ^ uint64(b)) * 1099511628211
		}
		h ^= h >> 29
	}
	return h
}

// config is one with a cipher of its own, and small limits.
func config(c *fakeCipher) Config {
	return Config{Seal: c.seal, Open: c.open}
}
