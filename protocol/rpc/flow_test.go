package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

type block struct {
	Data []byte `json:"data"`
}

// A reader that stops reading holds back who notifies, at a bounded cost; answers
// still get into the queue, and everything arrives once it reads again.
func TestNotifyWaitsForASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pair()
		p := NewPeer(a, PeerConfig{})
		const each, count = 64 << 10, 100
		sent := make(chan int, count)
		go func() {
			for i := range count {
				if err := p.Notify(context.Background(), "n", block{make([]byte, each)}); err != nil {
					t.Error(err)
				}
				sent <- i
			}
			close(sent)
		}()
		synctest.Wait()
		if n := len(sent); n > protocol.MaxQueuedNotificationBytes/each+pairBuffer+2 {
			t.Errorf("%d notifications were taken from nobody's reader", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := p.Notify(ctx, "n", block{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("notify with a full queue: %v", err)
		}
		answered := make(chan struct{})
		go func() {
			req := &Request{ID: faultID, peer: p}
			req.Reply(block{}, nil)
			close(answered)
		}()
		synctest.Wait()
		select {
		case <-answered:
		default:
			t.Error("an answer waits behind notifications")
		}
		for range count + 1 {
			if _, err := b.Read(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Flush(context.Background()); err != nil {
			t.Error(err)
		}
		p.Close()
		b.Close()
	})
}

func TestCloseEndsNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pair()
		defer b.Close()
		p := NewPeer(a, PeerConfig{})
		errs := make(chan error, 1)
		go func() {
			for {
				if err := p.Notify(context.Background(), "n", block{make([]byte, 100<<10)}); err != nil {
					errs <- err
					return
				}
			}
		}()
		synctest.Wait()
		p.Close()
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := p.Notify(context.Background(), "n", nil); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// brokenConn cannot write.
type brokenConn struct{ Connection }

var errBroken = errors.New("broken pipe")

func (brokenConn) Write(context.Context, []byte) error { return errBroken }

// Once a write has failed nobody is there to be told, and that is what Notify says.
func TestNotifyAfterWriteFailed(t *testing.T) {
	a, b := Pair()
	defer b.Close()
	p := NewPeer(brokenConn{a}, PeerConfig{})
	if err := p.Notify(t.Context(), "n", nil); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("before the failure is known: %v", err)
	}
	<-p.Done()
	for name, err := range map[string]error{
		"Notify": p.Notify(t.Context(), "n", nil),
		"Call":   p.Call(t.Context(), "m", nil, nil),
		"Flush":  p.Flush(t.Context()),
	} {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer too large for the queue still goes out, alone.
func TestHugeReply(t *testing.T) {
	a, b := Pair()
	p := NewPeer(a, PeerConfig{})
	defer p.Close()
	defer b.Close()
	data := bytes.Repeat([]byte{7}, 3*maxQueuedReplyBytes)
	go func() { (&Request{ID: faultID, peer: p}).Reply(block{data}, nil) }()
	msg, err := b.Read(t.Context())
	if err != nil || len(msg) < len(data)*4/3 {
		t.Errorf("%d bytes, %v", len(msg), err)
	}
}

// At MaxRequestsInFlight the server reads no further until answers are queued.
func TestWindow(t *testing.T) {
	var w window
	closed := make(chan struct{})
	for range protocol.MaxRequestsInFlight {
		if err := w.wait(t.Context(), closed); err != nil {
			t.Fatal(err)
		}
		w.add(1)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("reason")
	cancel(reason)
	if err := w.wait(ctx, closed); !errors.Is(err, reason) {
		t.Errorf("got %v, want to wait until ctx ended", err)
	}
	done := make(chan error)
	go func() { done <- w.wait(context.Background(), closed) }()
	w.remove(1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.add(protocol.MaxRequestBytesInFlight)
	go func() { done <- w.wait(context.Background(), closed) }()
	close(closed)
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestCallGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pair()
		client := NewPeer(a, PeerConfig{})
		served := make(chan error, 1)
		go func() { served <- client.Serve(context.Background()) }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var late block
		if err := client.Call(ctx, "m", nil, &late); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if msg, err := b.Read(context.Background()); err != nil || string(msg) != `{"id":1,"method":"m"}` {
			t.Fatalf("%s, %v", msg, err)
		}
		// The late answer changes nothing and harms nobody.
		for _, msg := range []string{`{"id":1,"result":{"data":"AAAA"}}`, `{"id":2,"result":{"data":"AQ=="}}`} {
			if err := b.Write(context.Background(), []byte(msg)); err != nil {
				t.Fatal(err)
			}
			if msg == `{"id":1,"result":{"data":"AAAA"}}` {
				synctest.Wait()
				if late.Data != nil {
					t.Error("a call that was given up was written to")
				}
				go func() {
					var got block
					if err := client.Call(context.Background(), "m", nil, &got); err != nil || len(got.Data) != 1 {
						t.Errorf("the next call: %v, %v", got, err)
					}
				}()
				synctest.Wait()
			}
		}
		synctest.Wait()
		b.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := client.Call(context.Background(), "m", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("call after the end: %v", err)
		}
		client.Close()
	})
}

// What is given up before it is sent has not been asked for, however soon the answer would come.
func TestCallGivenUpBefore(t *testing.T) {
	a, b := Pair()
	client := NewPeer(a, PeerConfig{})
	defer client.Close()
	go func() { _ = client.Serve(context.Background()) }()
	reason := errors.New("reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if err := client.Call(ctx, "m", nil, nil); err != reason {
		t.Errorf("call: %v", err)
	}
	if err := client.Notify(ctx, "n", nil); err != nil { // it has not had to wait
		t.Errorf("notify: %v", err)
	}
	if msg, err := b.Read(t.Context()); err != nil || string(msg) != `{"method":"n"}` {
		t.Errorf("%s, %v", msg, err)
	}
}

func TestCallsBesideEachOther(t *testing.T) {
	a, b := Pair()
	scope := slowTable().NewScope()
	scope.Bind(slow{})
	server := NewPeer(a, PeerConfig{Handler: dispatching{NewDispatcher(scope, DispatcherConfig{})}})
	client := NewPeer(b, PeerConfig{})
	for _, p := range []*Peer{server, client} {
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Serve(context.Background()) }()
		defer func() { p.Close(); <-done }()
	}
	errs := make(chan error)
	for i := range 50 {
		go func() {
			name := fmt.Sprint("call ", i)
			var got slowResult
			err := client.Call(context.Background(), "poll", slowParams{Name: name, Ms: int64(i % 3)}, &got)
			if err == nil && got.Name != name {
				err = fmt.Errorf("%s got the answer of %s", name, got.Name)
			}
			errs <- err
		}()
	}
	for range 50 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Two ends that do not understand each other say so once, not for ever.
func TestFaultsAreNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pair()
		var peers []*Peer
		for _, c := range []Connection{a, b} {
			p := NewPeer(c, PeerConfig{})
			peers = append(peers, p)
			go func() { _ = p.Serve(context.Background()) }()
		}
		if err := a.Write(context.Background(), []byte("{")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // would never return
		for _, p := range peers {
			p.Close()
		}
	})
}
