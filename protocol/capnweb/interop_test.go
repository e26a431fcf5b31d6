//go:build interop

package capnweb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// packages are the published versions, under the names that npm installs them by in
// CAPNWEB_DIR: capnweb-8@npm:capnweb@0.8.0 and so on.
var packages = []string{"capnweb-8", "capnweb-10", "capnweb-12"}

func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := os.Getenv("CAPNWEB_DIR")
	if dir == "" {
		t.Fatal("CAPNWEB_DIR does not say where npm has put capnweb")
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"testdata/interop/peer.mjs"}, args...)...)
	cmd.Env = append(os.Environ(), "CAPNWEB_DIR="+dir)
	cmd.Stderr = t.Output()
	return cmd
}

// interopService is the service with what only clients in JavaScript ask.
func interopService() *service {
	v := newService()
	var last atomic.Int64
	v.main.Handle("lastCancel", Func0(func(ctx context.Context) (string, error) {
		select {
		case err := <-v.cancelled:
			if e, ok := errors.AsType[*Error](err); ok {
				return e.Message, nil
			}
			return err.Error(), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}))
	v.main.Handle("count", Func2(func(_ context.Context, n, size int) (run, error) {
		seq := 0
		return run{"r", NewStream(func(context.Context) (event, error) {
			if seq == n {
				return event{}, io.EOF
			}
			seq++
			last.Store(int64(seq))
			return event{seq, make([]byte, size)}, nil
		}, func(reason error) { v.cancelled <- reason })}, nil
	}))
	v.main.Handle("lastSeq", Func0(func(context.Context) (int64, error) { return last.Load(), nil }))
	v.main.Handle("disposed", Func0(func(context.Context) (int32, error) { return v.disposed.Load(), nil }))
	v.main.Handle("stats", Method{Run: func(_ context.Context, c *Call) (any, error) { return c.Session().Stats(), nil }})
	v.main.Handle("size", Func1(func(ctx context.Context, in Stream[[]byte]) (int64, error) {
		return io.Copy(io.Discard, NewReader(ctx, in))
	}))
	return v
}

var upgrader = websocket.Upgrader{}

// serveInterop serves WebSockets and batches.
func serveInterop(t *testing.T, cfg Config) *httptest.Server {
	batch := BatchHandler(func(*http.Request) Config { return cfg })
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			batch.ServeHTTP(w, r)
			return
		}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		conn := &orderly{wsconn.New(ws, wsconn.Config{MaxMessageBytes: MaxMessageBytes})}
		if err := Serve(t.Context(), conn, cfg); err != nil {
			t.Errorf("session: %v", err)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// An orderly connection knows that clients say goodbye with CloseCode.
type orderly struct{ *wsconn.Conn }

func (o *orderly) Read(ctx context.Context) ([]byte, error) {
	msg, err := o.Conn.Read(ctx)
	if c, ok := errors.AsType[*websocket.CloseError](err); ok && c.Code == CloseCode {
		err = io.EOF
	}
	return msg, err
}

// runChecks runs the script and makes a subtest of each line that it prints.
func runChecks(t *testing.T, args ...string) {
	cmd := node(t, args...)
	out, err := cmd.Output()
	lines := 0
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "ok "); ok {
			t.Run(strings.TrimSpace(name), func(*testing.T) {})
		} else {
			t.Error(line)
		}
		lines++
	}
	if err != nil || lines == 0 {
		t.Fatalf("node: %v, %d lines", err, lines)
	}
}

func TestInteropServer(t *testing.T) {
	for _, pkg := range packages {
		t.Run(pkg, func(t *testing.T) {
			srv := serveInterop(t, Config{Main: interopService().main})
			t.Run("websocket", func(t *testing.T) { runChecks(t, pkg, "client", "ws"+strings.TrimPrefix(srv.URL, "http")) })
			t.Run("batch", func(t *testing.T) { runChecks(t, pkg, "batch", srv.URL) })
		})
	}
}

// nodeServer starts the package as a server and returns where it listens.
func nodeServer(t *testing.T, pkg string) string {
	cmd := node(t, pkg, "server")
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	port, ok := strings.CutPrefix(strings.TrimSpace(line), "port ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return "127.0.0.1:" + port
}

func TestInteropClient(t *testing.T) {
	for _, pkg := range packages {
		t.Run(pkg, func(t *testing.T) {
			addr := nodeServer(t, pkg)
			s := dialInterop(t, "ws://"+addr)
			ctx := aMinute(t)
			main := s.Main()
			for name, check := range clientChecks {
				t.Run(name, func(t *testing.T) { check(ctx, t, main) })
			}
			t.Run("back-pressure", func(t *testing.T) { backPressure(ctx, t, "ws://"+addr) })
			t.Run("tables at rest", func(t *testing.T) { atRest(ctx, t, s) })
			t.Run("batch", func(t *testing.T) { batchChecks(ctx, t, "http://"+addr) })
		})
	}
}

func atRest(ctx context.Context, t *testing.T, s *Session) {
	t.Helper()
	for s.Stats() != (Stats{1, 1}) {
		select {
		case <-ctx.Done():
			t.Fatalf("the tables hold %+v at rest", s.Stats())
		case <-time.After(time.Millisecond):
		}
	}
}

func batchChecks(ctx context.Context, t *testing.T, url string) {
	b := NewBatch(url, nil, nil)
	defer b.Close()
	sum := b.Main().Start(ctx, "add", 1, 2)
	more := b.Main().Start(ctx, "add", sum, 4)
	bad := b.Main().Start(ctx, "fail", "EINVAL")
	if err := b.Send(ctx); err != nil {
		t.Fatal(err)
	}
	var n, m int
	if err := errors.Join(sum.Await(ctx, &n), more.Await(ctx, &m)); err != nil || n != 3 || m != 7 {
		t.Errorf("%d, %d, %v", n, m, err)
	}
	if err := bad.Await(ctx, nil); Code(err) != "EINVAL" {
		t.Error(err)
	}
}

var clientChecks = map[string]func(context.Context, *testing.T, *Stub){
	"values": func(ctx context.Context, t *testing.T, main *Stub) {
		in := Object{
			{"a", []any{nil, true, 1.5, "s", []any{}, []byte{1, 2}, time.UnixMilli(5).UTC(), InvalidDate{}, Undefined{}}},
			{"b", Object{{"c", &Error{Name: "RangeError", Message: "m", Code: "X", Props: Object{{"n", 1.0}}}}}},
		}
		var out any
		if err := main.Call(ctx, &out, "echo", in); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(in), out); diff != "" {
			t.Error(diff)
		}
	},
	"errors": func(ctx context.Context, t *testing.T, main *Stub) {
		err := main.Call(ctx, nil, "fail", "ENOENT")
		want := &Error{Name: "TypeError", Message: "no ENOENT", Code: "ENOENT", Props: Object{{"path", "/p"}}}
		if diff := cmp.Diff(error(want), err); diff != "" {
			t.Error(diff)
		}
		err = main.Call(ctx, nil, "throwString")
		if thrown, ok := errors.AsType[*Thrown](err); !ok || thrown.Value != "just a string" {
			t.Error(err)
		}
		if err = main.Call(ctx, nil, "nosuch"); err == nil || !strings.Contains(err.Error(), "not a function") {
			t.Error(err)
		}
	},
	"pipelining": func(ctx context.Context, t *testing.T, main *Stub) {
		obj := main.Start(ctx, "makeObject")
		defer obj.Release()
		for i := range 3 {
			var n int
			if err := obj.Call(ctx, &n, "next"); err != nil || n != i+1 {
				t.Errorf("%d, %v", n, err)
			}
		}
		sum := main.Start(ctx, "add", 1, 2)
		defer sum.Release()
		var n int
		if err := main.Call(ctx, &n, "add", sum, 10); err != nil || n != 13 {
			t.Errorf("%d, %v", n, err)
		}
	},
	"objects": func(ctx context.Context, t *testing.T, main *Stub) {
		var obj *Stub
		if err := main.Call(ctx, &obj, "makeObject"); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := obj.Call(ctx, &n, "next"); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		obj.Release()
	},
	"map": func(ctx context.Context, t *testing.T, main *Stub) {
		users := main.Start(ctx, "users")
		defer users.Release()
		mapped := users.Map(ctx, func(m *Mapper, u Var) any {
			return map[string]any{"id": u.At("id"), "n": u.At("obj").Call("next"), "two": m.Call(main, "add", u.At("id"), u.At("id"))}
		})
		defer mapped.Release()
		var out any
		if err := main.Call(ctx, &out, "echo", mapped); err != nil {
			t.Fatal(err)
		}
		want := []any{Object{{"id", 1.0}, {"n", 1.0}, {"two", 2.0}}, Object{{"id", 2.0}, {"n", 1.0}, {"two", 4.0}}}
		if diff := cmp.Diff(any(want), out); diff != "" {
			t.Error(diff)
		}
	},
	"callbacks": func(ctx context.Context, t *testing.T, main *Stub) {
		twice := NewFunc(Func1(func(_ context.Context, n int) (int, error) { return 2 * n, nil }))
		var n int
		if err := main.Call(ctx, &n, "callBack", twice, 21); err != nil || n != 42 {
			t.Errorf("%d, %v", n, err)
		}
	},
	"streams in": func(ctx context.Context, t *testing.T, main *Stub) {
		for _, n := range []int{0, 5, 2000} {
			var r run
			if err := main.Call(ctx, &r, "count", n, 10); err != nil {
				t.Fatal(err)
			}
			seq := 0
			for e, err := range r.Events.All(ctx) {
				if seq++; err != nil || e.Seq != seq || len(e.Data) != 10 {
					t.Fatalf("%+v, %v", e, err)
				}
			}
			if seq != n {
				t.Errorf("%d of %d", seq, n)
			}
		}
	},
	"cancelling": func(ctx context.Context, t *testing.T, main *Stub) {
		var r run
		if err := main.Call(ctx, &r, "count", 1_000_000, 1000); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Events.Next(ctx); err != nil {
			t.Fatal(err)
		}
		r.Events.Cancel(&Error{Message: "stop please"})
		var reason *string
		for reason == nil && ctx.Err() == nil {
			if err := main.Call(ctx, &reason, "lastCancel"); err != nil {
				t.Fatal(err)
			}
		}
		if *reason != "stop please" {
			t.Error(*reason)
		}
	},
	"broken streams": func(ctx context.Context, t *testing.T, main *Stub) {
		var s Stream[int]
		if err := main.Call(ctx, &s, "broken"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(ctx); Code(err) != "EUNKNOWN_HASH" {
			t.Error(err)
		}
		bad := NewStream(func(context.Context) (int, error) { return 0, Errorf("EGONE", "gone") }, nil)
		if err := main.Call(ctx, nil, "sum", map[string]any{"items": bad}); Code(err) != "EGONE" {
			t.Error(err)
		}
	},
	"streams out": func(ctx context.Context, t *testing.T, main *Stub) {
		var n int
		if err := main.Call(ctx, &n, "sum", map[string]any{"items": StreamOf(1, 2, 3)}); err != nil || n != 6 {
			t.Errorf("%d, %v", n, err)
		}
		left := 300
		big := NewStream(func(context.Context) ([]byte, error) {
			if left--; left < 0 {
				return nil, io.EOF
			}
			return make([]byte, 65536), nil
		}, nil)
		if err := main.Call(ctx, &n, "size", big); err != nil || n != 300*65536 {
			t.Errorf("%d, %v", n, err)
		}
		if err := main.Call(ctx, nil, "ignore", StreamOf(1, 2, 3)); err != nil {
			t.Error(err)
		}
	},
	"sinks": func(ctx context.Context, t *testing.T, main *Stub) {
		sink, from := NewSink[int]()
		got := make(chan []int, 1)
		go func() {
			var all []int
			for n, err := range from.All(ctx) {
				if err != nil {
					break
				}
				all = append(all, n)
			}
			got <- all
		}()
		if err := main.Call(ctx, nil, "fill", sink); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]int{0, 1, 2}, <-got); diff != "" {
			t.Error(diff)
		}
	},
}

func dialInterop(t *testing.T, url string) *Session {
	t.Helper()
	ws, res, err := websocket.DefaultDialer.Dial(url, nil)
	if res != nil {
		res.Body.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s := New(wsconn.New(ws, wsconn.Config{}), Config{})
	t.Cleanup(func() { s.Close() })
	return s
}

// A reader that does not read holds us back. Its session is not used for anything else,
// as the stream stays in it.
func backPressure(ctx context.Context, t *testing.T, url string) {
	main := dialInterop(t, url).Main()
	sent := make(chan int, 1000)
	n := 0
	endless := NewStream(func(context.Context) ([]byte, error) {
		n++
		sent <- n
		return make([]byte, 65536), nil
	}, nil)
	stuck := main.Start(ctx, "never", endless)
	defer stuck.Release()
	last := 0
	for last < 3 {
		select {
		case last = <-sent:
		case <-ctx.Done():
			t.Fatal(fmt.Sprint(last, " chunks were taken"))
		}
	}
	// Three chunks fill the window; no other is taken before there is room.
	select {
	case <-sent:
		t.Error("a fourth chunk was taken")
	case <-time.After(300 * time.Millisecond):
	}
}
