package process

import (
	"crypto/sha256"

	"github.com/wsd-dev/wsd/protocol"
)

// writeIDs remembers the writes accepted last, by the ids that clients gave them, so
// that a repeated write is not written again. The zero value is ready.
type writeIDs struct {
	tickets map[string]*ticket
	order   []string // oldest first, from next on once full
	next    int
}

// key bounds what a long id costs.
func (*writeIDs) key(id string) string {
	if len(id) <= sha256.Size {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return string(sum[:])
}

// find returns the write with that id, nil if none is remembered.
func (w *writeIDs) find(id string) *ticket { return w.tickets[w.key(id)] }

// add remembers t, and forgets the oldest for it.
func (w *writeIDs) add(id string, t *ticket) {
	if w.tickets == nil {
		w.tickets = make(map[string]*ticket)
	}
	key := w.key(id)
	w.tickets[key] = t
	if len(w.order) < protocol.MaxWriteIDs {
		w.order = append(w.order, key)
		return
	}
	if old := w.order[w.next]; old != key {
		delete(w.tickets, old)
	}
	w.order[w.next] = key
	w.next = (w.next + 1) % len(w.order)
}

// remove forgets an id whose write was given up.
func (w *writeIDs) remove(id string) {
	// Its place in order stays: should the id come again it stands there twice, and
	// is forgotten when the older place is used.
	delete(w.tickets, w.key(id))
}
