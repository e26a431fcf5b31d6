package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// advance lets fake time pass.
func advance(d time.Duration) { <-time.After(d) }

// bubble runs fn on a server in fake time.
func bubble(t *testing.T, cfg Config, fn func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { fn(t, newWorld(t, cfg)) })
}

func TestSessionIDs(t *testing.T) {
	whole := regexp.MustCompile(`^` + uuid4.String() + `$`)
	seen := map[string]bool{}
	for range 1000 {
		id := newUUID()
		if !whole.MatchString(id) || seen[id] {
			t.Fatalf("id %s", id)
		}
		seen[id] = true
	}
}

func TestGrace(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		id := c.open("")
		c.conn.Close()
		c.ended()
		advance(protocol.SessionGrace - time.Millisecond)
		synctest.Wait()
		if w.process(0).isClosed() {
			t.Fatal("the session ended before its grace was over")
		}
		advance(time.Millisecond)
		synctest.Wait()
		if !w.process(0).isClosed() {
			t.Fatal("the session outlived its grace")
		}
		c = w.dial(ConnectionOptions{})
		c.send(initializeRequest(id))
		c.want(`{"error":{"code":-32600,"message":"unknown session id ` + id + `"},"id":"init"}`)
	})
}

func TestResumeStopsTheClock(t *testing.T) {
	bubble(t, Config{SessionGrace: time.Second}, func(t *testing.T, w *world) {
		id := ""
		for range 5 { // each stay away starts a new clock
			c := w.dial(ConnectionOptions{})
			got := c.open(id)
			if id != "" && got != id {
				t.Fatalf("resumed %s, got %s", id, got)
			}
			id = got
			advance(10 * time.Second) // attached: no clock runs
			c.ping()
			c.conn.Close()
			c.ended()
			advance(time.Second - 1)
		}
		if w.process(0).isClosed() {
			t.Error("the session ended")
		}
		if attached, detached := w.sessions.count(); attached != 0 || detached != 1 {
			t.Errorf("%d attached, %d detached", attached, detached)
		}
	})
}

func TestGraceEndsAtOnce(t *testing.T) {
	bubble(t, Config{SessionGrace: -1}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		c.open("")
		c.conn.Close()
		c.ended()
		synctest.Wait()
		if !w.process(0).isClosed() {
			t.Error("the session outlived its connection")
		}
	})
}

// A request that is under way when its connection ends returns before the session
// ends with it.
func TestFinalSessionSeesNoLateRequest(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{Final: true})
		c.open("")
		c.send(`{"id":1,"method":"process/read","params":{"processId":"p","waitMs":60000}}`)
		synctest.Wait()
		c.conn.Close()
		began := time.Now()
		c.ended()
		synctest.Wait()
		if time.Since(began) != 0 {
			t.Errorf("the wait went on for %v", time.Since(began))
		}
		if !w.process(0).isClosed() {
			t.Error("the session outlived its connection")
		}
	})
}

func TestContention(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		a, b := w.dial(ConnectionOptions{}), w.dial(ConnectionOptions{})
		id := a.open("")
		for range 3 { // the same connection may try again
			b.send(initializeRequest(id))
			b.want(`{"error":{"code":-32010,"message":"session ` + id + ` is already attached to another connection"},"id":"init"}`)
		}
		a.ping() // a Pair cannot be probed: its holder keeps the session
		advance(time.Minute)
		a.ping()
		a.conn.Close()
		a.ended()
		b.ended() // it has waited for longer than initialize may take
		b = w.dial(ConnectionOptions{})
		b.open(id)
		b.ping()
	})
}

// Two sessions with the same process id see only their own.
func TestSessionsAreSeparate(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		a, b := w.dial(ConnectionOptions{}), w.dial(ConnectionOptions{})
		if a.open("") == b.open("") {
			t.Fatal("one session for two connections")
		}
		a.send(`{"id":1,"method":"process/start","params":{"processId":"p","argv":["count"]}}`)
		a.want(`{"id":1,"result":{"processId":"p","argv":["count"]}}`)
		a.want(`{"method":"process/output","params":{"seq":1,"chunk":""}}`)
		b.send(`{"id":1,"method":"process/read","params":{"processId":"p"}}`)
		b.want(`{"id":1,"result":{"seqs":[]}}`)
	})
}

func TestNotifyWhileDetached(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		c.open("")
		session := w.process(0).session
		if err := session.Notify(t.Context(), "x", 1); err != nil {
			t.Errorf("attached: %v", err)
		}
		c.want(`{"method":"x","params":1}`)
		c.conn.Close()
		c.ended()
		if err := session.Notify(t.Context(), "x", 1); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("detached: %v", err)
		}
	})
}

// Notifications restart with the answer to a resuming initialize, before initialized,
// and never come before that answer.
func TestNotificationsRestartAtOnce(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		id := c.open("")
		c.send(`{"id":1,"method":"process/start","params":{"processId":"p","argv":["count"]}}`)
		c.want(`{"id":1,"result":{"processId":"p","argv":["count"]}}`)
		for range 50 {
			c.conn.Close()
			c.ended()
			advance(5 * time.Millisecond)
			c = w.dial(ConnectionOptions{})
			if got := c.initialize(id); got != id { // fails if a notification comes first
				t.Fatalf("got session %s", got)
			}
			var output struct{ Method string }
			if err := json.Unmarshal([]byte(c.receive()), &output); err != nil || output.Method != protocol.NotifyProcessOutput {
				t.Fatalf("got %+v, %v", output, err)
			}
		}
	})
}

// A client that is cut off again and again, and reads what it missed after each
// resume, misses nothing, gets nothing twice that seq does not tell, and nothing out of
// order.
func TestCutsLoseNothing(t *testing.T) {
	const seed = 1
	bubble(t, Config{}, func(t *testing.T, w *world) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := w.dial(ConnectionOptions{})
		id := c.open("")
		c.send(`{"id":1,"method":"process/start","params":{"processId":"p","argv":["count"]}}`)
		c.want(`{"id":1,"result":{"processId":"p","argv":["count"]}}`)
		var last uint64 // everything up to it has been seen
		for cut := range 300 {
			recovered := cut == 0
			early := map[uint64]bool{} // notified before the answer that has what comes before it
			for until := last + 1 + rng.Uint64N(10); last < until || !recovered; {
				var msg struct {
					ID     json.RawMessage
					Params outputParams
					Result *readResult
				}
				if err := json.Unmarshal([]byte(c.receive()), &msg); err != nil {
					t.Fatal(err)
				}
				seqs := []uint64{msg.Params.Seq}
				if msg.Result != nil {
					seqs, recovered = msg.Result.Seqs, true
				}
				for _, seq := range seqs {
					switch {
					case !recovered:
						early[seq] = true
					case seq <= last: // seen
					case seq == last+1:
						last = seq
					default:
						t.Fatalf("cut %d: %d follows %d", cut, seq, last)
					}
					for recovered && early[last+1] {
						last++
					}
				}
			}
			c.conn.Close()
			if rng.IntN(2) == 0 {
				advance(time.Duration(rng.IntN(5000)) * time.Microsecond)
			}
			c = w.redial(id)
			c.send(`{"method":"initialized"}`, fmt.Sprintf(`{"id":2,"method":"process/read","params":{"processId":"p","afterSeq":%d}}`, last))
		}
	})
}

// redial resumes as the real client does: another connection until it is let in.
func (w *world) redial(id string) *client {
	w.t.Helper()
	for {
		c := w.dial(ConnectionOptions{})
		c.send(initializeRequest(id))
		answer := c.receive()
		var env struct{ Error *protocol.Error }
		if err := json.Unmarshal([]byte(answer), &env); err != nil {
			w.t.Fatal(err)
		}
		if env.Error == nil {
			return c
		}
		if env.Error.Code != protocol.CodeSessionAttached {
			w.t.Fatal(answer)
		}
		c.conn.Close()
		c.ended()
		advance(100 * time.Millisecond) // of fake time
	}
}

func TestDetachedSessionsAreBounded(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		var ids []string
		detach := func() {
			c := w.dial(ConnectionOptions{})
			ids = append(ids, c.open(""))
			w.process(len(ids) - 1).busy = true
			c.conn.Close()
			c.ended()
		}
		for range protocol.MaxDetachedSessions {
			detach()
		}
		if _, detached := w.sessions.count(); detached != protocol.MaxDetachedSessions {
			t.Fatalf("%d detached", detached)
		}
		w.process(5).busy = false
		detach()
		synctest.Wait()
		if !w.process(5).isClosed() {
			t.Error("the session with nothing to lose was kept")
		}
		detach()
		synctest.Wait()
		if !w.process(0).isClosed() {
			t.Error("the session detached longest was kept")
		}
		if w.process(1).isClosed() || w.process(len(ids)-1).isClosed() {
			t.Error("another session was dropped")
		}
		if _, detached := w.sessions.count(); detached != protocol.MaxDetachedSessions {
			t.Errorf("%d detached", detached)
		}
	})
}

// probed is a connection that answers probes as it is told.
type probed struct {
	rpc.Connection
	asked  chan struct{}
	answer chan error
	fault  chan string
}

func (p *probed) Probe(ctx context.Context) error {
	p.asked <- struct{}{}
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *probed) CloseFault(_ int, reason string) error {
	p.fault <- reason
	return p.Close()
}

func (w *world) dialProbed() (*client, *probed) {
	near, far := rpc.Pair()
	p := &probed{Connection: near, asked: make(chan struct{}, 100), answer: make(chan error), fault: make(chan string, 1)}
	return w.serve(p, far, ConnectionOptions{}), p
}

// A session whose client vanished is free seconds after it is asked for.
func TestHalfDeadPeerLosesItsSession(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		a, p := w.dialProbed()
		id := a.open("")
		began := time.Now()
		c := w.redial(id)
		if took := time.Since(began); took < protocol.ProbeTimeout || took > protocol.ProbeTimeout+200*time.Millisecond {
			t.Errorf("the session was free after %v", took)
		}
		c.send(`{"method":"initialized"}`)
		c.ping()
		a.ended()
		if reason := <-p.fault; reason == "" {
			t.Error("closed without a reason")
		}
		if n := len(p.asked); n != 1 {
			t.Errorf("%d probes at a time", n)
		}
	})
}

// A session whose client answers is kept, however often it is asked for.
func TestLivePeerKeepsItsSession(t *testing.T) {
	for name, answer := range map[string]error{"alive": nil, "no telling": errors.ErrUnsupported} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, w *world) {
				a, p := w.dialProbed()
				id := a.open("")
				b := w.dial(ConnectionOptions{})
				for range 10 {
					b.send(initializeRequest(id))
					b.wantError(`"init"`, protocol.CodeSessionAttached)
					<-p.asked
					advance(protocol.ProbeTimeout - 1)
					p.answer <- answer
					synctest.Wait()
				}
				a.ping()
			})
		})
	}
}

func TestShutdown(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		gone := w.dial(ConnectionOptions{})
		gone.open("")
		gone.conn.Close()
		gone.ended()
		var clients []*client
		for range 5 {
			c := w.dial(ConnectionOptions{})
			c.open("")
			c.send(`{"id":1,"method":"process/read","params":{"processId":"p","waitMs":60000}}`)
			clients = append(clients, c)
		}
		fresh := w.dial(ConnectionOptions{})
		synctest.Wait()
		began := time.Now()
		if err := w.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) != 0 {
			t.Errorf("took %v", time.Since(began))
		}
		for _, c := range append(clients, fresh) {
			c.ended()
		}
		if !w.process(0).isClosed() {
			t.Error("a detached session outlived the server")
		}
		if late := w.dial(ConnectionOptions{}); !errors.Is(late.outcome(), ErrClosed) {
			t.Errorf("after shutdown: %v", late.outcome())
		}
		if got := w.Stats(); got.Connections != 0 || got.SessionsAttached != 0 || got.SessionsDetached != 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

// Shutdown gives up when it is told to, on a service that will not end.
func TestShutdownIsBounded(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		c := w.dial(ConnectionOptions{})
		c.open("")
		hang := make(chan struct{})
		w.process(0).onClose = func() { <-hang }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(hang)
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	bubble(t, Config{MaxConnections: 3}, func(t *testing.T, w *world) {
		var clients []*client
		for range 3 {
			clients = append(clients, w.dial(ConnectionOptions{}))
		}
		synctest.Wait()
		if err := w.dial(ConnectionOptions{}).outcome(); !errors.Is(err, ErrTooManyConnections) {
			t.Errorf("got %v", err)
		}
		for _, c := range slices.Backward(clients) {
			c.open("")
			c.ping()
		}
		clients[0].conn.Close()
		clients[0].ended()
		w.dial(ConnectionOptions{}).open("")
	})
}

func TestContextEndsConnection(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		near, far := rpc.Pair()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.ServeConnection(ctx, near, ConnectionOptions{}) }()
		c := &client{t: t, conn: far, done: done}
		c.open("")
		reason := errors.New("reason")
		cancel(reason)
		if err := c.outcome(); !errors.Is(err, reason) {
			t.Errorf("got %v", err)
		}
		if w.process(0).isClosed() {
			t.Error("the session did not outlive its connection")
		}
	})
}
