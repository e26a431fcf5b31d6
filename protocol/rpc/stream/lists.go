package stream

import (
	"sync"

	"github.com/wsd-dev/wsd/protocol/wire"
)

// longList is the length from which memory of lists is used again: to have it cleared and
// collected costs more than to copy a list into it.
const longList = 16 << 10

var lists sync.Pool // of *[]byte

// clone makes an arrival of items.
func clone(items wire.BorrowedList) arrival {
	a := arrival{size: int64(len(items))}
	var room []byte
	if a.lent = len(items) >= longList; a.lent {
		if b, ok := lists.Get().(*[]byte); ok && len(items) <= cap(*b) && cap(*b) <= 2*len(items) { // little holds no large memory
			room = *b
		}
	}
	a.items = append(wire.List(room[:0]), items...)
	return a
}

// giveUp is called when nobody looks at the items any more.
func (a *arrival) giveUp() {
	if a.lent {
		room := []byte(a.items)
		lists.Put(&room)
	}
	*a = arrival{}
}
