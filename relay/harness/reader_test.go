package harness

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/frame"
)

// each opens a connection of each profile in a bubble, to an executor that echoes.
func each(t *testing.T, test func(t *testing.T, w *world, c *conn)) {
	for _, p := range []frame.Profile{frame.Reliable, frame.Codex} {
		t.Run(string(p), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, p)
				test(t, w, w.open(w.harness(Config{Profile: p})))
			})
		})
	}
}

func write(t *testing.T, c *conn, msg string) {
	t.Helper()
	if err := c.Write(context.Background(), []byte(msg)); err != nil {
		t.Fatal(err)
	}
}

// read reads a message with ctx.
func read(ctx context.Context, t *testing.T, c *conn, want string) {
	t.Helper()
	if msg, err := c.Read(ctx); err != nil || string(msg) != want {
		t.Fatalf("got %q, %v; want %q", msg, err, want)
	}
}

// await waits for a message with ctx and has it sent. It returns who read the socket for it
// when keep has left, if it was to.
func await(ctx context.Context, t *testing.T, c *conn, msg string) handoff.Holder {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		read(ctx, t, c, msg)
	}()
	synctest.Wait()
	got := c.reader.Holder()
	write(t, c, msg)
	<-done
	synctest.Wait()
	return got
}

// Whoever waits reads the socket, from the second message on if keep has had the time to
// leave, and keep does when nobody has waited for a while, and where they might stop waiting.
func TestTurns(t *testing.T) {
	each(t, func(t *testing.T, _ *world, c *conn) {
		reads := func(ctx context.Context, msg string, want handoff.Holder) {
			t.Helper()
			if got := await(ctx, t, c, msg); got != want {
				t.Errorf("%s: %d reads the socket, not %d", msg, got, want)
			}
		}
		for range 3 {
			reads(context.Background(), "first", handoff.Keeper)
			for range 3 {
				reads(context.Background(), "later", handoff.Waiter)
			}
			time.Sleep(2 * takeOver)
			synctest.Wait()
			if got := c.reader.Holder(); got != handoff.Keeper {
				t.Errorf("nobody waits, and %d reads the socket", got)
			}
		}
		reads(context.Background(), "first", handoff.Keeper)
		reads(t.Context(), "may end", handoff.Keeper)
		reads(t.Context(), "may end", handoff.Keeper)
	})
}

// Nobody reads, and what is written leaves all the same: its acks are heard.
func TestTurnsWriteUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		write(t, c, "x")
		read(context.Background(), t, c, "x")
		large := bytes.Repeat([]byte("x"), 12<<20) // more than a window
		write(t, c, string(large))
		if msg, err := c.Read(context.Background()); err != nil || !bytes.Equal(msg, large) {
			t.Errorf("%d bytes came back, %v", len(msg), err)
		}
	})
}

// A socket that is lost under a reader is replaced, and the same reader reads on.
func TestTurnsSocketLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, frame.Reliable)
		c := w.open(w.harness(Config{}))
		write(t, c, "x")
		read(context.Background(), t, c, "x")
		for range 3 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				read(context.Background(), t, c, "y")
			}()
			synctest.Wait()
			w.cut()
			time.Sleep(time.Minute)
			write(t, c, "y")
			<-done
			write(t, c, "z")
			read(context.Background(), t, c, "z")
		}
		if _, dials := w.counts(); dials != 4 {
			t.Errorf("%d sockets, not 4", dials)
		}
	})
}

// Close ends the wait of whoever reads the socket, and so does the end of the stream.
func TestTurnsEnd(t *testing.T) {
	for name, end := range map[string]func(w *world, c *conn){
		"closed": func(_ *world, c *conn) { _ = c.Close() },
		"reset":  func(w *world, c *conn) { w.inject(encode(w.t, resetFrame(c.id, "x"))) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world, c *conn) {
				await(context.Background(), t, c, "x")
				failed := make(chan error)
				go func() {
					_, err := c.Read(context.Background())
					failed <- err
				}()
				synctest.Wait()
				if got := c.reader.Holder(); got != handoff.Waiter {
					t.Errorf("%d reads the socket", got)
				}
				end(w, c)
				if err := <-failed; !errors.Is(err, rpc.ErrClosed) {
					t.Errorf("Read: %v", err)
				}
				<-c.done
			})
		})
	}
}
