package capnweb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// A service is what the tests serve.
type service struct {
	main      *Target
	disposed  atomic.Int32  // of objects that makeObject made
	cancelled chan error    // reasons of streams that were cancelled
	release   chan struct{} // lets wait return
	taken     chan any      // items that consume took, one at a time
	started   chan string   // names of waiting calls
	kept      chan Stream[any]
}

type event struct {
	Seq  int    `json:"seq"`
	Data []byte `json:"data,omitempty"`
}

type run struct {
	ID     string        `json:"id"`
	Events Stream[event] `json:"events"`
}

func newService() *service {
	v := &service{
		main: NewTarget(), cancelled: make(chan error, 16), release: make(chan struct{}, 16),
		taken: make(chan any), started: make(chan string, 16), kept: make(chan Stream[any], 1),
	}
	m := v.main
	m.Handle("echo", Func1(func(_ context.Context, a any) (any, error) { return a, nil }))
	m.Handle("all", Method{Run: func(_ context.Context, c *Call) (any, error) { return c.Args, nil }})
	m.Handle("add", Func2(func(_ context.Context, a, b int) (int, error) { return a + b, nil }))
	m.Handle("nothing", Func0(func(context.Context) (Undefined, error) { return Undefined{}, nil }))
	m.Handle("fail", Func1(func(_ context.Context, code string) (any, error) {
		return nil, fmt.Errorf("open: %w", &Error{Name: "WorkspaceFsError", Message: "no " + code, Code: code, Props: Object{{"path", "/p"}}})
	}))
	m.Handle("secret", Func0(func(context.Context) (any, error) { return nil, errors.New("password is 1234") }))
	m.Handle("panic", Func0(func(context.Context) (any, error) { panic("boom") }))
	m.Handle("throw", Func1(func(_ context.Context, v any) (any, error) { return nil, &Thrown{v} }))
	m.Handle("wait", Func1(func(ctx context.Context, name string) (string, error) {
		select {
		case v.started <- name:
		default:
		}
		select {
		case <-v.release:
			return name, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}))
	m.Handle("count", Func2(func(_ context.Context, n, size int) (run, error) {
		return run{"r", v.events(n, size)}, nil
	}))
	m.Handle("bare", Func1(func(_ context.Context, n int) (Stream[event], error) { return v.events(n, 0), nil }))
	m.Handle("broken", Func0(func(context.Context) (Stream[int], error) {
		return NewStream(func(context.Context) (int, error) { return 0, Errorf("EUNKNOWN_HASH", "mid stream") }, nil), nil
	}))
	m.Handle("sum", Func1(func(ctx context.Context, in struct {
		Items Stream[int] `json:"items"`
	},
	) (int, error) {
		sum := 0
		for n, err := range in.Items.All(ctx) {
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	}))
	m.Handle("consume", Func1(func(ctx context.Context, in Stream[any]) (any, error) {
		for item, err := range in.All(ctx) {
			if err != nil {
				v.taken <- err
				return nil, err
			}
			v.taken <- item
		}
		v.taken <- io.EOF
		return nil, nil
	}))
	m.Handle("ignore", Func1(func(context.Context, Stream[any]) (string, error) { return "ignored", nil }))
	m.Handle("keep", Func1(func(_ context.Context, in Stream[any]) (string, error) {
		v.kept <- in.Keep()
		return "kept", nil
	}))
	m.Handle("cancel", Func1(func(ctx context.Context, in Stream[any]) (any, error) {
		if _, err := in.Next(ctx); err != nil {
			return nil, err
		}
		in.Cancel(&Error{Message: "stop please"})
		return nil, nil
	}))
	m.Handle("makeObject", Func0(func(context.Context) (*Target, error) { return v.object(), nil }))
	m.Handle("callBack", Func2(func(ctx context.Context, f *Stub, arg any) (any, error) {
		var out any
		err := f.Call(ctx, &out, "", arg)
		return out, err
	}))
	m.Handle("use", Func1(func(ctx context.Context, o *Stub) (int, error) {
		d := o.Dup() // o itself is released by itself
		defer d.Release()
		var n int
		err := d.Call(ctx, &n, "next")
		return n, err
	}))
	m.Handle("break", Func1(func(ctx context.Context, w *Writer) (any, error) {
		err := w.Write(ctx, 1)
		w.Abort(Errorf("EBROKEN", "enough"))
		return nil, err
	}))
	m.Handle("returnBack", Func1(func(_ context.Context, f *Stub) (*Stub, error) { return f, nil }))
	m.Handle("fill", Func1(func(ctx context.Context, w *Writer) (any, error) {
		for i := range 3 {
			if err := w.Write(ctx, i); err != nil {
				return nil, err
			}
		}
		return nil, w.Close(ctx)
	}))
	m.Handle("users", Func0(func(context.Context) (any, error) {
		return []any{map[string]any{"id": 1, "obj": v.object()}, map[string]any{"id": 2, "obj": v.object()}}, nil
	}))
	sub := NewTarget()
	sub.Handle("watermarks", Func0(func(context.Context) (any, error) {
		return struct {
			CurrentRev int `json:"currentRev"`
			Cursor     struct {
				Rev  int     `json:"rev"`
				Path *string `json:"path"`
			} `json:"fetchCursor"`
		}{CurrentRev: 7}, nil
	}))
	sub.Set("limit", 5)
	m.Set("sync", sub)
	return v
}

// events makes a stream of n events, each with size bytes.
func (v *service) events(n, size int) Stream[event] {
	seq := 0
	return NewStream(func(context.Context) (event, error) {
		if seq == n {
			return event{}, io.EOF
		}
		seq++
		return event{seq, make([]byte, size)}, nil
	}, func(reason error) { v.cancelled <- reason })
}

func (v *service) object() *Target {
	t := NewTarget()
	n := 0
	var mu sync.Mutex
	t.Handle("next", InOrder(Func0(func(context.Context) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n, nil
	})))
	t.OnDispose(func() { v.disposed.Add(1) })
	return t
}

// pair connects a server and a client.
func pair(t *testing.T, server Config) (*Session, *Session) {
	t.Helper()
	a, b := rpc.Pair()
	s, c := New(a, server), New(b, Config{})
	t.Cleanup(func() { c.Close(); s.Close() })
	return s, c
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// aMinute ends a test that hangs.
func aMinute(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
