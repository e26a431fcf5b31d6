package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// observed is a connection that remembers how it was closed.
type observed struct {
	rpc.Connection
	fault atomic.Int64 // the code of CloseFault, 0 if it was not called
}

func (o *observed) CloseFault(code int, _ string) error {
	o.fault.CompareAndSwap(0, int64(code))
	return o.Close()
}

func TestPipePassesBothWays(t *testing.T) {
	near, a := rpc.Pair()
	far, b := rpc.Pair()
	end := &observed{Connection: b}
	done := make(chan struct{})
	go func() { defer close(done); pipe(t.Context(), a, end) }()

	for _, way := range []struct{ from, to rpc.Connection }{{near, far}, {far, near}} {
		var sent, got []string
		for _, text := range []string{"one", "", "three"} {
			sent = append(sent, text)
			if err := way.from.Write(t.Context(), []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		for range sent {
			msg, err := way.to.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(msg))
		}
		if !slices.Equal(got, sent) {
			t.Errorf("%q came of %q", got, sent)
		}
	}
	near.Close()
	<-done
	if _, err := far.Read(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("the other end reads %v", err)
	}
	if code := end.fault.Load(); code != 0 {
		t.Errorf("an orderly end became fault %d", code)
	}
}

func TestPipeEndsWithItsContext(t *testing.T) {
	_, a := rpc.Pair()
	_, b := rpc.Pair()
	end := &observed{Connection: b}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); pipe(ctx, a, end) }()
	cancel()
	<-done
	if code := end.fault.Load(); code != rpc.CloseGoingAway {
		t.Errorf("closed with %d", code)
	}
}

// deaf never gives a sign of life, unless answers is set.
type deaf struct {
	rpc.Connection
	answers bool
	asked   int
	closed  chan struct{}
}

func (d *deaf) Probe(ctx context.Context) error {
	d.asked++
	if d.answers {
		return nil
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (d *deaf) Close() error {
	close(d.closed)
	return d.Connection.Close()
}

func TestWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		answers, reads, closed bool
	}{
		"silent":               {reads: true, closed: true},
		"lives":                {reads: true, answers: true},
		"nobody reads from it": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, conn := rpc.Pair()
				d := &deaf{Connection: conn, answers: tt.answers, closed: make(chan struct{})}
				began := time.Now()
				w := watch(d)
				if tt.reads {
					go func() { _, _ = w.Read(t.Context()) }()
				}
				select {
				case <-d.closed:
					if took := time.Since(began); !tt.closed || took != watchEvery+watchTimeout {
						t.Errorf("closed after %v", took)
					}
				case <-time.After(10 * time.Minute):
					if tt.closed {
						t.Error("not closed")
					}
				}
				w.end()
				if d.asked == 0 {
					t.Error("not asked")
				}
				_ = conn.Close()
			})
		})
	}
}

// What nobody can ask is passed on, and its end does not wait.
func TestWatchWithoutProbes(t *testing.T) {
	other, conn := rpc.Pair()
	w := watch(conn)
	if err := other.Write(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if msg, err := w.Read(t.Context()); err != nil || string(msg) != "x" {
		t.Errorf("%q, %v", msg, err)
	}
	w.end()
	if err := w.CloseFault(rpc.CloseGoingAway, ""); err != nil {
		t.Error(err)
	}
}
