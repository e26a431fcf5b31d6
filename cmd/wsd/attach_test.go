package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/client"
)

// typingTest is a typing with the keyboard that it reads.
type typingTest struct {
	typing
	keyboard io.WriteCloser
	said     strings.Builder
	mu       sync.Mutex
	got      bytes.Buffer
}

// typingBubble runs a typing on a terminal in fake time; ended has what run returns.
func typingBubble(t *testing.T, send func(context.Context, []byte) error, use func(x *typingTest, ended <-chan error, leave context.CancelFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		in, keyboard := io.Pipe()
		ctx, leave := context.WithCancel(t.Context())
		x := &typingTest{keyboard: keyboard}
		x.typing = typing{in: in, keys: true, tty: true}
		x.say = func(format string, args ...any) { fmt.Fprintf(&x.said, format+"\n", args...) }
		x.send = func(ctx context.Context, data []byte) error {
			if err := send(ctx, data); err != nil {
				return err
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.got.Write(data)
			return nil
		}
		ended := make(chan error, 1)
		go func() { ended <- x.run(ctx) }()
		use(x, ended, leave)
		leave()
		keyboard.Close()
		synctest.Wait()
	})
}

func (x *typingTest) key(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(x.keyboard, text); err != nil {
		t.Error(err)
	}
}

// The keys before ^] are sent, in order.
func TestAttachTyped(t *testing.T) {
	typingBubble(t, func(context.Context, []byte) error { return nil }, func(x *typingTest, ended <-chan error, _ context.CancelFunc) {
		for i := range 100 {
			x.key(t, fmt.Sprint(i, " "))
		}
		x.key(t, "last\x1dnot")
		if err := <-ended; !errors.Is(err, errLeft) || x.said.Len() > 0 {
			t.Errorf("%v, %q", err, &x.said)
		}
		if got := x.got.String(); !strings.HasPrefix(got, "0 1 2 ") || !strings.HasSuffix(got, " 98 99 last") {
			t.Errorf("it was sent %q", got)
		}
	})
}

// ^] leaves a process that does not read, however much was typed. A message says how much is
// not sent.
func TestAttachLeavesStuckProcess(t *testing.T) {
	stuck := func(ctx context.Context, _ []byte) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for pieces, said := range map[int]string{
		10:              "40960 bytes of what was typed are not sent",
		typedPieces * 2: "what is typed from now on is not sent",
	} {
		typingBubble(t, stuck, func(x *typingTest, ended <-chan error, _ context.CancelFunc) {
			for range pieces {
				x.key(t, strings.Repeat("x", typedPiece))
			}
			x.key(t, "\x1d")
			if err := <-ended; !errors.Is(err, errLeft) || strings.Count(x.said.String(), said) != 1 {
				t.Errorf("%v, %q", err, &x.said)
			}
		})
	}
}

// A process without input is shown on: it is said once that it takes none.
func TestAttachNoInput(t *testing.T) {
	typingBubble(t, func(context.Context, []byte) error { return client.ErrNoInput }, func(x *typingTest, ended <-chan error, leave context.CancelFunc) {
		for range 10 {
			x.key(t, "text")
			synctest.Wait()
		}
		select {
		case err := <-ended:
			t.Errorf("it ended with %v", err)
		default:
		}
		if said := x.said.String(); said != "the process takes no input\n" {
			t.Errorf("it said %q", said)
		}
		x.key(t, "\x1d")
		if err := <-ended; !errors.Is(err, errLeft) {
			t.Error(err)
		}
	})
}

// The end of the input ends nothing, and a failure does.
func TestAttachInputEnds(t *testing.T) {
	typingBubble(t, func(context.Context, []byte) error { return nil }, func(x *typingTest, ended <-chan error, leave context.CancelFunc) {
		x.key(t, "text")
		if err := x.keyboard.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := x.got.String(); got != "text" || len(ended) > 0 {
			t.Errorf("%q, %d", got, len(ended))
		}
		leave()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	failure := errors.New("the connection is gone")
	typingBubble(t, func(context.Context, []byte) error { return failure }, func(x *typingTest, ended <-chan error, _ context.CancelFunc) {
		x.key(t, "text")
		if err := <-ended; !errors.Is(err, failure) {
			t.Error(err)
		}
	})
}
