package rpc

import (
	"sync"
	"sync/atomic"

	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// Request is a request that arrived. It is answered exactly once, by Reply or
// ReplyInline.
type Request struct {
	ID     wire.ID
	Method string
	Params []byte // valid until HandleRequest returns; nil when absent
	Trace  wire.TraceContext

	peer     *Peer
	version2 bool
	size     int
	loan     atomic.Int64 // taken from the peer's account by Charge
	handling handoff.Message

	mu    sync.Mutex
	after []func() // run once the answer is queued
}

// HandOff has another goroutine read what arrives from now on, if HandleRequest has not
// returned yet. It may be called from any goroutine and again.
func (r *Request) HandOff() {
	if r.handling.HandOff() {
		r.peer.readOn()
	}
}

// Reply answers with result, or with err if it is not nil. It waits while the
// queue of answers is full.
func (r *Request) Reply(result any, err error) { r.reply(result, err, true) }

// ReplyInline is Reply for handlers on the reading goroutine: it never waits.
func (r *Request) ReplyInline(result any, err error) { r.reply(result, err, false) }

func (r *Request) reply(result any, err error, wait bool) {
	failure := WireError(err)
	r.peer.reply(r.ID, result, failure, r.version2, wait, r.loan.Swap(0), func() {
		r.peer.window.remove(r.size)
		r.mu.Lock()
		after := r.after
		r.mu.Unlock()
		for _, fn := range after {
			fn()
		}
	})
}

// drop gives up a request whose connection has ended.
func (r *Request) drop() {
	r.peer.account.Give(r.loan.Swap(0))
	r.peer.window.remove(r.size)
}

func (r *Request) afterReply(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = append(r.after, fn)
}
