package capnweb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// connected is a client of a served service, whose tables are checked at the end.
func connected(t *testing.T) (*service, *Session) {
	t.Helper()
	v := newService()
	s, c := pair(t, Config{Main: v.main, Logger: testLogger(t)})
	t.Cleanup(func() {
		// The test's context has ended by now.
		for end := time.Now().Add(time.Minute); c.Err() == nil && s.Err() == nil; runtime.Gosched() {
			if s.Stats() == (Stats{1, 1}) && c.Stats() == (Stats{1, 1}) {
				return
			}
			if time.Now().After(end) || t.Failed() {
				t.Errorf("at rest the server holds %+v, the client %+v", s.Stats(), c.Stats())
				return
			}
		}
	})
	return v, c
}

func TestCall(t *testing.T) {
	_, c := connected(t)
	ctx := aMinute(t)
	var sum int
	if err := c.Main().Call(ctx, &sum, "add", 1, 2); err != nil || sum != 3 {
		t.Errorf("%d, %v", sum, err)
	}
	var rev struct {
		CurrentRev int `json:"currentRev"`
	}
	if err := c.Main().Call(ctx, &rev, "sync.watermarks"); err != nil || rev.CurrentRev != 7 {
		t.Errorf("%+v, %v", rev, err)
	}
	var limit int
	if err := c.Main().At("sync", "limit").Await(ctx, &limit); err != nil || limit != 5 {
		t.Errorf("%d, %v", limit, err)
	}
	err := c.Main().Call(ctx, nil, "fail", "ENOENT")
	want := &Error{Name: "WorkspaceFsError", Message: "no ENOENT", Code: "ENOENT", Props: Object{{"path", "/p"}}}
	if diff := cmp.Diff(error(want), err); diff != "" {
		t.Error(diff)
	}
	if !errors.Is(err, &Error{Code: "ENOENT"}) || errors.Is(err, &Error{Code: "EINVAL"}) || Code(err) != "ENOENT" {
		t.Errorf("%v is not told by its code", err)
	}
	if err := c.Main().Call(ctx, &limit, "echo", "text"); err == nil {
		t.Error("a string was decoded as a number")
	}
}

// Calls on what is not there yet, as arguments and as receivers, and on what has come.
func TestPipelining(t *testing.T) {
	v, c := connected(t)
	ctx := aMinute(t)
	main := c.Main()
	obj := main.Start(ctx, "makeObject")
	one, two := obj.Start(ctx, "next"), obj.Start(ctx, "next")
	sum := main.Start(ctx, "add", one, two)
	var n int
	if err := sum.Await(ctx, &n); err != nil || n != 3 {
		t.Errorf("%d, %v", n, err)
	}
	var got *Stub
	if err := obj.Await(ctx, &got); err != nil {
		t.Fatal(err)
	}
	for i, stub := range []*Stub{got, obj} { // obj has its value by now
		if err := stub.Call(ctx, &n, "next"); err != nil || n != 3+i {
			t.Errorf("%d, %v", n, err)
		}
	}
	bad := main.Start(ctx, "fail", "X")
	if err := bad.At("y").Call(ctx, nil, "z"); Code(err) != "X" {
		t.Errorf("%v", err)
	}
	for _, s := range []*Stub{obj, one, two, sum, got, bad} {
		s.Release()
		s.Release() // again does nothing
	}
	if err := got.Call(ctx, nil, "next"); !errors.Is(err, ErrReleased) {
		t.Errorf("%v", err)
	}
	for v.disposed.Load() != 1 {
		runtime.Gosched()
	}
}

func TestCallbacks(t *testing.T) {
	_, c := connected(t)
	ctx := aMinute(t)
	disposed := make(chan struct{})
	f := NewFunc(Func1(func(_ context.Context, n int) (int, error) { return 2 * n, nil }))
	f.OnDispose(func() { close(disposed) })
	var n int
	if err := c.Main().Call(ctx, &n, "callBack", f, 21); err != nil || n != 42 {
		t.Errorf("%d, %v", n, err)
	}
	select {
	case <-disposed:
	case <-ctx.Done():
		t.Error("the callback is held for ever")
	}
}

// An object that comes back is called here, without the wire.
func TestObjectComesBack(t *testing.T) {
	v, c := connected(t)
	ctx := aMinute(t)
	back := c.Main().Start(ctx, "returnBack", v.object())
	var n int
	if err := back.Call(ctx, &n, "next"); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	var local *Stub
	if err := back.Await(ctx, &local); err != nil {
		t.Fatal(err)
	}
	if err := local.Call(ctx, &n, "next"); err != nil || n != 2 {
		t.Errorf("%d, %v", n, err)
	}
	local.Release()
	back.Release()
}

func TestMap(t *testing.T) {
	_, c := connected(t)
	ctx := aMinute(t)
	main := c.Main()
	users := main.Start(ctx, "users")
	mapped := users.Map(ctx, func(m *Mapper, u Var) any {
		return map[string]any{"id": u.At("id"), "n": u.At("obj").Call("next"), "sum": m.Call(main, "add", u.At("id"), 10), "k": "k"}
	})
	var got []struct {
		ID  int    `json:"id"`
		N   int    `json:"n"`
		Sum int    `json:"sum"`
		K   string `json:"k"`
	}
	if err := mapped.Await(ctx, &got); err != nil || len(got) != 2 || got[1].ID != 2 || got[1].N != 1 || got[1].Sum != 12 || got[1].K != "k" {
		t.Errorf("%+v, %v", got, err)
	}
	users.Release()
	mapped.Release()
}

func TestStreams(t *testing.T) {
	v, c := connected(t)
	ctx := aMinute(t)
	main := c.Main()
	t.Run("in a result", func(t *testing.T) {
		var r run
		if err := main.Call(ctx, &r, "count", 1000, 3000); err != nil {
			t.Fatal(err)
		}
		seq := 0
		for e, err := range r.Events.All(ctx) {
			if seq++; err != nil || e.Seq != seq || len(e.Data) != 3000 {
				t.Fatalf("%d, %v", e.Seq, err)
			}
		}
		if seq != 1000 {
			t.Errorf("%d items", seq)
		}
	})
	t.Run("as an argument", func(t *testing.T) {
		var sum int
		if err := main.Call(ctx, &sum, "sum", map[string]any{"items": StreamOf(1, 2, 3)}); err != nil || sum != 6 {
			t.Errorf("%d, %v", sum, err)
		}
	})
	t.Run("given back", func(t *testing.T) {
		var s Stream[int]
		if err := main.Call(ctx, &s, "echo", StreamOf(1, 2)); err != nil {
			t.Fatal(err)
		}
		for want := range 2 {
			if n, err := s.Next(ctx); n != want+1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		if _, err := s.Next(ctx); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
	t.Run("left early", func(t *testing.T) {
		var r run
		if err := main.Call(ctx, &r, "count", 1_000_000, 100); err != nil {
			t.Fatal(err)
		}
		for range r.Events.All(ctx) {
			break
		}
		if err := <-v.cancelled; err.Error() != errEnough.Error() {
			t.Error(err)
		}
	})
	t.Run("dropped with its result", func(t *testing.T) {
		if err := main.Call(ctx, nil, "count", 1_000_000, 5); err != nil {
			t.Fatal(err)
		}
		if err := <-v.cancelled; err.Error() != ErrNotConsumed.Error() {
			t.Error(err)
		}
	})
	t.Run("kept by its method", func(t *testing.T) {
		if err := main.Call(ctx, nil, "keep", StreamOf("a")); err != nil {
			t.Fatal(err)
		}
		s := <-v.kept
		if item, err := s.Next(ctx); item != "a" || err != nil {
			t.Errorf("%v, %v", item, err)
		}
		if _, err := s.Next(ctx); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
	t.Run("an item that does not fit", func(t *testing.T) {
		if err := main.Call(ctx, nil, "sum", map[string]any{"items": StreamOf("x")}); err == nil {
			t.Error("a string was summed")
		}
	})
	t.Run("sent twice", func(t *testing.T) {
		s := StreamOf(1)
		if err := main.Call(ctx, nil, "sum", map[string]any{"items": s}); err != nil {
			t.Error(err)
		}
		if err := main.Call(ctx, nil, "sum", map[string]any{"items": s}); !errors.Is(err, ErrReleased) {
			t.Error(err)
		}
	})
	t.Run("written to", func(t *testing.T) {
		sink, from := NewSink[int]()
		p := main.Start(ctx, "fill", sink)
		defer p.Release()
		for want := range 3 {
			if n, err := from.Next(ctx); n != want || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		if _, err := from.Next(ctx); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if err := p.Await(ctx, nil); err != nil {
			t.Error(err)
		}
	})
}

// A call that is given up is released, and goes on.
func TestCallIsGivenUp(t *testing.T) {
	v, c := connected(t)
	ctx, cancel := context.WithCancel(aMinute(t))
	done := make(chan error)
	go func() { done <- c.Main().Call(ctx, nil, "wait", "x") }()
	<-v.started
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := c.Stats(); got != (Stats{1, 1}) {
		t.Errorf("%+v", got)
	}
	v.release <- struct{}{}
}

// What is given up before it is sent is not done.
func TestCallIsGivenUpBefore(t *testing.T) {
	_, c := connected(t)
	ctx, cancel := context.WithCancelCause(aMinute(t))
	reason := errors.New("reason")
	cancel(reason)
	pushed := func() int64 {
		c.lock()
		defer c.unlock()
		return c.nextImport
	}
	before := pushed()
	if err := c.Main().Call(ctx, nil, "add", 1, 2); err != reason {
		t.Error(err)
	}
	if pushed() != before {
		t.Error("pushed all the same")
	}
}

// The end of a session ends what runs in it, with its reason, at both ends.
func TestEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(client, server *Session)
		server func(error) bool
		client func(error) bool
	}{
		"client closes": {
			func(c, _ *Session) { c.Close() },
			func(err error) bool { return errors.Is(err, ErrClosed) },
			func(err error) bool { return errors.Is(err, ErrClosed) },
		},
		"server aborts": {
			func(_, s *Session) { s.Abort(Errorf("ESHUTDOWN", "going down")) },
			func(err error) bool { return Code(err) == "ESHUTDOWN" },
			func(err error) bool {
				_, aborted := errors.AsType[*AbortError](err)
				return aborted && Code(err) == "ESHUTDOWN"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newService()
			s, c := pair(t, Config{Main: v.main})
			ctx := aMinute(t)
			waits := make(chan error, 1)
			go func() { waits <- c.Main().Call(ctx, nil, "wait", "x") }()
			<-v.started
			var r run
			if err := c.Main().Call(ctx, &r, "count", 1000, 100_000); err != nil {
				t.Fatal(err)
			}
			obj := c.Main().Start(ctx, "makeObject")
			if err := obj.Call(ctx, nil, "next"); err != nil {
				t.Fatal(err)
			}
			tt.end(c, s)
			if err := <-waits; !tt.client(err) {
				t.Errorf("call: %v", err)
			}
			for {
				if _, err := r.Events.Next(ctx); err != nil {
					if !tt.client(err) {
						t.Errorf("stream: %v", err)
					}
					break
				}
			}
			if err := <-v.cancelled; !tt.server(err) {
				t.Errorf("cancelled: %v", err)
			}
			if err := s.Wait(); !tt.server(err) {
				t.Errorf("server: %v", err)
			}
			if err := c.Wait(); !tt.client(err) {
				t.Errorf("client: %v", err)
			}
			if v.disposed.Load() != 1 {
				t.Error("the object is held after the end")
			}
			if err := c.Main().Call(ctx, nil, "echo", 1); !tt.client(err) {
				t.Errorf("call after the end: %v", err)
			}
		})
	}
}

func TestNoMain(t *testing.T) {
	s, _ := pair(t, Config{})
	err := s.Main().Call(aMinute(t), nil, "x")
	if err == nil || err.Error() != "This connection has no main object." {
		t.Error(err)
	}
}

// A service that ends with its context tells its peers.
func TestServe(t *testing.T) {
	a, b := rpc.Pair()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- Serve(ctx, a, Config{Main: newService().main}) }()
	c := New(b, Config{})
	if err := c.Main().Call(aMinute(t), nil, "echo", 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-served; err == nil || err.Error() != "the server goes away" {
		t.Error(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the client was not told")
	}

	a, b = rpc.Pair()
	go func() { served <- Serve(t.Context(), a, Config{}) }()
	New(b, Config{}).Close()
	if err := <-served; err != nil {
		t.Errorf("after a client that closed: %v", err)
	}
}

// Objects of one session's peer work for the peer of another one, streams too.
func TestProxy(t *testing.T) {
	v, inner := connected(t)
	front := NewTarget()
	front.Handle("object", Func0(func(ctx context.Context) (*Stub, error) {
		var obj *Stub
		err := inner.Main().Call(ctx, &obj, "makeObject")
		return obj, err
	}))
	front.Handle("count", Func0(func(ctx context.Context) (Stream[any], error) {
		var r struct {
			Events Stream[any] `json:"events"`
		}
		err := inner.Main().Call(ctx, &r, "count", 3, 3)
		return r.Events, err
	}))
	s, c := pair(t, Config{Main: front, Logger: testLogger(t)})
	ctx := aMinute(t)
	obj := c.Main().Start(ctx, "object")
	for want := 1; want <= 3; want++ {
		var n int
		if err := obj.Call(ctx, &n, "next"); err != nil || n != want {
			t.Errorf("%d, %v", n, err)
		}
	}
	obj.Release()
	for v.disposed.Load() != 1 && ctx.Err() == nil {
		runtime.Gosched()
	}
	var events Stream[event]
	if err := c.Main().Call(ctx, &events, "count"); err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range events.All(ctx) {
		if n++; err != nil || e.Seq != n {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if n != 3 || v.disposed.Load() != 1 {
		t.Errorf("%d items, %d disposed", n, v.disposed.Load())
	}
	for s.Stats() != (Stats{1, 1}) && ctx.Err() == nil {
		runtime.Gosched()
	}
	if s.Stats() != (Stats{1, 1}) {
		t.Errorf("%+v", s.Stats())
	}
}

// Methods that are in order hold up those behind them until they let them go on.
func TestInOrder(t *testing.T) {
	api := NewTarget()
	log := make(chan string, 10)
	first, second := make(chan struct{}), make(chan struct{})
	api.Handle("first", InOrder(Method{Run: func(_ context.Context, c *Call) (any, error) {
		log <- "first"
		<-first
		log <- "go"
		c.Go()
		<-second
		log <- "first ends"
		return nil, nil
	}}))
	api.Handle("then", Func1(func(_ context.Context, n int) (any, error) { log <- fmt.Sprint("then ", n); return nil, nil }))
	_, c := pair(t, Config{Main: api})
	ctx := aMinute(t)
	a := c.Main().Start(ctx, "first")
	b := c.Main().Start(ctx, "then", 1)
	<-log
	select {
	case line := <-log:
		t.Errorf("%s before its turn", line)
	case <-time.After(20 * time.Millisecond):
	}
	close(first)
	if got := []string{<-log, <-log}; got[0] != "go" || got[1] != "then 1" {
		t.Error(got)
	}
	close(second)
	if err := errors.Join(a.Await(ctx, nil), b.Await(ctx, nil)); err != nil {
		t.Error(err)
	}
}

// A write is answered before the close behind it, which may be read while the chunk is
// taken.
func TestStreamAnswersInOrder(t *testing.T) {
	_, conn := raw(t, Config{Main: newService().main})
	ctx := aMinute(t)
	for id := 1; id < 4000; id += 4 {
		write, end := fmt.Sprintf(`["resolve",%d,["undefined"]]`, id+2), fmt.Sprintf(`["resolve",%d,["undefined"]]`, id+3)
		for _, msg := range []string{
			`["pipe"]`,
			fmt.Sprintf(`["stream",["pipeline",0,["sum"],[{"items":["readable",%d]}]]]`, id),
			fmt.Sprintf(`["stream",["pipeline",%d,["write"],[4]]]`, id),
			fmt.Sprintf(`["stream",["pipeline",%d,["close"],[]]]`, id),
			fmt.Sprintf(`["release",%d,1]`, id),
		} {
			if err := conn.Write(ctx, []byte(msg)); err != nil {
				t.Fatal(err)
			}
		}
		var answers []string
		for range 3 {
			msg, err := conn.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, string(msg))
		}
		if at := slices.Index(answers, write); at < 0 || at > slices.Index(answers, end) {
			t.Fatalf("answered %s", answers)
		}
	}
}

// What of a result at this end cannot be had a second time gives back the rest of it.
func TestOwnResultTwice(t *testing.T) {
	main, pair := NewTarget(), NewTarget()
	disposed := make(chan struct{})
	pair.Handle("get", Func0(func(context.Context) (any, error) {
		o := NewTarget()
		o.OnDispose(func() { close(disposed) })
		return []any{o, NewStream(func(context.Context) (int, error) { return 0, io.EOF }, nil)}, nil
	}))
	main.Handle("pair", Func0(func(context.Context) (*Target, error) { return pair, nil }))
	main.Handle("twice", Func1(func(ctx context.Context, b *Stub) (bool, error) {
		p := b.Start(ctx, "get")
		defer p.Release()
		var first []any
		if err := p.Await(ctx, &first); err != nil {
			return false, err
		}
		for _, v := range first {
			if stub, ok := v.(*Stub); ok {
				defer stub.Release()
			}
		}
		return errors.Is(p.Await(ctx, nil), ErrReleased), nil
	}))
	_, conn := raw(t, Config{Main: main})
	ctx := aMinute(t)
	for _, msg := range []string{`["push",["pipeline",0,["pair"],[]]]`, `["stream",["pipeline",0,["twice"],[["pipeline",1]]]]`} {
		if err := conn.Write(ctx, []byte(msg)); err != nil {
			t.Fatal(err)
		}
	}
	readUntil(ctx, t, conn, `["resolve",2,true]`)
	select {
	case <-disposed:
	case <-ctx.Done():
		t.Error("the object is held for ever")
	}
}
