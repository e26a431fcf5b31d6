package stream

import (
	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// longList is the length from which lists are in memory from bufpool.Take: to have fresh memory
// cleared and collected costs more than to copy a list into it. The least memory from there is not
// much larger than such a list.
const longList = 48 << 10

// clone makes an arrival of items.
func clone(items wire.BorrowedList) arrival {
	a := arrival{size: int64(len(items))}
	var room []byte
	if a.lent = len(items) >= longList; a.lent {
		room = bufpool.Take(bufpool.Size(len(items)))
	}
	a.items = append(wire.List(room), items...)
	return a
}

// giveUp is called when nobody looks at the items any more.
func (a *arrival) giveUp() {
	if a.lent {
		bufpool.Keep(a.items)
	}
	*a = arrival{}
}
