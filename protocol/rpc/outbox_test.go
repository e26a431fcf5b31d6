package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// tryConn takes some messages at once, some in part and some not at all.
type tryConn struct {
	Connection
	mu    sync.Mutex
	sent  []string
	rest  string        // of the message that was begun
	room  chan struct{} // lets a write that waits go on
	fails error
}

func (c *tryConn) add(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, c.rest+s)
	c.rest = ""
}

func (c *tryConn) Write(_ context.Context, msg []byte) error {
	<-c.room
	c.add(string(msg))
	return c.fails
}

func (c *tryConn) TryWrite(msg []byte) (func() error, error) {
	switch {
	case c.fails != nil:
		return nil, c.fails
	case strings.HasPrefix(string(msg), "part"):
		c.mu.Lock()
		c.rest = string(msg[:2])
		c.mu.Unlock()
		return func() error { return c.Write(context.Background(), msg[2:]) }, nil
	case strings.HasPrefix(string(msg), "wait"):
		return func() error { return c.Write(context.Background(), msg) }, nil
	}
	c.add(string(msg))
	return nil, nil
}

func (c *tryConn) got() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.sent, " ")
}

func put(t *testing.T, o *outbox, text string) error {
	t.Helper()
	msg := takeBuffer(0)
	msg.b = append(msg.b, text...)
	sent, err := o.trySend(o.replies, msg)
	if !sent {
		t.Fatal("no room")
	}
	return err
}

// What can be written at once is, before send returns; what cannot is written by a
// goroutine, and what comes behind it stays behind it.
func TestOutboxWritesAtOnce(t *testing.T) {
	for _, stalls := range []string{"wait", "part"} {
		synctest.Test(t, func(t *testing.T) {
			c := &tryConn{room: make(chan struct{})}
			o := newOutbox(c, nil, func(err error) { t.Error(err) })
			want := ""
			for range 3 {
				_ = put(t, o, "a")
				if want += "a"; c.got() != want {
					t.Fatalf("%s: got %s at once, want %s", stalls, c.got(), want)
				}
				if err := o.flush(t.Context()); err != nil {
					t.Error(err)
				}
				_ = put(t, o, stalls)
				_ = put(t, o, "b")
				flushed := make(chan error, 1)
				go func() { flushed <- o.flush(context.Background()) }()
				synctest.Wait()
				if c.got() != want || len(flushed) != 0 {
					t.Fatalf("%s: got %s, flushed %d", stalls, c.got(), len(flushed))
				}
				c.room <- struct{}{}
				c.room <- struct{}{} // the goroutine writes what was queued meanwhile
				synctest.Wait()
				want += " " + stalls + " b "
				if c.got()+" " != want || len(flushed) != 1 {
					t.Fatalf("%s: got %s, want %s, flushed %d", stalls, c.got(), want, len(flushed))
				}
			}
			if !o.replies.room.TryAcquire(maxQueuedReplyBytes) {
				t.Error("room was not given back")
			}
		})
	}
}

func TestOutboxFailsAtOnce(t *testing.T) {
	c := &tryConn{fails: errors.New("broken")}
	var o *outbox
	var told []error
	o = newOutbox(c, nil, func(err error) { told = append(told, err); o.fail(err) })
	if err := put(t, o, "a"); err != nil {
		t.Errorf("the write whose failure is told elsewhere: %v", err)
	}
	if err := put(t, o, "b"); !errors.Is(err, c.fails) || !slices.Equal(told, []error{c.fails}) {
		t.Errorf("afterwards: %v; told %v", err, told)
	}
	if err := o.flush(t.Context()); !errors.Is(err, c.fails) {
		t.Errorf("flush: %v", err)
	}
}

// Many senders, some of whose messages wait: all arrive, once, each sender's in order.
func TestOutboxConcurrently(t *testing.T) {
	const senders, each = 8, 200
	c := &tryConn{room: make(chan struct{})}
	close(c.room)
	o := newOutbox(c, nil, func(err error) { t.Error(err) })
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				kind := []string{"now", "wait", "part"}[(i*7+s)%3]
				msg := takeBuffer(0)
				msg.b = fmt.Appendf(msg.b, "%s-%d-%d", kind, s, i)
				if err := o.send(context.Background(), o.replies, msg); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := o.flush(t.Context()); err != nil {
		t.Error(err)
	}
	next := make([]int, senders)
	for _, msg := range c.sent {
		var s, i int
		if _, err := fmt.Sscanf(msg[strings.Index(msg, "-"):], "-%d-%d", &s, &i); err != nil || next[s] != i {
			t.Fatalf("%s came when %d was due: %v", msg, next[s], err)
		}
		next[s]++
	}
	if slices.Min(next) != each {
		t.Errorf("arrived: %v", next)
	}
}
