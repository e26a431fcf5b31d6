package rpctest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// Conversation is the client's end of a connection to services, in text.
type Conversation struct {
	t    testing.TB
	conn rpc.Connection
	done chan struct{}
}

// Serve begins a Conversation with the services of a table. It ends with the test, and
// closes them in the reverse of their order.
func Serve(t testing.TB, table *rpc.Table, services func(rpc.Notifier) []rpc.Service) *Conversation {
	t.Helper()
	a, b := rpc.Pair()
	scope := table.NewScope()
	h := &handler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}
	peer := rpc.NewPeer(b, rpc.PeerConfig{Handler: h, Unreadable: h.dispatcher.HandleUnreadable})
	list := services(peer)
	for _, s := range list {
		scope.Bind(s)
	}
	c := &Conversation{t, a, make(chan struct{})}
	go func() { // waited for by End
		defer close(c.done)
		ctx, cancel := context.WithCancel(context.Background())
		_ = peer.Serve(ctx)
		cancel()
		_ = peer.Close()
		h.dispatcher.Wait()
		for _, s := range slices.Backward(list) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(c.End)
	return c
}

type handler struct{ dispatcher *rpc.Dispatcher }

func (h *handler) HandleRequest(ctx context.Context, req *rpc.Request) {
	h.dispatcher.HandleRequest(ctx, req)
}

func (h *handler) HandleNotification(_ context.Context, method string, params []byte) error {
	if !h.dispatcher.Takes(method) {
		return errors.New("unexpected notification " + method)
	}
	return h.dispatcher.HandleNotification(method, params)
}

// Say sends a message.
func (c *Conversation) Say(msg string) {
	c.t.Helper()
	if err := c.conn.Write(context.Background(), []byte(msg)); err != nil {
		c.t.Fatal(err)
	}
}

// Hear returns the next message.
func (c *Conversation) Hear() string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	msg, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := wire.ParseEnvelope(msg, wire.Limits{}); err != nil {
		c.t.Fatalf("%s: %v", msg, err)
	}
	return string(msg)
}

// Want hears the messages that are named, in that order.
func (c *Conversation) Want(messages ...string) {
	c.t.Helper()
	for _, want := range messages {
		if got := c.Hear(); got != want {
			c.t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// End closes the connection and waits until the services are closed.
func (c *Conversation) End() {
	_ = c.conn.Close()
	<-c.done
}
