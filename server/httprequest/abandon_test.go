package httprequest

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// noPeer fails the test when it is notified.
type noPeer struct{ t *testing.T }

func (n noPeer) Notify(_ context.Context, method string, params any) error {
	n.t.Errorf("notification %s %v", method, params)
	return rpc.ErrClosed
}

// body notes that it is closed and is never to be read.
type body struct {
	t      *testing.T
	closed bool
}

func (b *body) Read([]byte) (int, error) {
	b.t.Error("the body is read")
	return 0, rpc.ErrClosed
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// A stream whose answer is never sent, because the connection has ended, is ended by
// Close, which does not wait for it to start.
func TestCloseBeforeTheAnswer(t *testing.T) {
	s := NewService(noPeer{t}, Config{})
	if err := s.begin(); err != nil {
		t.Fatal(err)
	}
	st, err := s.reserve(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	b := &body{t: t}
	lifetime, cancel := s.lifetime(nil)
	if !s.setReady(st, b, cancel, new(lender)) {
		t.Fatal("a live service takes no stream")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.start(st) // the answer's fate is known at last
	if !b.closed || lifetime.Err() == nil {
		t.Errorf("body closed: %v, context: %v", b.closed, lifetime.Err())
	}
}

func TestReadyAfterClose(t *testing.T) {
	s := NewService(noPeer{t}, Config{})
	st, err := s.reserve(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s.setReady(st, &body{t: t}, func() {}, new(lender)) {
		t.Error("a closed service takes a stream")
	}
	if err := s.begin(); err == nil {
		t.Error("a closed service begins a request")
	}
}
