package stream

import (
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
)

func TestResult(t *testing.T) {
	for name, p := range map[string]askParams{
		"none":          {},
		"one":           {Count: 1, Size: 10},
		"many":          {Count: 5000, Size: 100},
		"many, eager":   {Count: 500, Size: 100, Eager: true},
		"long":          {Count: 9, Size: 700_000},
		"long, eager":   {Count: 9, Size: 1_500_000, Eager: true},
		"a tiny window": {Count: 50, Size: 100, Window: new(int64)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if p.Window != nil {
					*p.Window = 1
				}
				c, e := both(t)
				in := c.ask(t, p)
				if n, err := drain(t, in); n != p.Count || err != nil {
					t.Fatalf("%d items, %v", n, err)
				}
				in.Close(nil)
				if err := <-e.service.closed; err != nil {
					t.Errorf("the source was closed with %v", err)
				}
				synctest.Wait()
				if len(c.set.in)+len(e.service.set.out) != 0 {
					t.Error("streams are left")
				}
			})
		})
	}
}

// A source that fails in the middle.
func TestResultFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := both(t)
		e.service.err = &protocol.NamedError{Code: "EIO", Message: "the disk is gone", Path: "/d"}
		n, err := drain(t, c.ask(t, askParams{Count: 3}))
		failure, ok := errors.AsType[*protocol.NamedError](err)
		if n != 3 || !ok || *failure != (protocol.NamedError{Code: "EIO", Message: "the disk is gone", Path: "/d"}) {
			t.Errorf("%d items, %v", n, err)
		}
		if err := <-e.service.closed; !errors.Is(err, e.service.err) {
			t.Errorf("closed with %v", err)
		}
	})
}

// An eager stream does not wait for more, another one does.
func TestEager(t *testing.T) {
	for _, eager := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, e := both(t)
			e.service.gate = make(chan struct{})
			in := c.ask(t, askParams{Count: 2, Eager: eager})
			e.service.gate <- struct{}{}
			synctest.Wait()
			in.mu.Lock()
			arrived := len(in.queue)
			in.mu.Unlock()
			if want := map[bool]int{true: 1, false: 0}[eager]; arrived != want {
				t.Errorf("eager %v: %d messages", eager, arrived)
			}
			close(e.service.gate)
			if n, err := drain(t, in); n != 2 || err != nil {
				t.Errorf("%d items, %v", n, err)
			}
		})
	}
}

// Whoever reads slowly holds up its own stream, at a bounded cost, and nothing else.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := both(t)
		window := int64(64 << 10)
		const size = 1000
		slow := c.ask(t, askParams{Count: 10_000, Size: size, Window: &window, Eager: true})
		synctest.Wait()
		if n := e.service.count(10_000); n > 70 {
			t.Errorf("%d items of %d bytes were taken for a window of %d", n, size, window)
		}
		if n, err := drain(t, c.ask(t, askParams{Count: 3000, Size: size})); n != 3000 || err != nil {
			t.Errorf("another stream: %d items, %v", n, err)
		}
		if err := c.peer.Call(t.Context(), "ping", nil, nil); err != nil {
			t.Error(err)
		}
		if n, err := drain(t, slow); n != 10_000 || err != nil {
			t.Errorf("%d items, %v", n, err)
		}
	})
}

// A reader that goes away has the source closed, whether it waits for its own data, for
// credit or for nothing, and whether or not something is on its way.
func TestCancel(t *testing.T) {
	for name, tt := range map[string]struct {
		params askParams
		gate   bool
		read   int
	}{
		"waits for the source": {askParams{Count: 5}, true, 0},
		"waits for credit":     {askParams{Count: 100_000, Size: 1000}, false, 0},
		"in the middle":        {askParams{Count: 100_000, Size: 1000}, false, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, e := both(t)
				if tt.gate {
					e.service.gate = make(chan struct{})
				}
				in := c.ask(t, tt.params)
				for range tt.read {
					next(t, in)
				}
				in.Close(&protocol.NamedError{Code: "ESTALE", Message: "enough"})
				err := <-e.service.closed
				if failure, ok := errors.AsType[*protocol.NamedError](err); !ok || failure.Code != "ESTALE" {
					t.Errorf("closed with %v", err)
				}
				if _, err := in.Next(t.Context()); !errors.Is(err, ErrCancelled) {
					t.Errorf("after Close: %v", err)
				}
				synctest.Wait()
				if len(c.set.in)+len(e.service.set.out) != 0 {
					t.Error("streams are left")
				}
			})
		})
	}
}

// The notifications of a stream come after the response that names it, also when it has
// to wait.
func TestNothingBeforeTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := rpc.Pair()
		defer a.Close()
		e := serve(b, Config{})
		const calls = 40
		go func() {
			for i := range calls {
				msg, _ := wire.AppendRequest(nil, wire.IntID(int64(i+1)), "ask", askParams{Count: 3, Size: 30_000, Eager: true}, false)
				if err := a.Write(context.Background(), msg); err != nil {
					t.Error(err)
				}
			}
		}()
		named := make(map[string]bool)
		for ended := 0; ended < calls; {
			msg, err := a.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			env, err := wire.ParseEnvelope(msg, wire.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if env.Kind == wire.Response {
				var got answer
				if err := wire.Unmarshal(env.Result, &got); err != nil {
					t.Fatal(err)
				}
				named[got.Stream.StreamID] = true
				continue
			}
			var p protocol.StreamEndParams // what all have
			if err := wire.Unmarshal(env.Params, &p); err != nil {
				t.Fatal(err)
			}
			if !named[p.StreamID] {
				t.Fatalf("%s of %s before it was named", env.Method, p.StreamID)
			}
			if env.Method == protocol.NotifyStreamEnd {
				ended++
			}
		}
		_ = a.Close()
		<-e.done
	})
}

// numbers is a source of the first n numbers.
func numbers(n int, size int, end error) Source {
	i := 0
	return Source{Next: func(context.Context) (any, error) {
		if i == n {
			return nil, end
		}
		i++
		return item{i, strings.Repeat("x", size)}, nil
	}}
}

func TestParam(t *testing.T) {
	for name, tt := range map[string]struct{ count, size int }{
		"none": {0, 0}, "one": {1, 1}, "many": {10_000, 300}, "long": {7, 1_400_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, e := both(t)
				sum, err := c.give(t.Context(), numbers(tt.count, tt.size, io.EOF))
				if want := tt.count * (tt.count + 1) / 2; sum != want || err != nil {
					t.Errorf("%d, %v; want %d", sum, err, want)
				}
				synctest.Wait()
				if len(c.set.out)+len(e.service.set.in) != 0 {
					t.Error("streams are left")
				}
			})
		})
	}
}

func TestParamFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := both(t)
		_, err := c.give(t.Context(), numbers(10, 0, errors.New("cannot read the file")))
		if err == nil || err.Error() != "cannot read the file" {
			t.Errorf("the source fails: %v", err)
		}
		src := Source{Next: func(context.Context) (any, error) { return item{N: -1}, nil }}
		if _, err = c.give(t.Context(), src); err == nil || err.Error() != "a negative number" {
			t.Errorf("the reader fails: %v", err)
		}
		src = Source{Next: func(context.Context) (any, error) { panic("no") }}
		if _, err = c.give(t.Context(), src); err == nil || err.Error() != errPanicked.Error() {
			t.Errorf("the source panics: %v", err)
		}
		src = Source{Next: func(context.Context) (any, error) { return make(chan int), nil }}
		if _, err = c.give(t.Context(), src); err == nil || !strings.Contains(err.Error(), "no JSON for") {
			t.Errorf("an item has no encoding: %v", err)
		}
	})
}

// A stream that is short may stand in the parameters.
func TestParamWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := both(t)
		for raw, want := range map[string]int{`[]`: 0, `[{"n":1,"text":""},{"n":2,"text":""}]`: 3} {
			items := wire.List(raw)
			var a answer
			err := c.peer.Call(t.Context(), "give", &askParams{Stream: &protocol.StreamParam{Items: &items}}, &a)
			if err != nil || a.Sum != want {
				t.Errorf("%s: %d, %v", raw, a.Sum, err)
			}
		}
	})
}

// The end of the connection ends what is under way, at both ends.
func TestConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := both(t)
		quiet := c.ask(t, askParams{Count: 100_000, Size: 1000})
		e.service.gate = make(chan struct{})
		waiting := c.ask(t, askParams{Count: 1})
		given := make(chan error, 1)
		go func() {
			_, err := c.give(t.Context(), numbers(1_000_000, 1000, io.EOF))
			given <- err
		}()
		synctest.Wait()
		_ = e.peer.Close()
		<-e.done
		<-c.done
		for range 2 {
			if err := <-e.service.closed; !errors.Is(err, rpc.ErrClosed) {
				t.Errorf("closed with %v", err)
			}
		}
		if err := <-given; !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("give: %v", err)
		}
		if n, err := drain(t, quiet); n == 0 || !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("%d items, then %v", n, err)
		}
		if _, err := waiting.Next(t.Context()); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("next: %v", err)
		}
		if _, err := c.set.Reserve(nil, 1); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("reserve: %v", err)
		}
		if _, err := c.set.Expect(protocol.StreamRef{StreamID: "x"}, 1); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("expect: %v", err)
		}
	})
}

// A Source that is given while the connection ends is closed once.
func TestSendWhileTheConnectionEnds(t *testing.T) {
	s := New(nil, Config{})
	o, err := s.Reserve(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock() // so that Stop waits in its middle
	go o.Stop(ErrClosed)
	for !o.Stopped() {
		runtime.Gosched()
	}
	closed := 0
	o.Send(t.Context(), Source{Close: func(err error) {
		if closed++; !errors.Is(err, ErrClosed) {
			t.Errorf("closed with %v", err)
		}
	}})
	s.mu.Unlock()
	<-o.Done()
	if closed != 1 {
		t.Errorf("closed %d times", closed)
	}
}

// A reader may stop waiting and come back.
func TestNextAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := both(t)
		e.service.gate = make(chan struct{})
		in := c.ask(t, askParams{Count: 3, Eager: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("something else to do")
		cancel(why)
		if _, err := in.Next(ctx); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
		close(e.service.gate)
		if n, err := drain(t, in); n != 3 || err != nil {
			t.Errorf("%d items, %v", n, err)
		}
	})
}

// sink is a Notifier that nobody reads.
type sink struct{ sent int }

func (s *sink) Notify(_ context.Context, _ string, params any) error {
	if items, ok := params.(*protocol.StreamItemsParams); ok {
		s.sent += len(items.Items)
	}
	return nil
}

// A stream that waits for its next item, or for credit, keeps no memory of those before it.
func TestNothingIsKeptWhileItWaits(t *testing.T) {
	to := new(sink)
	s := New(to, Config{})
	o, err := s.Reserve(nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	text := strings.Repeat("x", 100<<10)
	o.Send(t.Context(), Source{Eager: true, Next: func(context.Context) (any, error) {
		if cap(o.batch) > keptBatchBytes {
			t.Errorf("before item %d there are %d bytes", calls, cap(o.batch))
		}
		if calls++; calls == 5 {
			return nil, io.EOF
		}
		return text, nil
	}})
	<-o.Done()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if to.sent != 4*(len(text)+len(`[""]`)) || o.Err() != nil {
		t.Errorf("%d bytes, %v", to.sent, o.Err())
	}
}

// Batches that differ in length do not leave memory behind, each a little more.
func TestBatchesOfAllLengthsKeepLittle(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would free some of it meanwhile
	var before, after runtime.MemStats
	for range 2 { // what pools hold of earlier tests outlives one run
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	o := &Out{}
	data := make([]byte, 6000)
	for round := range 300 {
		for n := 0; n < 20<<10+round*7919%(300<<10); n = len(o.batch) {
			if err := o.append(data); err != nil {
				t.Fatal(err)
			}
		}
		o.reuse(append(o.batch, ']'))
	}
	runtime.GC() // what is kept for the next batch outlives one run
	runtime.ReadMemStats(&after)
	if kept, most := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(8<<20); kept > most {
		t.Errorf("%d bytes are kept, more than %d", kept, most)
	}
}

// Streams of items of all lengths, one after the other, make little fresh memory.
func TestBatchesUseMemoryAgain(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would free what is kept
	data := make([]byte, 200<<10)
	fill := func(item func(data []byte) any, rounds int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			o := &Out{}
			for n := 0; len(o.batch) < protocol.StreamBatchBytes; n += 9973 {
				if err := o.append(item(data[:n%len(data)])); err != nil {
					t.Fatal(err)
				}
			}
			o.reuse(append(o.batch, ']'))
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, item := range map[string]func(data []byte) any{
		"object": func(data []byte) any { return &protocol.SyncObject{Bytes: data} },
		"event":  func(data []byte) any { return protocol.ExecEvent{Name: protocol.ExecStdout, Data: data} },
		"piece":  func(data []byte) any { return protocol.Bytes(data) },
		"raw":    func(data []byte) any { return protocol.RawData(data) },
	} {
		fill(item, 1)
		if made := fill(item, 50); made > 2<<20 {
			t.Errorf("%s: %d bytes are made for 50 batches", name, made)
		}
	}
}
