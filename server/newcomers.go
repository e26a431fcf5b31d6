package server

import (
	"container/list"
	"net"
	"net/http"
	"sync"

	"github.com/wsd-dev/wsd/protocol"
)

// newcomers keeps the TCP connections that are no WebSockets few: for one too many,
// the one goes of which nothing was heard for longest. So those that connect and send
// nothing, or all but the end of a request, do not keep others out.
type newcomers struct {
	mu     sync.Mutex
	places map[net.Conn]*list.Element
	quiet  list.List // of net.Conn, the quietest first
}

// change is the ConnState of an http.Server.
func (n *newcomers) change(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		tuneTCP(c)
	}
	if evicted := n.note(c, state); evicted != nil {
		if secure, ok := evicted.(interface{ NetConn() net.Conn }); ok {
			evicted = secure.NetConn() // a goodbye might have to wait
		}
		evicted.Close()
	}
}

// note returns the connection that is to go.
func (n *newcomers) note(c net.Conn, state http.ConnState) (evicted net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, known := n.places[c]
	switch {
	case state == http.StateHijacked || state == http.StateClosed:
		if known {
			n.forget(place)
		}
	case known:
		n.quiet.MoveToBack(place)
	case state == http.StateNew:
		if n.quiet.Len() >= protocol.MaxHTTPConnections {
			evicted = n.forget(n.quiet.Front())
		}
		if n.places == nil {
			n.places = make(map[net.Conn]*list.Element)
		}
		n.places[c] = n.quiet.PushBack(c)
	}
	return evicted
}

func (n *newcomers) forget(place *list.Element) net.Conn {
	c := n.quiet.Remove(place).(net.Conn)
	delete(n.places, c)
	return c
}
