package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/simnet"
)

const (
	testEnv          = "lab"
	testRegistration = "reg-1"
)

// A world is a registry, a rendezvous and an executor in memory, which do what a test
// tells them. Without orders they do well: the executor echoes every message.
type world struct {
	t        *testing.T
	executor *seal.Identity
	profiles []frame.Profile

	// answer, if set, says how the n-th connect (from 1) is answered; 0 is well.
	answer func(n int) (status int, code string)
	// dialled, if set, says with what the n-th dial fails.
	dialled func(n int) error
	// script, if set, is the executor's side of the n-th socket; false means that the
	// echo takes it.
	script func(n int, end *simnet.Carrier) bool
	// spoil, if set, changes the answer to connect.
	spoil func(n int, r *registry.ConnectResponse)
	// forth and back are the filters of the n-th socket.
	filters func(n int) (forth, back simnet.Filter)

	mu       sync.Mutex
	connects []time.Time
	dials    []time.Time
	auths    []string // in message 1s
	sockets  []*simnet.Carrier
	streams  map[string]*relay.Stream
	wg       sync.WaitGroup
	life     context.Context
}

// newWorld returns a world that ends with the test, all of its goroutines with it.
func newWorld(t *testing.T, profiles ...frame.Profile) *world {
	t.Helper()
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(context.Background())
	w := &world{t: t, executor: id, profiles: profiles, streams: map[string]*relay.Stream{}, life: life}
	t.Cleanup(func() {
		end()
		w.forget()
		w.cut()
		w.wg.Wait()
	})
	return w
}

// harness makes a Harness of this world.
func (w *world) harness(cfg Config) *Harness {
	w.t.Helper()
	reg, err := registry.New(registry.Config{BaseURLs: []string{"https://registry.test"}, Transport: w})
	if err != nil {
		w.t.Fatal(err)
	}
	if cfg.Identity == nil {
		if cfg.Identity, err = seal.NewIdentity(); err != nil {
			w.t.Fatal(err)
		}
	}
	cfg.Registry, cfg.EnvironmentID, cfg.Dial = reg, testEnv, w.dial
	h, err := New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// open connects, until the test ends.
func (w *world) open(h *Harness) *conn {
	w.t.Helper()
	c, err := h.Connect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c.(*conn)
}

// RoundTrip implements http.RoundTripper: it is the registry.
func (w *world) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	w.mu.Lock()
	w.connects = append(w.connects, time.Now())
	n := len(w.connects)
	executor := w.executor
	w.mu.Unlock()
	resp := registry.ConnectResponse{
		EnvironmentID: testEnv, URL: "wss://rendezvous.test/" + "x", SecurityProfile: registry.SecurityProfile,
		ExecutorRegistrationID: testRegistration, ExecutorPublicKey: executor.Public(),
		HarnessKeyAuthorization: "authorization-" + strings.Repeat("i", n), RelayProfiles: w.profiles,
	}
	if w.spoil != nil {
		w.spoil(n, &resp)
	}
	status, body := http.StatusOK, any(resp)
	if w.answer != nil {
		if s, code := w.answer(n); s != 0 {
			status, body = s, registry.ErrorBody{Error: &registry.ErrorDetail{Code: code}}
		}
	}
	if status < 0 {
		return nil, errors.New("connection refused")
	}
	data, err := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(data)), Request: req}, err
}

// dial implements relay.Dialer: it is the rendezvous.
func (w *world) dial(_ context.Context, url string) (relay.Carrier, error) {
	w.mu.Lock()
	w.dials = append(w.dials, time.Now())
	n := len(w.dials)
	w.mu.Unlock()
	if w.dialled != nil {
		if err := w.dialled(n); err != nil {
			return nil, err
		}
	}
	cfg := simnet.CarrierConfig{Seed: uint64(n)}
	if w.filters != nil {
		cfg.Forth, cfg.Back = w.filters(n)
	}
	near, far := simnet.Carriers(cfg)
	w.mu.Lock()
	w.sockets = append(w.sockets, far)
	w.mu.Unlock()
	w.wg.Go(func() {
		if w.script == nil || !w.script(n, far) {
			w.serve(far)
		}
	})
	return near, nil
}

// cut cuts all sockets.
func (w *world) cut() {
	w.mu.Lock()
	sockets := w.sockets
	w.sockets = nil
	w.mu.Unlock()
	for _, s := range sockets {
		s.Cut()
	}
}

// forget ends the executor's streams without a word, as a restart does.
func (w *world) forget() {
	w.mu.Lock()
	streams := w.streams
	w.streams = map[string]*relay.Stream{}
	w.mu.Unlock()
	for _, s := range streams {
		s.Detach()
		_ = s.Close()
	}
}

func (w *world) counts() (connects, dials int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.connects), len(w.dials)
}

// serve is an executor's end of a socket.
func (w *world) serve(end *simnet.Carrier) {
	defer func() { _ = end.Close() }()
	attached := map[*relay.Stream]bool{} // a resume may come more than once
	for {
		message, err := end.Read(w.life)
		if err != nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, s := range w.streams {
				s.Detach()
			}
			return
		}
		f, err := frame.Decode(message)
		if err != nil {
			continue
		}
		w.mu.Lock()
		s := w.streams[f.GetStreamId()]
		w.mu.Unlock()
		switch body := f.GetBody().(type) {
		case *relayv1.RelayMessageFrame_Handshake:
			w.accept(end, f, body.Handshake.GetPayload())
		case *relayv1.RelayMessageFrame_Resume:
			switch {
			case f.GetEpoch() == 0:
			case s == nil:
				w.send(end, resetFrame(f.GetStreamId(), frame.ReasonUnknownStream))
			default:
				if !attached[s] {
					attached[s] = true
					s.Attach(end)
				}
				s.Handle(f, nil)
			}
		default:
			if s != nil {
				s.Handle(f, nil)
			}
		}
	}
}

// responder reads message 1 of a handshake frame.
func (w *world) responder(f *relayv1.RelayMessageFrame) (*seal.Responder, error) {
	label := seal.LabelCodex
	if frame.ProfileOf(f) == frame.Reliable {
		label = seal.LabelReliable
	}
	r, err := seal.NewResponder(w.executor, seal.Prologue{
		Label: label, EnvironmentID: testEnv, RegistrationID: testRegistration, StreamID: f.GetStreamId(),
	})
	if err != nil {
		return nil, err
	}
	_, auth, err := r.ReadMessage1(f.GetHandshake().GetPayload())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.auths = append(w.auths, string(auth))
	return r, err
}

func (w *world) accept(end *simnet.Carrier, f *relayv1.RelayMessageFrame, _ []byte) {
	r, err := w.responder(f)
	if err != nil {
		w.send(end, resetFrame(f.GetStreamId(), frame.ReasonProtocolError))
		return
	}
	message, transport, err := r.WriteMessage2()
	if err != nil {
		w.t.Error(err)
		return
	}
	s := relay.NewStream(relay.StreamConfig{
		ID: f.GetStreamId(), Profile: frame.ProfileOf(f), Transport: transport, Carrier: end,
	})
	w.mu.Lock()
	w.streams[f.GetStreamId()] = s
	w.mu.Unlock()
	w.send(end, handshakeFrame(f.GetStreamId(), frame.ProfileOf(f), message))
	w.wg.Go(func() { echo(w.life, s) })
}

// echo sends back what comes.
func echo(ctx context.Context, c rpc.Connection) {
	for {
		message, err := c.Read(ctx)
		if err != nil || c.Write(ctx, message) != nil {
			_ = c.Close()
			return
		}
	}
}

func (w *world) send(end *simnet.Carrier, f *relayv1.RelayMessageFrame) {
	message, err := frame.Append(nil, f)
	if err != nil {
		w.t.Error(err)
		return
	}
	_ = end.Write(w.life, message)
}

// next returns the next valid frame.
func (w *world) next(end *simnet.Carrier) *relayv1.RelayMessageFrame {
	for {
		message, err := end.Read(w.life)
		if err != nil {
			return nil
		}
		if f, err := frame.Decode(message); err == nil {
			return f
		}
	}
}

// hello returns the handshake frame that the harness sends, and checks what is before it.
func (w *world) hello(end *simnet.Carrier) *relayv1.RelayMessageFrame {
	resume := w.next(end)
	if resume.GetResume() == nil || resume.GetResume().GetNextSeq() != 0 {
		w.t.Errorf("first frame: %v", resume)
	}
	f := w.next(end)
	if f.GetHandshake() == nil || f.GetStreamId() != resume.GetStreamId() || f.GetProfile() != resume.GetProfile() {
		w.t.Errorf("second frame: %v", f)
	}
	return f
}

func resetFrame(id, reason string) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: frame.Version, StreamId: id,
		Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: reason}},
	}
}

func handshakeFrame(id string, profile frame.Profile, message []byte) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: frame.Version, StreamId: id, Profile: profile.Field(),
		Body: &relayv1.RelayMessageFrame_Handshake{Handshake: &relayv1.RelayHandshake{Payload: message}},
	}
}

// exchange sends a message and wants it back.
func exchange(t *testing.T, c rpc.Connection, text string) {
	t.Helper()
	if err := c.Write(t.Context(), []byte(text)); err != nil {
		t.Fatalf("write: %v", err)
	}
	if got, err := c.Read(t.Context()); err != nil || string(got) != text {
		t.Fatalf("read %q, %v; want %q", got, err, text)
	}
}
