package capnweb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// drawValue draws a value of those that decode as they were.
func drawValue(t *rapid.T, depth int) any {
	kinds := 9
	if depth > 0 {
		kinds = 11
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.Float64().Draw(t, "float") + 0
	case 3:
		return float64(rapid.Int32().Draw(t, "int"))
	case 4:
		return rapid.String().Draw(t, "text")
	case 5:
		return rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes")
	case 6:
		return Undefined{}
	case 7:
		return time.UnixMilli(rapid.Int64Range(-maxDate, maxDate).Draw(t, "ms")).UTC()
	case 8:
		return &Error{Name: "N", Message: rapid.String().Draw(t, "message"), Code: rapid.String().Draw(t, "code")}
	case 9:
		list := make([]any, rapid.IntRange(0, 4).Draw(t, "length"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return list
	default:
		o := Object{}
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			o = append(o, Member{fmt.Sprint(rapid.StringMatching(`[a-z ]{0,5}`).Draw(t, "name"), i), drawValue(t, depth-1)})
		}
		return o
	}
}

func TestValuesSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 5)
		text, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(v, got); diff != "" {
			t.Fatalf("%s: %s", text, diff)
		}
	})
}

// An act is one thing that an end does with the other.
type act struct {
	Server bool // which end does it
	Kind   string
	N      int // items, or calls
	Size   int
	Stop   int // the item after which the reader stops
}

// peerTarget is what both ends serve in TestSessions.
func peerTarget() *Target {
	t := NewTarget()
	t.Handle("echo", Func1(func(_ context.Context, v any) (any, error) { return v, nil }))
	t.Handle("add", Func2(func(_ context.Context, a, b int) (int, error) { return a + b, nil }))
	t.Handle("fail", Func1(func(_ context.Context, code string) (any, error) { return nil, Errorf(code, "no") }))
	t.Handle("counter", Func0(func(context.Context) (*Target, error) {
		c, n := NewTarget(), 0
		var mu sync.Mutex
		c.Handle("next", InOrder(Func0(func(context.Context) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			n++
			return n, nil
		})))
		return c, nil
	}))
	t.Handle("items", Func2(func(_ context.Context, n, size int) (Stream[[]byte], error) { return items(n, size), nil }))
	t.Handle("take", Func2(func(ctx context.Context, in Stream[[]byte], stop int) (int, error) { return takeItems(ctx, in, stop) }))
	t.Handle("apply", Func2(func(ctx context.Context, f *Stub, n int) (int, error) {
		var out int
		err := f.Call(ctx, &out, "", n)
		return out, err
	}))
	return t
}

func items(n, size int) Stream[[]byte] {
	i := 0
	return NewStream(func(context.Context) ([]byte, error) {
		if i++; i > n {
			return nil, io.EOF
		}
		return slices.Repeat([]byte{byte(i)}, size), nil
	}, nil)
}

// takeItems reads a stream to its end, or stops after some items, and checks their order.
func takeItems(ctx context.Context, in Stream[[]byte], stop int) (int, error) {
	n := 0
	for item, err := range in.All(ctx) {
		if err != nil {
			return n, err
		}
		if n++; bytes.Count(item, []byte{byte(n)}) != len(item) {
			return n, fmt.Errorf("item %d is %x", n, item[:min(len(item), 8)])
		}
		if n == stop {
			break
		}
	}
	return n, nil
}

// do does one act and tells what is wrong with its outcome.
func (a act) do(ctx context.Context, main *Stub) error {
	wrong := func(got any, err error) error { return fmt.Errorf("%+v: %v, %w", a, got, err) }
	fault := errors.New("is not right")
	stop := min(a.Stop, a.N)
	if stop == 0 {
		stop = a.N
	}
	var n int
	switch a.Kind {
	case "chain":
		p := main.Start(ctx, "add", 0, 0)
		for range a.N {
			next := main.Start(ctx, "add", p, 1)
			p.Release()
			p = next
		}
		defer p.Release()
		if err := p.Await(ctx, &n); err != nil || n != a.N {
			return wrong(n, errors.Join(err, fault))
		}
	case "fail":
		p := main.Start(ctx, "fail", "CODE")
		defer p.Release()
		if err := main.Call(ctx, nil, "echo", []any{1, p.At("x")}); Code(err) != "CODE" {
			return wrong("", errors.Join(err, fault))
		}
	case "counter":
		c := main.Start(ctx, "counter")
		defer c.Release()
		for want := 1; want <= a.N; want++ {
			if err := c.Call(ctx, &n, "next"); err != nil || n != want {
				return wrong(n, errors.Join(err, fault))
			}
		}
	case "abandon":
		for range a.N {
			main.Start(ctx, "counter").Release()
		}
	case "items":
		var s Stream[[]byte]
		if err := main.Call(ctx, &s, "items", a.N, a.Size); err != nil {
			return wrong("", err)
		}
		if n, err := takeItems(ctx, s, a.Stop); err != nil || n != stop {
			return wrong(n, errors.Join(err, fault))
		}
	case "take":
		if err := main.Call(ctx, &n, "take", items(a.N, a.Size), a.Stop); err != nil || n != stop {
			return wrong(n, errors.Join(err, fault))
		}
	case "apply":
		f := NewFunc(Func1(func(_ context.Context, n int) (int, error) { return n + 1, nil }))
		if err := main.Call(ctx, &n, "apply", f, a.N); err != nil || n != a.N+1 {
			return wrong(n, errors.Join(err, fault))
		}
	case "map":
		list := make([]int, a.N)
		for i := range list {
			list[i] = i
		}
		p := main.Start(ctx, "echo", list)
		defer p.Release()
		m := p.Map(ctx, func(m *Mapper, item Var) any { return m.Call(main, "add", item, 1) })
		defer m.Release()
		var got []int
		if err := m.Await(ctx, &got); err != nil || len(got) != a.N || a.N > 0 && got[a.N-1] != a.N {
			return wrong(got, errors.Join(err, fault))
		}
	}
	return nil
}

// Both ends do many things at once; each has the right outcome, and in the end nothing is
// held.
func TestSessions(t *testing.T) {
	kinds := []string{"chain", "fail", "counter", "abandon", "items", "take", "apply", "map"}
	rapid.Check(t, func(t *rapid.T) {
		plan := make([]act, rapid.IntRange(1, 12).Draw(t, "acts"))
		for i := range plan {
			plan[i] = act{
				Server: rapid.Bool().Draw(t, "server"), Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
				N: rapid.IntRange(0, 20).Draw(t, "n"), Size: rapid.SampledFrom([]int{0, 10, 70_000}).Draw(t, "size"),
				Stop: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "stop"),
			}
		}
		if err := carryOut(plan); err != nil {
			t.Fatal(err)
		}
	})
}

func carryOut(plan []act) error {
	a, b := rpc.Pair()
	left, right := New(a, Config{Main: peerTarget()}), New(b, Config{Main: peerTarget()})
	defer right.Close()
	defer left.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	faults := make(chan error, len(plan))
	for _, act := range plan {
		main := left.Main()
		if act.Server {
			main = right.Main()
		}
		go func() { faults <- act.do(ctx, main) }()
	}
	var all error
	for range plan {
		all = errors.Join(all, <-faults)
	}
	if all != nil {
		return all
	}
	for !left.atRest() || !right.atRest() { // calls that were abandoned still run
		select {
		case <-ctx.Done():
			return fmt.Errorf("at rest %+v, %+v", left.Stats(), right.Stats())
		case <-left.Done():
			return left.Err()
		case <-time.After(100 * time.Microsecond):
		}
	}
	return nil
}

// atRest reports whether nothing is held but the main objects, and nothing is counted.
func (s *Session) atRest() bool {
	s.lock()
	defer s.unlock()
	return len(s.imports) == 1 && len(s.exports) == 1 && s.callBytes+s.heldBytes+s.streamBytes+s.unanswered == 0
}
