package rendezvous_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// open opens a harness's socket and a stream on it.
func (w *world) open(stream string, profile frame.Profile) relay.Carrier {
	w.t.Helper()
	c, err := relay.Dial(w.t.Context(), w.connect(identity(w.t)).URL, relay.DialConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	send(w.t, c, &relayv1.RelayMessageFrame{
		StreamId: stream, Profile: profile.Field(), Body: &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{}},
	})
	return c
}

func send(t *testing.T, c relay.Carrier, f *relayv1.RelayMessageFrame) {
	t.Helper()
	f.Version = frame.Version
	m, err := frame.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func data(stream string, seq uint32, size int) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{StreamId: stream, Body: &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{
		Seq: seq, SegmentCount: 1, Payload: make([]byte, size),
	}}}
}

func receive(t *testing.T, c relay.Carrier) *relayv1.RelayMessageFrame {
	t.Helper()
	m, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f, err := frame.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Frames reach whose they are, and nobody else, byte for byte and in order.
func TestFramesReachTheirStream(t *testing.T) {
	w := newWorld(t, nil)
	_, executor := w.attach(identity(t))
	harnesses := map[string]relay.Carrier{}
	for _, name := range []string{"a", "b"} {
		harnesses[name] = w.open(name, frame.Codex)
		if f := receive(t, executor); f.GetStreamId() != name || f.GetResume() == nil {
			t.Fatalf("the executor got %v", f)
		}
	}
	send(t, harnesses["a"], data("b", 0, 1)) // which is not a's
	for seq := range uint32(50) {
		send(t, harnesses["a"], data("a", seq, 100))
		if f := receive(t, executor); f.GetStreamId() != "a" || f.GetData().GetSeq() != seq {
			t.Fatalf("the executor got %v", f)
		}
	}
	send(t, executor, data("nobody", 0, 1))
	for seq := range uint32(50) {
		for name := range harnesses {
			send(t, executor, data(name, seq, 1000))
		}
	}
	for name, c := range harnesses {
		for seq := range uint32(50) {
			if f := receive(t, c); f.GetStreamId() != name || f.GetData().GetSeq() != seq || len(f.GetData().GetPayload()) != 1000 {
				t.Fatalf("%s got %v", name, f)
			}
		}
	}
}

// The executor is told of a codex stream whose harness is gone, and not of a reliable one.
func TestHarnessGone(t *testing.T) {
	w := newWorld(t, nil)
	_, executor := w.attach(identity(t))
	reliable := w.open("reliable", frame.Reliable)
	receive(t, executor)
	codex := w.open("codex", frame.Codex)
	receive(t, executor)
	_ = reliable.Close()
	_ = codex.Close()
	if f := receive(t, executor); f.GetStreamId() != "codex" || f.GetReset_() == nil {
		t.Errorf("the executor got %v", f)
	}
	last := w.open("last", frame.Codex)
	defer last.Close()
	if f := receive(t, executor); f.GetStreamId() != "last" {
		t.Errorf("the executor got %v", f)
	}
}

// A harness that reads nothing loses its own connection. The others of its executor, and
// the executor, go on; what waits for it is bounded.
func TestHarnessReadsNothing(t *testing.T) {
	w := newWorld(t, nil)
	_, executor := w.attach(identity(t))
	slow := w.open("slow", frame.Codex)
	receive(t, executor)
	quick := w.open("quick", frame.Codex)
	receive(t, executor)

	const size = 200 << 10
	begin := time.Now()
	for seq := range uint32(2 * rendezvous.MaxQueuedBytes / size) {
		send(t, executor, data("slow", seq, size)) // which waits while the relay does
	}
	send(t, executor, data("quick", 0, 1))
	if f := receive(t, quick); f.GetStreamId() != "quick" {
		t.Errorf("the other harness got %v", f)
	}
	if waited := time.Since(begin); waited > time.Minute { // TestSR9PatienceIsTheTokens is exact
		t.Errorf("the other harness waited %v", waited)
	}
	for {
		_, err := slow.Read(t.Context())
		if err != nil {
			break // the rest of what the kernel had comes first
		}
	}
	if f := receive(t, executor); f.GetStreamId() != "slow" || f.GetReset_() == nil {
		t.Errorf("the executor got %v", f)
	}
}

// A frame that is too long ends the socket that it came over, which is told why.
func TestFrameTooLong(t *testing.T) {
	w := newWorld(t, nil)
	_, executor := w.attach(identity(t))
	harness := w.open("s", frame.Codex)
	receive(t, executor)
	for i, c := range []relay.Carrier{harness, executor} { // with the executor's all others end
		if err := c.Write(t.Context(), make([]byte, rendezvous.MaxFrame+1)); err != nil {
			t.Fatal(err)
		}
		for {
			_, err := c.Read(t.Context())
			if err == nil {
				continue // what was on its way
			}
			if !strings.Contains(err.Error(), "1009") {
				t.Errorf("socket %d: %v", i, err)
			}
			break
		}
	}
}

// Three nodes with one state: an executor attached to one is found by all, and what one
// of them has used up is used up.
func TestNodes(t *testing.T) {
	state := rendezvous.NewMemory()
	nodes := []*world{newWorld(t, state), newWorld(t, state), newWorld(t, state)}
	id := identity(t)
	reg, _ := nodes[0].attach(identity(t))
	resp := nodes[1].connect(id)
	carrier, err := relay.Dial(t.Context(), resp.URL, relay.DialConfig{}) // which leads to the first
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	won := 0
	for _, w := range nodes {
		ok, err := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "lab"})).
			Validate(t.Context(), "lab", "s", validation(reg.ExecutorRegistrationID, resp, id))
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			won++
		}
	}
	if won != 1 {
		t.Errorf("%d nodes took the authorization", won)
	}
	status, err := rendezvous.Status(t.Context(), state)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); err == nil && len(status.Nodes) < 3 && time.Since(began) < time.Minute; <-tick.C {
		status, err = rendezvous.Status(t.Context(), state) // a node may not have begun to run
	}
	if err != nil || len(status.Nodes) != 3 || len(status.Environments) != 1 || status.Environments[0].Node != nodes[0].node.ID() {
		t.Errorf("%+v, %v", status, err)
	}
}

// A node that is not heard of any more has no executors.
func TestNodeDies(t *testing.T) {
	t.Parallel() // it waits
	state := rendezvous.NewMemory()
	dying, err := rendezvous.New(rendezvous.Config{State: state, PublicURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(dying.Handler())
	defer server.Close()
	ctx, die := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- dying.Run(ctx) }()
	other := newWorld(t, state)
	c := other.client(other.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "*"}))
	id := identity(t)
	reg, err := c.Register(t.Context(), "lab", id.Public())
	if err != nil {
		t.Fatal(err)
	}
	// The executor attaches to the node that will die.
	carrier, err := relay.Dial(t.Context(), "ws"+strings.TrimPrefix(server.URL, "http")+strings.TrimPrefix(reg.URL, "ws"+strings.TrimPrefix(other.url, "http")), relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	other.connect(identity(t))
	die()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	harness := other.client(other.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: "*"}))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		_, err := harness.Connect(t.Context(), "lab", identity(t).Public())
		if err != nil {
			if got, code := status(t, err); got != http.StatusConflict || code == "" {
				t.Errorf("%d %s", got, code)
			}
			break
		}
		if time.Since(begin) > 5*rendezvous.NodeLease {
			t.Fatal("the dead node's executor is still announced")
		}
		<-tick.C
	}
	// It is found again where it attaches next, with other keys too.
	if _, err := c.Register(t.Context(), "lab", identity(t).Public()); err != nil {
		t.Errorf("nobody may take its place: %v", err)
	}
	_ = carrier.Close()
	drain, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := dying.Drain(drain); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(fmt.Errorf("drain: %w", err))
	}
}
