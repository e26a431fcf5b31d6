package server

import (
	"cmp"
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// newcomersWarning is how often it is logged that newcomers are closed.
const newcomersWarning = time.Minute

// Newcomers keeps the TCP connections that are no WebSockets few: for one too many,
// the one goes of which nothing was heard for longest. So those that connect and send
// nothing, or all but the end of a request, or keep connections that they do not use, do
// not keep others out. It serves relays too.
type Newcomers struct {
	most, mostOfOne int
	log             *slog.Logger
	warn            rate.Sometimes

	mu     sync.Mutex
	places map[net.Conn]*list.Element
	quiet  list.List      // of net.Conn without a request, the quietest first
	busy   list.List      // of those whose request is being answered
	hosts  map[string]int // how many there are from each IP address
}

// NewNewcomers lets most connections in, mostOfOne of them from one IP address: for one
// more of an address another of the same address goes. 0 is no bound for an address, as
// behind a proxy.
func NewNewcomers(most, mostOfOne int, log *slog.Logger) *Newcomers {
	return &Newcomers{
		most: most, mostOfOne: mostOfOne, log: log, warn: rate.Sometimes{Interval: newcomersWarning},
		places: map[net.Conn]*list.Element{}, hosts: map[string]int{},
	}
}

// Change is the ConnState of an http.Server.
func (n *Newcomers) Change(c net.Conn, state http.ConnState) {
	evicted := n.note(c, state)
	if evicted == nil {
		return
	}
	n.warn.Do(func() {
		n.log.Warn("too many connections that are no WebSocket: the quietest are closed",
			"most", n.most, "mostOfOneAddress", n.mostOfOne, "conn", evicted.RemoteAddr().String())
	})
	if secure, ok := evicted.(interface{ NetConn() net.Conn }); ok {
		evicted = secure.NetConn() // a goodbye might have to wait
	}
	evicted.Close()
}

// note returns the connection that is to go.
func (n *Newcomers) note(c net.Conn, state http.ConnState) (evicted net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	place, known := n.places[c]
	switch {
	case state == http.StateHijacked || state == http.StateClosed:
		if known {
			n.forget(place)
		}
	case known && state == http.StateActive: // it goes only if there are no others
		n.forget(place)
		n.places[c] = n.busy.PushBack(c)
		n.hosts[hostOf(c)]++
	case known:
		n.forget(place)
		n.places[c] = n.quiet.PushBack(c)
		n.hosts[hostOf(c)]++
	case state == http.StateNew:
		host := hostOf(c)
		switch {
		case n.mostOfOne > 0 && host != "" && n.hosts[host] >= n.mostOfOne:
			evicted = n.forget(n.quietestOf(host))
		case len(n.places) >= n.most:
			evicted = n.forget(cmp.Or(n.quiet.Front(), n.busy.Front()))
		}
		n.places[c] = n.quiet.PushBack(c)
		n.hosts[host]++
	}
	return evicted
}

// quietestOf finds the quietest of an address that has some.
func (n *Newcomers) quietestOf(host string) *list.Element {
	for _, all := range []*list.List{&n.quiet, &n.busy} {
		for place := all.Front(); place != nil; place = place.Next() {
			if hostOf(place.Value.(net.Conn)) == host {
				return place
			}
		}
	}
	return nil // not reached: hosts has counted one
}

func (n *Newcomers) forget(place *list.Element) net.Conn {
	c := place.Value.(net.Conn)
	n.quiet.Remove(place) // of the two lists the one that has it
	n.busy.Remove(place)
	delete(n.places, c)
	host := hostOf(c)
	if n.hosts[host]--; n.hosts[host] == 0 {
		delete(n.hosts, host)
	}
	return c
}

// hostOf is the IP address at the other end, "" for what has none.
func hostOf(c net.Conn) string {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.IP.String()
	}
	return ""
}
