package simnet

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A Path is what the way between two hosts is like, in each direction. The zero value
// is a good one: a millisecond, and as much at a time as BufferBytes.
type Path struct {
	// Latency is how long a byte travels, 0 means a millisecond; Jitter is by how much
	// longer, by chance. Order is kept, as by TCP.
	Latency, Jitter time.Duration
	// Bandwidth is in bytes a second; 0 means without bound.
	Bandwidth int64
}

func (p Path) latency() time.Duration {
	if p.Latency == 0 {
		return time.Millisecond
	}
	return p.Latency
}

// A Network has hosts, made by naming them.
type Network struct {
	seed uint64

	mu    sync.Mutex
	hosts map[string]*Host
	next  uint64 // number of the next direction
	links []*Link
}

// New makes a Network whose chance comes from seed.
func New(seed uint64) *Network {
	return &Network{seed: seed, hosts: map[string]*Host{}}
}

// Host returns the host with that name, which it makes the first time.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hosts[name]
	if h == nil {
		i := len(n.hosts) + 1
		h = &Host{net: n, name: name, ip: net.IPv4(10, 0, byte(i>>8), byte(i)), listeners: map[int]*listener{}, port: 40_000}
		n.hosts[name] = h
	}
	return h
}

// Links returns the connections that are not over, the oldest first.
func (n *Network) Links() []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(l *Link) bool { return l.over() })
	return slices.Clone(n.links)
}

// directions returns the numbers of two directions that are not in use.
func (n *Network) directions() (uint64, uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next += 2
	return n.next - 2, n.next - 1
}

// find returns the host and the port of address, "name:port" or "ip:port".
func (n *Network) find(address string) (*Host, int, error) {
	name, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0, err
	}
	port, err := strconv.Atoi(service)
	if err != nil {
		return nil, 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		if h.name == name || h.ip.String() == name {
			return h, port, nil
		}
	}
	return nil, 0, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// A Host listens and dials.
type Host struct {
	net  *Network
	name string
	ip   net.IP

	// Guarded by net.mu.
	path      Path
	listeners map[int]*listener
	port      int
	refuses   bool
	vanished  bool
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// SetPath says what connections that the host dials from now on are like.
func (h *Host) SetPath(p Path) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.path = p
}

// Refuse has the host refuse new connections, or take them again.
func (h *Host) Refuse(refuse bool) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.refuses = refuse
}

// Vanish takes the host off the network, or puts it back: while it is off, nothing
// comes from it or to it, its connections stand still and new ones wait.
func (h *Host) Vanish(vanish bool) {
	h.net.mu.Lock()
	h.vanished = vanish
	h.net.mu.Unlock()
	for _, l := range h.Links() {
		l.block(vanish, &l.there, &l.back)
	}
}

// Links returns the host's connections that are not over, the oldest first.
func (h *Host) Links() []*Link {
	return slices.DeleteFunc(h.net.Links(), func(l *Link) bool { return l.from != h && l.to != h })
}

// CutAll cuts the host's connections and returns how many.
func (h *Host) CutAll() int {
	links := h.Links()
	for _, l := range links {
		l.Cut()
	}
	return len(links)
}

// Listen begins to take connections at port; 0 picks one.
func (h *Host) Listen(port int) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if port == 0 {
		h.port++
		port = h.port
	}
	if h.listeners[port] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{host: h, addr: &net.TCPAddr{IP: h.ip, Port: port}, queue: make(chan *Conn, acceptQueue), done: make(chan struct{})}
	h.listeners[port] = l
	return l, nil
}

// Dial connects to address, "name:port". It has the signature that http.Transport
// and websocket.Dialer want of their NetDialContext.
func (h *Host) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	opErr := func(err error) error { return &net.OpError{Op: "dial", Net: network, Err: err} }
	to, port, err := h.net.find(address)
	if err != nil {
		return nil, opErr(err)
	}
	link := h.link(to, port)
	arrival := time.NewTimer(time.Until(link.there.schedule.next(time.Now().Add(2 * link.path.latency()))))
	defer arrival.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, opErr(ctx.Err())
		case <-arrival.C:
		}
		h.net.mu.Lock()
		lost := h.vanished || to.vanished
		h.net.mu.Unlock()
		if !lost {
			break
		}
		// The first packet is sent again and again, as by TCP.
		arrival.Reset(time.Until(link.there.schedule.next(time.Now().Add(time.Second))))
	}
	if err := link.accept(); err != nil {
		return nil, opErr(err)
	}
	return link.dialled, nil
}

// accept hands the link to whoever listens.
func (l *Link) accept() error {
	n := l.from.net
	n.mu.Lock()
	defer n.mu.Unlock()
	listener := l.to.listeners[l.accepted.local.Port]
	if listener == nil || l.to.refuses {
		return os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	select {
	case listener.queue <- l.accepted:
		n.links = append(n.links, l)
		return nil
	default:
		return fmt.Errorf("%w: more than %d connections wait to be accepted", os.NewSyscallError("connect", syscall.ECONNREFUSED), acceptQueue)
	}
}

// acceptQueue bounds the connections that wait for Accept.
const acceptQueue = 1024

type listener struct {
	host  *Host
	addr  *net.TCPAddr
	queue chan *Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	case c := <-l.queue:
		return c, nil
	}
}

// Close stops listening. Connections that nobody accepted are cut.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.host.net.mu.Lock()
		delete(l.host.listeners, l.addr.Port)
		close(l.done)
		l.host.net.mu.Unlock()
		for {
			select {
			case c := <-l.queue:
				c.link.Cut()
			default:
				return
			}
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
