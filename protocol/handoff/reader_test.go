package handoff

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

const takeOver = 10 * time.Millisecond

// A world is a stream whose frames are its messages, but for "ack", and its Reader.
type world struct {
	*Reader
	messages chan string // taken, not read
	count    uint64
	room     chan struct{} // nil, or holds a token for each frame that the keeper may read
	frames   chan string   // of the socket
	cut      chan error
	end      context.CancelCauseFunc
	served   chan error
}

func newWorld(t *testing.T, edit func(*world, *ReaderConfig)) *world {
	w := &world{messages: make(chan string, 100), served: make(chan error, 1)}
	cfg := ReaderConfig{
		Take: w.take, TryRead: w.tryRead, Read: w.read, TakeOver: takeOver,
		Messages: func() uint64 { return w.count },
	}
	if edit != nil {
		edit(w, &cfg)
	}
	w.Reader = NewReader(cfg)
	w.serve(t)
	return w
}

// serve gives the Reader a new socket.
func (w *world) serve(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	frames, cut := make(chan string), make(chan error, 1)
	w.frames, w.cut, w.end = frames, cut, end
	go func() {
		w.served <- w.Serve(ctx, func(ctx context.Context) ([]byte, error) {
			select {
			case frame := <-frames:
				return []byte(frame), nil
			case err := <-cut:
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}()
	synctest.Wait()
}

func (w *world) take(frame []byte) error {
	switch string(frame) {
	case "ack":
	case "bad":
		return errors.New("a bad frame")
	default:
		w.count++
		w.messages <- string(frame)
	}
	return nil
}

func (w *world) tryRead() ([]byte, error) {
	select {
	case msg := <-w.messages:
		return []byte(msg), nil
	default:
		return nil, nil
	}
}

func (w *world) read(ctx context.Context) ([]byte, error) {
	select {
	case msg := <-w.messages:
		return []byte(msg), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// exchange waits for a message with ctx, checks the holder of the socket, and sends it.
func (w *world) exchange(ctx context.Context, t *testing.T, msg string, want Holder) {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		msg, err := w.Read(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- string(msg)
	}()
	synctest.Wait()
	if holder := w.Holder(); holder != want {
		t.Errorf("%s: %d reads the socket, want %d", msg, holder, want)
	}
	w.frames <- "ack"
	w.frames <- msg
	if read := <-got; read != msg {
		t.Errorf("got %q, want %q", read, msg)
	}
	synctest.Wait()
}

func TestReaderHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		ctx := context.Background()
		for range 3 {
			w.exchange(ctx, t, "first", Keeper) // it has stood in since nobody waited
			for range 3 {
				w.exchange(ctx, t, "later", Waiter)
			}
			time.Sleep(2 * takeOver)
			synctest.Wait()
			if holder := w.Holder(); holder != Keeper {
				t.Errorf("nobody waits, and %d reads", holder)
			}
		}
		w.exchange(ctx, t, "first", Keeper)
		w.exchange(t.Context(), t, "may end", Keeper)
		w.exchange(t.Context(), t, "may end", Keeper)
		w.end(io.ErrClosedPipe)
		if err := <-w.served; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("served: %v", err)
		}
	})
}

// With either holder, the loss of the socket, a bad frame and the end of ctx end Serve, and a new
// socket serves the caller that waits.
func TestReaderSocketEnds(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"lost":  func(w *world) { w.cut <- io.ErrUnexpectedEOF },
		"bad":   func(w *world) { w.frames <- "bad" },
		"ended": func(w *world) { w.end(io.ErrClosedPipe) },
	} {
		for _, holder := range []Holder{Keeper, Waiter} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				if holder == Waiter {
					w.exchange(context.Background(), t, "first", Keeper)
				}
				got := make(chan string, 1)
				go func() {
					msg, _ := w.Read(context.Background())
					got <- string(msg)
				}()
				synctest.Wait()
				if h := w.Holder(); h != holder {
					t.Errorf("%s: %d reads, want %d", name, h, holder)
				}
				end(w)
				err := <-w.served
				if err == nil || name == "ended" && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("%s: served: %v", name, err)
				}
				if h := w.Holder(); h != Nobody {
					t.Errorf("%s: %d reads no socket", name, h)
				}
				w.serve(t)
				w.frames <- "x"
				if msg := <-got; msg != "x" {
					t.Errorf("%s: got %q", name, msg)
				}
				w.end(nil)
				<-w.served
			})
		}
	}
}

// The keeper reads on only while there is room.
func TestReaderRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, cfg *ReaderConfig) {
			w.room = make(chan struct{}, 10)
			cfg.Room = func(ctx context.Context) error {
				select {
				case <-w.room:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
		select {
		case w.frames <- "x":
			t.Error("read without room")
		default:
		}
		w.room <- struct{}{}
		w.frames <- "x"
		w.end(io.ErrClosedPipe)
		if err := <-w.served; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("served: %v", err)
		}
	})
}
