package rendezvous_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// all makes a token for every environment.
func (w *world) all(role rendezvous.Role) string {
	w.t.Helper()
	return w.token(rendezvous.Token{Role: role, Environment: rendezvous.AnyEnvironment})
}

// attachTo attaches an executor of env.
func (w *world) attachTo(env string) relay.Carrier {
	w.t.Helper()
	reg, err := w.client(w.all(rendezvous.RoleExecutor)).Register(w.t.Context(), env, identity(w.t).Public())
	if err != nil {
		w.t.Fatal(err)
	}
	return w.dial(reg.URL)
}

// codexExecutor attaches an executor that announces no profile.
func (w *world) codexExecutor(env string) relay.Carrier {
	w.t.Helper()
	body, err := json.Marshal(registry.RegisterRequest{SecurityProfile: registry.SecurityProfile, ExecutorPublicKey: identity(w.t).Public()})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+registry.PathPrefix+env+"/"+registry.OpRegister, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+w.all(rendezvous.RoleExecutor))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	var reg registry.RegisterResponse
	if err := json.NewDecoder(answer.Body).Decode(&reg); err != nil {
		w.t.Fatal(err)
	}
	return w.dial(reg.URL)
}

func (w *world) dial(url string) relay.Carrier {
	w.t.Helper()
	c, err := relay.Dial(w.t.Context(), url, relay.DialConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask asks as a harness until the executor is found, or what refuses is something else.
func (w *world) ask(env, token string) (*registry.ConnectResponse, error) {
	w.t.Helper()
	c := w.client(token)
	key := identity(w.t).Public()
	for {
		resp, err := c.Connect(w.t.Context(), env, key)
		if err == nil || w.t.Context().Err() != nil {
			return resp, err
		}
		if _, code := status(w.t, err); code != registry.CodeOffline {
			return nil, err
		}
	}
}

// enter opens a harness's socket.
func (w *world) enter(env, token string) relay.Carrier {
	w.t.Helper()
	resp, err := w.ask(env, token)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.dial(resp.URL)
}

func shake(stream string) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{StreamId: stream, Body: &relayv1.RelayMessageFrame_Handshake{
		Handshake: &relayv1.RelayHandshake{Payload: []byte("x")},
	}}
}

func resetOf(stream, reason string) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{StreamId: stream, Body: &relayv1.RelayMessageFrame_Reset_{
		Reset_: &relayv1.RelayReset{Reason: reason},
	}}
}

// fail has an executor refuse n handshakes of a harness.
func fail(t *testing.T, harness, executor relay.Carrier, n int, reason string) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("bad-%d", i)
		send(t, harness, shake(id))
		if f := receive(t, executor); f.GetStreamId() != id {
			t.Fatalf("the executor got %v", f)
		}
		send(t, executor, resetOf(id, reason))
		if i < rendezvous.MaxFailedHandshakes-1 || reason != frame.ReasonProtocolError {
			if f := receive(t, harness); f.GetReset_() == nil {
				t.Fatalf("the harness got %v", f)
			}
		}
	}
}

// closed waits until c is.
func closed(t *testing.T, c relay.Carrier) {
	t.Helper()
	for {
		if _, err := c.Read(t.Context()); err != nil {
			return
		}
	}
}

// paused waits until connect says that the token pauses.
func (w *world) paused(env, token string) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < time.Minute; <-tick.C {
		if _, err := w.ask(env, token); err != nil {
			if got, code := status(w.t, err); got != http.StatusTooManyRequests || code != "handshakes_failed" {
				w.t.Fatalf("%d %s", got, code)
			}
			return
		}
	}
	w.t.Fatal("the token need not pause")
}

// Handshakes that an executor refuses for reasons of its own are not charged to their token.
func TestSR2UnavailableIsNotCharged(t *testing.T) {
	w := newWorld(t, nil)
	executor, token := w.attachTo(lab), w.all(rendezvous.RoleHarness)
	h := w.enter(lab, token)
	fail(t, h, executor, 3*rendezvous.MaxFailedHandshakes, frame.ReasonUnavailable)
	if _, err := w.ask(lab, token); err != nil {
		t.Errorf("the token pauses: %v", err)
	}
}

// Nor are those that codex's executor, which has but one reason, resets while it pauses.
func TestSR2PauseOfCodexIsNotCharged(t *testing.T) {
	w := newWorld(t, nil)
	executor := w.codexExecutor(lab)
	for range 2 { // tokens that fail as often as the executor bears
		bad := w.all(rendezvous.RoleHarness)
		fail(t, w.enter(lab, bad), executor, rendezvous.MaxFailedHandshakes, frame.ReasonProtocolError)
		w.paused(lab, bad)
	}
	token := w.all(rendezvous.RoleHarness)
	h := w.enter(lab, token)
	for i := range 2 * rendezvous.MaxFailedHandshakes {
		id := fmt.Sprint(i)
		send(t, h, shake(id))
		receive(t, executor)
		send(t, executor, resetOf(id, frame.ReasonProtocolError))
		if f := receive(t, h); f.GetReset_() == nil {
			t.Fatalf("the harness got %v", f)
		}
	}
	if _, err := w.ask(lab, token); err != nil {
		t.Errorf("the token pauses: %v", err)
	}
}

// A harness that takes its handshakes back before the executor has said that they fail is
// charged all the same, and cannot have more of them under way than others.
func TestSR2AbandonedHandshakesAreCharged(t *testing.T) {
	for name, abandon := range map[string]func(h relay.Carrier, id string){
		"Reset": func(h relay.Carrier, id string) { send(t, h, resetOf(id, "no")) },
		"Close": func(h relay.Carrier, _ string) { _ = h.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			executor, token := w.attachTo(lab), w.all(rendezvous.RoleHarness)
			for i := range rendezvous.MaxFailedHandshakes {
				h := w.enter(lab, token)
				id := fmt.Sprintf("bad-%d", i)
				send(t, h, shake(id))
				receive(t, executor)
				abandon(h, id)
				if f := receive(t, executor); f.GetReset_() == nil {
					t.Fatalf("the executor got %v", f)
				}
				send(t, executor, resetOf(id, frame.ReasonProtocolError))
			}
			w.paused(lab, token)
		})
	}
}

// A token that has to pause keeps the sockets over which it has opened streams.
func TestSR2OpenStreamsOutliveAPause(t *testing.T) {
	w := newWorld(t, nil)
	executor, token := w.attachTo(lab), w.all(rendezvous.RoleHarness)
	good, bad := w.enter(lab, token), w.enter(lab, token)
	send(t, good, shake("good"))
	receive(t, executor)
	send(t, executor, shake("good"))
	receive(t, good)
	fail(t, bad, executor, rendezvous.MaxFailedHandshakes, frame.ReasonProtocolError)
	closed(t, bad)
	w.paused(lab, token)
	for seq := range uint32(10) {
		send(t, good, data("good", seq, 100))
		for {
			f := receive(t, executor)
			if f.GetStreamId() == "good" {
				break
			}
		}
		send(t, executor, data("good", seq, 100))
		if f := receive(t, good); f.GetData().GetSeq() != seq {
			t.Fatalf("the harness got %v", f)
		}
	}
}

// What one environment's executor does to a token that is for all costs the token nothing
// in the others: whether it refuses its handshakes, or does not answer them.
func TestSR3OneEnvironmentAlone(t *testing.T) {
	w := newWorld(t, nil)
	good, bad, token := w.attachTo(lab), w.attachTo("lab3"), w.all(rendezvous.RoleHarness)
	h := w.enter(lab, token)
	send(t, h, shake("s"))
	receive(t, good)
	send(t, good, shake("s"))
	idle := w.enter(lab, token)

	silent := w.enter("lab3", token)
	for i := range rendezvous.MaxHandshakes { // of which none is answered
		send(t, silent, shake(fmt.Sprint(i)))
		receive(t, bad)
	}
	another := w.enter(lab, token)
	send(t, another, shake("t"))
	if f := receive(t, good); f.GetStreamId() != "t" {
		t.Errorf("the executor got %v", f)
	}
	send(t, good, shake("t"))
	for i := range rendezvous.MaxHandshakes {
		send(t, bad, resetOf(fmt.Sprint(i), frame.ReasonProtocolError))
	}
	send(t, w.enter("lab3", token), shake("last")) // its socket may be closed before the reset is sent
	receive(t, bad)
	send(t, bad, resetOf("last", frame.ReasonProtocolError))
	w.paused("lab3", token)
	w.enter(lab, token)
	for name, c := range map[string]relay.Carrier{"u": h, "v": idle} {
		send(t, c, shake(name))
		if f := receive(t, good); f.GetStreamId() != name {
			t.Errorf("the executor got %v", f)
		}
	}
}

// A URL is used up by an upgrade, not by a request that is none.
func TestSR4OnlyUpgradesUseURLs(t *testing.T) {
	w := newWorld(t, nil)
	w.attachTo(lab)
	resp, err := w.ask(lab, w.all(rendezvous.RoleHarness))
	if err != nil {
		t.Fatal(err)
	}
	url := "http" + strings.TrimPrefix(resp.URL, "ws")
	for _, upgrade := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if upgrade { // without a key
			r.Header.Set("Connection", "upgrade")
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Sec-WebSocket-Version", "13")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("answered %s", answer.Status)
		}
	}
	w.dial(resp.URL)
	if _, err := relay.Dial(t.Context(), resp.URL, relay.DialConfig{}); err == nil {
		t.Error("it is good for two sockets")
	}
}

// Nobody without a credential makes the audit log grow: refusals are counted, and ids that
// are none are not in it.
func TestSR5RefusalsAreSummedUp(t *testing.T) {
	audit := &lockedBuffer{}
	node, err := rendezvous.New(rendezvous.Config{State: rendezvous.NewMemory(), PublicURL: "https://relay.example", Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	handler := node.Handler()
	const flood = 1000
	for i := range flood {
		for _, target := range []string{
			"/relay/" + strings.Repeat("%00", 5000) + "?v=1",
			fmt.Sprintf("/relay/lab%d?v=1&role=harness&exp=9999999999&sig=AAAA", i),
			"/relay/lab?x=" + fmt.Sprint(i),
		} {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, target, nil))
		}
		for _, token := range []string{"", fmt.Sprintf("wsd-%012d-x", i)} {
			r := httptest.NewRequest(http.MethodPost, registry.PathPrefix+fmt.Sprint("lab", i)+"/connect", bytes.NewReader(nil))
			r.Header.Set("Authorization", "Bearer "+token)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if log := audit.String(); log != "" {
		t.Fatalf("%d bytes, %.300s", len(log), log)
	}
	node.SumUp()
	log := audit.String()
	for _, want := range []string{
		`"event":"refusals"`, `"401 unknown_route":1000`, `"401 invalid_signature":1000`, `"401 extra_query_param":1000`, `"401 unauthorized":2000`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Count(log, "\n") != 1 || len(log) > 1000 {
		t.Errorf("the log is\n%s", log)
	}
}
