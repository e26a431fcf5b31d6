package arq

import (
	"encoding/binary"
	"fmt"
)

// A message has come whole.
type message struct {
	body []byte
	// segments is how many it came in.
	segments int
}

// parts are the pieces of a message so far. They are the slices that Open returned;
// one copy makes them a message, none if there is only one.
type parts struct {
	list   [][]byte
	total  int
	crumbs bool // the last of list was made by crumb
}

func (p *parts) add(piece []byte) {
	p.list = append(p.list, piece)
	p.total += len(piece)
	p.crumbs = false
}

// A piece shorter than crumbSize is one that no sender cuts but for a message's end.
const crumbSize, crumbsSize = 512, 4096

// crumb adds a piece by copying it to others of its kind, lest a message that comes
// byte by byte cost a hundred times its size.
func (p *parts) crumb(piece []byte) {
	if !p.crumbs || len(p.list[len(p.list)-1])+len(piece) > crumbsSize {
		p.add(nil)
		p.crumbs = true
	}
	last := &p.list[len(p.list)-1]
	*last = append(*last, piece...)
	p.total += len(piece)
}

// join returns the message and forgets its pieces.
func (p *parts) join() []byte {
	if len(p.list) == 1 {
		body := p.list[0]
		p.list[0] = nil
		*p = parts{list: p.list[:0]}
		return body
	}
	body := make([]byte, 0, p.total)
	for _, piece := range p.list {
		body = append(body, piece...)
	}
	*p = parts{}
	return body
}

// An assembler stitches what was opened together to messages. Its memory grows with
// what arrived, never with what was promised.
type assembler struct {
	limits *limits
	parts  parts

	// Reliable: the frame says where a piece belongs.
	count uint32 // of the message in progress; 0 between two

	// Codex: the stream says how long a message is.
	head    [prefixSize]byte
	headLen int
	want    int // bytes of the message in progress; 0 before its prefix is complete
}

// segment takes the piece of segment d. "Pieces must continue the message in progress;
// anything else is a protocol error of the peer."
func (a *assembler) segment(d Data, piece []byte) (m message, done bool, problem string) {
	if a.count == 0 {
		if d.Count == 0 || int64(d.Count) > int64(a.limits.pieces) {
			return m, false, fmt.Sprintf("message of %d segments", d.Count)
		}
		a.count = d.Count
	}
	if d.Count != a.count || int64(d.Index) != int64(len(a.parts.list)) {
		return m, false, fmt.Sprintf("segment %d of %d, want %d of %d", d.Index, d.Count, len(a.parts.list), a.count)
	}
	if len(piece) == 0 || len(piece) > a.limits.piece {
		return m, false, fmt.Sprintf("piece of %d bytes", len(piece))
	}
	a.parts.add(piece)
	if a.parts.total > a.limits.message {
		return m, false, fmt.Sprintf("message of more than %d bytes", a.limits.message)
	}
	if len(a.parts.list) < int(a.count) {
		return m, false, ""
	}
	m = message{a.parts.join(), int(a.count)}
	a.count = 0
	return m, true, ""
}

// prefixSize is that of the length before each message of the codex profile.
const prefixSize = 4

// stream takes the next piece of a stream of messages, each after its length, and
// emits those that it completes. Pieces may end anywhere.
func (a *assembler) stream(piece []byte, emit func(message)) (problem string) {
	if len(piece) > a.limits.piece {
		return fmt.Sprintf("piece of %d bytes", len(piece))
	}
	for len(piece) > 0 {
		if a.want == 0 {
			n := copy(a.head[a.headLen:], piece)
			a.headLen, piece = a.headLen+n, piece[n:]
			if a.headLen < prefixSize {
				break
			}
			length := binary.BigEndian.Uint32(a.head[:])
			if length == 0 || int64(length) > int64(a.limits.message) {
				return fmt.Sprintf("message of %d bytes", length)
			}
			a.headLen, a.want = 0, int(length)
			continue
		}
		n := min(len(piece), a.want-a.parts.total)
		if n < crumbSize && a.parts.total+n < a.want {
			a.parts.crumb(piece[:n])
		} else {
			a.parts.add(piece[:n:n])
		}
		piece = piece[n:]
		if a.parts.total == a.want {
			a.want = 0
			emit(message{a.parts.join(), 1})
		}
	}
	return ""
}
