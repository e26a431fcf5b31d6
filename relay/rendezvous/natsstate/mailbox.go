package natsstate

import (
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// A mailbox takes the answers to all reads with one subscription: one for each read
// would have to be made known to every server of the cluster.
type mailbox struct {
	prefix string

	mu      sync.Mutex
	waiting map[string]chan *nats.Msg // by what follows prefix
}

// newMailbox subscribes; that ends with the connection.
func newMailbox(nc *nats.Conn) (*mailbox, error) {
	b := &mailbox{prefix: nc.NewInbox() + ".", waiting: map[string]chan *nats.Msg{}}
	_, err := nc.Subscribe(b.prefix+"*", b.deliver)
	return b, err
}

// open returns an address, and what comes to it until close. An answer of more messages
// than room is cut short.
func (b *mailbox) open(room int) (address string, messages <-chan *nats.Msg, closeIt func()) {
	token, c := nuid.Next(), make(chan *nats.Msg, room)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[token] = c
	return b.prefix + token, c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, token)
	}
}

// deliver never waits.
func (b *mailbox) deliver(m *nats.Msg) {
	b.mu.Lock()
	c := b.waiting[strings.TrimPrefix(m.Subject, b.prefix)]
	b.mu.Unlock()
	select {
	case c <- m: // nobody is there for nil: what came too late is dropped
	default:
	}
}
