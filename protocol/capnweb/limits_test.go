package capnweb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// raw serves cfg and gives a peer's end of the connection.
func raw(t *testing.T, cfg Config) (*Session, rpc.Connection) {
	t.Helper()
	end, conn := rpc.Pair()
	cfg.Logger = testLogger(t)
	s := New(end, cfg)
	t.Cleanup(func() { conn.Close(); s.Close() })
	return s, conn
}

// readUntil reads frames until one begins with prefix.
func readUntil(ctx context.Context, t *testing.T, conn rpc.Connection, prefix string) string {
	t.Helper()
	for {
		frame, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("%v instead of %s", err, prefix)
		}
		if strings.HasPrefix(string(frame), prefix) {
			return string(frame)
		}
	}
}

// What aborts a session, by one message.
func TestMessageLimits(t *testing.T) {
	for name, tt := range map[string]struct{ msg, want string }{
		"bytes":   {`["push","` + strings.Repeat("x", MaxMessageBytes) + `"]`, "exceeds maximum size"},
		"values":  {`["push",[[` + strings.Repeat("0,", MaxMessageValues) + `0]]]`, "more than 1048576 values"},
		"depth":   {`["push",` + strings.Repeat("[[", MaxDepth+1) + strings.Repeat("]]", MaxDepth+1) + `]`, "maximum allowed message depth of 256"},
		"nesting": {strings.Repeat("[", 100_000), "nested too deeply"},
		"bigint":  {`["push",["bigint","` + strings.Repeat("1", MaxBigIntDigits+1) + `"]]`, "maximum length of 16384 digits"},
	} {
		t.Run(name, func(t *testing.T) {
			s, conn := raw(t, Config{})
			ctx := aMinute(t)
			if err := conn.Write(ctx, []byte(tt.msg)); err != nil {
				t.Fatal(err)
			}
			if got := readUntil(ctx, t, conn, `["abort"`); !strings.Contains(got, tt.want) {
				t.Error(got)
			}
			if _, ok := errors.AsType[*ProtocolError](s.Wait()); !ok {
				t.Error(s.Err())
			}
		})
	}
}

func TestMessageWithinLimits(t *testing.T) {
	for name, msg := range map[string]string{
		"depth":  strings.Repeat("[[", MaxDepth) + strings.Repeat("]]", MaxDepth),
		"bigint": `["bigint","` + strings.Repeat("1", MaxBigIntDigits) + `"]`,
		"values": `[[` + strings.Repeat("0,", MaxMessageValues-10) + `0]]`,
	} {
		var v any
		if err := Unmarshal([]byte(msg), &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What aborts a session, by what it comes to hold.
func TestTableLimits(t *testing.T) {
	small := defaultBounds
	small.exports, small.imports, small.heldBytes, small.queuedBytes, small.replies = 20, 20, 5000, 1000, 1000
	for name, tt := range map[string]struct{ msg, want string }{
		"exports by push":   {`["push",0]`, "more than 20 exports"},
		"exports by pipe":   {`["pipe"]`, "more than 20 exports"},
		"exports by stream": {`["stream",["pipeline",0,["wait"],["x"]]]`, "more than 20 exports"},
		"imports":           {`["push",["export",-%d]]`, "more than 20 imports"},
		"held":              {`["push","` + strings.Repeat("x", 1000) + `"]`, "more than 5000 bytes of results are held"},
	} {
		t.Run(name, func(t *testing.T) {
			s, conn := raw(t, Config{Main: newService().main, bounds: small})
			ctx := aMinute(t)
			go func() {
				for i := 1; s.Err() == nil; i++ {
					msg := tt.msg
					if strings.Contains(msg, "%d") {
						msg = fmt.Sprintf(msg, i)
						_ = conn.Write(ctx, fmt.Appendf(nil, `["release",%d,0]`, i-1))
					}
					if conn.Write(ctx, []byte(msg)) != nil {
						return
					}
				}
			}()
			if got := readUntil(ctx, t, conn, `["abort"`); !strings.Contains(got, tt.want) {
				t.Error(got)
			}
		})
	}
}

// A peer that sends and never reads does not make the session queue for ever.
func TestPeerDoesNotRead(t *testing.T) {
	small := defaultBounds
	small.queuedBytes, small.replies = 1000, 1000
	s, conn := raw(t, Config{Main: newService().main, bounds: small})
	ctx := aMinute(t)
	for i := 1; s.Err() == nil; i++ { // each needs a release as its answer
		if err := conn.Write(ctx, fmt.Appendf(nil, `["resolve",99,["export",-%d]]`, i)); err != nil {
			break
		}
		if i > 10_000 {
			t.Fatal("it queues for ever")
		}
	}
	<-s.Done()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "does not read") {
		t.Error(err)
	}
}

// Results wait for room; what is asked for later is not lost.
func TestResultsWaitForRoom(t *testing.T) {
	small := defaultBounds
	small.queuedBytes = 1000
	_, conn := raw(t, Config{Main: newService().main, bounds: small})
	ctx := aMinute(t)
	const calls = 100
	arg := strings.Repeat("x", 500)
	go func() {
		for i := 1; i <= calls; i++ {
			_ = conn.Write(ctx, fmt.Appendf(nil, `["push",["pipeline",0,["echo"],["%s"]]]`, arg))
			_ = conn.Write(ctx, fmt.Appendf(nil, `["pull",%d]`, i))
		}
	}()
	for range calls {
		readUntil(ctx, t, conn, `["resolve"`)
	}
}

// Of streams that nobody reads, however many, few have a chunk in hand; sources that have
// none yet keep no other from its turn, and all is sent in the end.
func TestChunksAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, idle, size = 100, 2 * MaxChunksAhead, 1000
		small := defaultBounds
		small.queuedBytes = 20 * size
		all := make(chan struct{})
		var taken atomic.Int32
		var asked sync.WaitGroup
		asked.Add(idle + streams)
		main := NewTarget()
		open := func(wait <-chan struct{}) Method {
			return Func0(func(ctx context.Context) (Stream[string], error) {
				asked.Done()
				<-all
				some := 2
				return NewStream(func(ctx context.Context) (string, error) {
					if wait != nil {
						select {
						case <-wait:
						case <-ctx.Done():
							return "", context.Cause(ctx)
						}
					}
					if some--; some < 0 {
						return "", io.EOF
					}
					time.Sleep(slowSource / 5)
					taken.Add(1)
					return strings.Repeat("x", size), nil
				}, nil), nil
			})
		}
		more := make(chan struct{})
		main.Handle("idle", open(more))
		main.Handle("open", open(nil))
		_, conn := raw(t, Config{Main: main, bounds: small})
		for i := range idle + streams {
			method := "idle"
			if i >= idle {
				method = "open"
			}
			if err := errors.Join(
				conn.Write(t.Context(), fmt.Appendf(nil, `["push",["pipeline",0,["%s"],[]]]`, method)),
				conn.Write(t.Context(), fmt.Appendf(nil, `["pull",%d]`, i+1)),
			); err != nil {
				t.Fatal(err)
			}
		}
		asked.Wait()
		close(all)
		time.Sleep(time.Minute) // of the bubble: the idle ones are slow
		if n := taken.Load(); n < 10 || n > 21+MaxChunksAhead+rpcPairMessages {
			t.Errorf("%d chunks are in hand or queued", n)
		}
		sent := func(n int) {
			for range n {
				readUntil(t.Context(), t, conn, `["stream",["pipeline",`)
			}
		}
		sent(3 * streams) // with their ends
		close(more)
		sent(3 * idle)
		if n := taken.Load(); n != 2*(idle+streams) {
			t.Errorf("%d chunks were taken", n)
		}
	})
}

// rpcPairMessages is how many messages an rpc.Pair holds, and its writer.
const rpcPairMessages = 17

// Calls beyond what may run at once wait their turn.
func TestRunningLimit(t *testing.T) {
	small := defaultBounds
	small.running = 2
	v := newService()
	_, conn := raw(t, Config{Main: v.main, bounds: small})
	ctx := aMinute(t)
	for i := range 4 {
		if err := conn.Write(ctx, fmt.Appendf(nil, `["stream",["pipeline",0,["wait"],["%d"]]]`, i)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		<-v.started
	}
	if err := conn.Write(ctx, []byte(`["push",0]`)); err != nil {
		t.Fatal(err)
	}
	_ = conn.Write(ctx, []byte(`["pull",5]`))
	readUntil(ctx, t, conn, `["resolve",5`) // all has been read by now
	if len(v.started) != 0 {
		t.Error("a third call runs")
	}
	for range 4 {
		v.release <- struct{}{}
	}
	for range 4 {
		readUntil(ctx, t, conn, `["resolve"`)
	}
}

// The call that is too much is rejected, others go on.
func TestCallBytesLimit(t *testing.T) {
	small := defaultBounds
	small.callBytes = 10_000
	v := newService()
	_, conn := raw(t, Config{Main: v.main, bounds: small})
	ctx := aMinute(t)
	big := strings.Repeat("x", 4000)
	send := func(format string, args ...any) {
		t.Helper()
		if err := conn.Write(ctx, fmt.Appendf(nil, format, args...)); err != nil {
			t.Fatal(err)
		}
	}
	send(`["stream",["pipeline",0,["wait"],["%s"]]]`, big)
	send(`["stream",["pipeline",0,["wait"],["%s"]]]`, big)
	send(`["stream",["pipeline",0,["wait"],["%s"]]]`, big)
	if got := readUntil(ctx, t, conn, `["reject",3`); !strings.Contains(got, "ELIMIT") {
		t.Error(got)
	}
	v.release <- struct{}{}
	v.release <- struct{}{}
	readUntil(ctx, t, conn, `["resolve"`)
	readUntil(ctx, t, conn, `["resolve"`)
	// Results that go into arguments count, too: each of these doubles the last.
	send(`["push","%s"]`, strings.Repeat("y", 600))
	for i := 4; i < 20; i++ {
		send(`["push",[[["pipeline",%d],["pipeline",%d]]]]`, i, i)
	}
	send(`["push",["pipeline",0,["echo"],[["pipeline",20]]]]`)
	send(`["pull",21]`)
	if got := readUntil(ctx, t, conn, `["reject",21`); !strings.Contains(got, "ELIMIT") {
		t.Error(got)
	}
}

// The results of what a method calls at its own end are counted until they are decoded.
func TestCallBytesOfOwnCalls(t *testing.T) {
	s, conn := raw(t, Config{Main: newService().main})
	ctx := aMinute(t)
	for _, msg := range []string{`["push",["pipeline",0,["makeObject"],[]]]`, `["stream",["pipeline",0,["use"],[["pipeline",1]]]]`} {
		if err := conn.Write(ctx, []byte(msg)); err != nil {
			t.Fatal(err)
		}
	}
	readUntil(ctx, t, conn, `["resolve",2,1]`)
	s.lock()
	defer s.unlock()
	if s.callBytes != 0 {
		t.Errorf("%d bytes are counted for ever", s.callBytes)
	}
}

// A stream that nobody reads fails by itself; the session and other streams go on.
func TestStreamBytesLimit(t *testing.T) {
	small := defaultBounds
	small.streamBytes = 10_000
	s, conn := raw(t, Config{Main: newService().main, bounds: small})
	ctx := aMinute(t)
	_ = conn.Write(ctx, []byte(`["pipe"]`))
	go func() {
		for range 20 {
			_ = conn.Write(ctx, fmt.Appendf(nil, `["stream",["pipeline",1,["write"],["%s"]]]`, strings.Repeat("x", 1000)))
		}
	}()
	for id := 2; id <= 21; id++ {
		if got := readUntil(ctx, t, conn, `["reject",`); !strings.Contains(got, "ELIMIT") {
			t.Error(got)
		}
	}
	_ = conn.Write(ctx, []byte(`["release",1,1]`))
	_ = conn.Write(ctx, []byte(`["stream",["pipeline",0,["add"],[1,2]]]`))
	readUntil(ctx, t, conn, `["resolve",22,3]`)
	s.lock()
	defer s.unlock()
	if s.streamBytes != 0 || s.callBytes != 0 {
		t.Errorf("%d, %d bytes are counted for ever", s.streamBytes, s.callBytes)
	}
}

func TestMapLimit(t *testing.T) {
	_, conn := raw(t, Config{Main: newService().main})
	ctx := aMinute(t)
	list := []byte("0" + strings.Repeat(",0", 299))
	write := func(msg string) { _ = conn.Write(ctx, []byte(msg)) }
	write(fmt.Sprintf(`["push",[[%s]]]`, list))
	// 300 items, of each of which a map of 300 items is made.
	write(`["push",["remap",1,[],[["import",1]],[["remap",-1,[],[],[["pipeline",0]]]]]]`)
	write(`["pull",2]`)
	if got := readUntil(ctx, t, conn, `["reject",2`); !strings.Contains(got, "a map of more than 65536 steps") {
		t.Error(got)
	}
}

func TestSendLimits(t *testing.T) {
	var cycle []any
	cycle = append(cycle, nil)
	cycle[0] = cycle
	for name, v := range map[string]any{
		"cycle":   cycle,
		"bytes":   make([]byte, MaxValueBytes),
		"string":  strings.Repeat("x", MaxValueBytes+1),
		"list":    [][]byte{make([]byte, MaxValueBytes/2), make([]byte, MaxValueBytes/2), nil},
		"integer": int64(1) << 53,
		"func":    func() {},
		"chan":    make(chan int),
		"map":     map[int]int{1: 1},
		"target":  NewTarget(),
	} {
		if text, err := Marshal(v); err == nil {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
}
