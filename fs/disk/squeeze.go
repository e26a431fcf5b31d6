package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Squeezed are the rows' stats one behind the other, each said by how it differs from the one before:
// in a directory most of it is the same.
type Squeezed struct{ last stat }

// What a stat in a Squeezed begins with says what follows.
const (
	asLast      = 1 << iota // kind, flags, mode and device are those of the last one
	mtimeLast               // so is the mtime
	ctimeLast               // the ctime is said from the last one's, not from the mtime
	noBirth                 // there is no btime
	notAStat                // bytes follow as they are, with their number
	nothingElse             // no such bit
)

// Append appends a row's stat.
func (q *Squeezed) Append(b, row []byte) []byte {
	s, err := decodeStat(row)
	if err != nil || !bytes.Equal(s.encode(), row) {
		b = binary.AppendUvarint(append(b, notAStat), uint64(len(row)))
		return append(b, row...)
	}
	l := &q.last
	var is byte
	if s.kind == l.kind && s.flags == l.flags && s.mode == l.mode && s.dev == l.dev {
		is |= asLast
	}
	if s.mtime == l.mtime {
		is |= mtimeLast
	}
	ctime := s.ctime - s.mtime
	if d := s.ctime - l.ctime; max(d, -d) < max(ctime, -ctime) {
		is, ctime = is|ctimeLast, d
	}
	if s.btime == 0 {
		is |= noBirth
	}
	b = append(b, is)
	if is&asLast == 0 {
		b = binary.AppendUvarint(append(b, byte(s.kind), s.flags), uint64(s.mode))
		b = binary.AppendUvarint(b, s.dev)
	}
	b = binary.AppendVarint(b, int64(s.ino-l.ino)) //nolint:gosec // It is counted round.
	b = binary.AppendVarint(b, s.size)
	if is&mtimeLast == 0 {
		b = binary.AppendVarint(b, s.mtime-l.mtime)
	}
	b = binary.AppendVarint(b, ctime)
	if is&noBirth == 0 {
		b = binary.AppendVarint(b, s.btime-s.ctime)
	}
	*l = s
	return b
}

// Next reads the next stat as the row's, and returns what is behind it.
func (q *Squeezed) Next(b []byte) (row, rest []byte, err error) {
	r := reader{b: b}
	is := r.byte()
	if is >= nothingElse {
		return nil, nil, errCut
	}
	if is == notAStat {
		n := r.uvarint()
		if r.cut || n > uint64(len(r.b)) {
			return nil, nil, errCut
		}
		return r.b[:n:n], r.b[n:], nil
	}
	s, l := q.last, &q.last
	if is&asLast == 0 {
		s.kind, s.flags = tree.Kind(r.byte()), r.byte()
		s.mode, s.dev = uint16(r.uvarint()), r.uvarint() //nolint:gosec // It was one.
	}
	s.ino = l.ino + uint64(r.varint()) //nolint:gosec // It is counted round.
	s.size = r.varint()
	if is&mtimeLast == 0 {
		s.mtime = l.mtime + r.varint()
	}
	if is&ctimeLast == 0 {
		s.ctime = s.mtime + r.varint()
	} else {
		s.ctime = l.ctime + r.varint()
	}
	s.btime = 0
	if is&noBirth == 0 {
		s.btime = s.ctime + r.varint()
	}
	if r.cut {
		return nil, nil, errCut
	}
	*l = s
	return s.encode(), r.b, nil
}

var errCut = fmt.Errorf("%w: a row of the directory's index is cut", tree.ErrDamaged)

// A reader reads numbers from the beginning of b. Once there are none it is cut.
type reader struct {
	b   []byte
	cut bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.cut = true
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return r.took(v, n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	return int64(r.took(uint64(v), n)) //nolint:gosec // It comes back as it was.
}

func (r *reader) took(v uint64, n int) uint64 {
	if n <= 0 {
		r.cut, n = true, 0
	}
	r.b = r.b[n:]
	return v
}
