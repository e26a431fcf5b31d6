package client_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/execserver"
)

const (
	relayEnv   = "lab"
	relayToken = "harness-token"
)

// tinyRelay is a registry and a rendezvous for one executor, as small as can be: see
// registry.md, sections 5 and 6.
type tinyRelay struct {
	http     *httptest.Server
	profiles []frame.Profile

	mu           sync.Mutex
	token        string // that harnesses must have
	key          *seal.PublicKey
	registration string
	auths        map[string]*seal.PublicKey
	connects     int
	executor     *relaySocket
	harnesses    map[*relaySocket]bool
	changed      chan struct{} // closed and replaced when one of those changes
}

// A relaySocket is one WebSocket at the rendezvous.
type relaySocket struct {
	ws *websocket.Conn
	mu sync.Mutex
	// streams of a harness: true for those of the codex profile.
	streams map[string]bool
}

func (s *relaySocket) send(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ws.WriteMessage(websocket.BinaryMessage, message) != nil {
		_ = s.ws.NetConn().Close()
	}
}

func (s *relaySocket) cut() { _ = s.ws.NetConn().Close() }

func newTinyRelay(t testing.TB, profiles ...frame.Profile) *tinyRelay {
	t.Helper()
	r := &tinyRelay{
		token: relayToken, profiles: profiles, auths: map[string]*seal.PublicKey{},
		changed: make(chan struct{}), harnesses: map[*relaySocket]bool{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cloud/environment/lab/register", r.register)
	mux.HandleFunc("POST /cloud/environment/lab/connect", r.connect)
	mux.HandleFunc("POST /cloud/environment/lab/validate", r.validate)
	mux.HandleFunc("/environment", r.serveExecutor)
	mux.HandleFunc("/harness", r.serveHarness)
	r.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		r.cutAll()
		r.http.Close()
	})
	return r
}

func (r *tinyRelay) socketURL(path string) string {
	return "ws" + strings.TrimPrefix(r.http.URL, "http") + path
}

// url is how clients call the executor.
func (r *tinyRelay) url() string {
	return "relay" + strings.TrimPrefix(r.http.URL, "http") + "/" + relayEnv
}

// name is how a file of known executors calls it.
func (r *tinyRelay) name() string { return strings.TrimPrefix(r.url(), "relay://") }

func answer(w http.ResponseWriter, status int, body any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (r *tinyRelay) register(w http.ResponseWriter, req *http.Request) {
	var body registry.RegisterRequest
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.registration = body.ExecutorPublicKey, rand.Text()
	answer(w, http.StatusOK, registry.RegisterResponse{
		EnvironmentID: relayEnv, URL: r.socketURL("/environment"), SecurityProfile: registry.SecurityProfile,
		ExecutorRegistrationID: r.registration,
	})
}

func (r *tinyRelay) connect(w http.ResponseWriter, req *http.Request) {
	var body registry.ConnectRequest
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connects++
	switch {
	case req.Header.Get("Authorization") != "Bearer "+r.token:
		answer(w, http.StatusUnauthorized, registry.ErrorBody{Error: &registry.ErrorDetail{Code: "unauthorized"}})
		return
	case r.executor == nil:
		answer(w, http.StatusConflict, registry.ErrorBody{Error: &registry.ErrorDetail{Code: registry.CodeOffline}})
		return
	}
	auth := rand.Text()
	r.auths[auth] = body.HarnessPublicKey
	answer(w, http.StatusOK, registry.ConnectResponse{
		EnvironmentID: relayEnv, URL: r.socketURL("/harness"), SecurityProfile: registry.SecurityProfile,
		ExecutorRegistrationID: r.registration, ExecutorPublicKey: r.key,
		HarnessKeyAuthorization: auth, RelayProfiles: r.profiles,
	})
}

func (r *tinyRelay) validate(w http.ResponseWriter, req *http.Request) {
	var body registry.ValidateRequest
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.auths[body.HarnessKeyAuthorization]
	delete(r.auths, body.HarnessKeyAuthorization)
	answer(w, http.StatusOK, registry.ValidateResponse{
		Valid: key != nil && key.Equal(body.HarnessPublicKey) && body.ExecutorRegistrationID == r.registration,
	})
}

var relayUpgrader = websocket.Upgrader{ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10}

func (r *tinyRelay) serveExecutor(w http.ResponseWriter, req *http.Request) {
	ws, err := relayUpgrader.Upgrade(w, req, nil)
	if err != nil {
		return
	}
	s := &relaySocket{ws: ws}
	defer s.cut()
	r.mu.Lock()
	if r.executor != nil {
		r.executor.cut()
	}
	r.executor = s
	r.broadcast()
	r.mu.Unlock()
	for {
		_, message, err := ws.ReadMessage()
		if err != nil {
			break
		}
		if f, err := frame.Decode(message); err == nil {
			if to := r.harness(f.GetStreamId()); to != nil {
				to.send(message)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.executor == s {
		r.executor = nil
		r.broadcast()
		for h := range r.harnesses {
			h.cut()
		}
	}
}

func (r *tinyRelay) harness(stream string) *relaySocket {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h := range r.harnesses {
		if _, is := h.streams[stream]; is {
			return h
		}
	}
	return nil
}

func (r *tinyRelay) serveHarness(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	online := r.executor != nil
	r.mu.Unlock()
	if !online {
		http.Error(w, "offline", http.StatusServiceUnavailable)
		return
	}
	ws, err := relayUpgrader.Upgrade(w, req, nil)
	if err != nil {
		return
	}
	s := &relaySocket{ws: ws, streams: map[string]bool{}}
	defer s.cut()
	r.mu.Lock()
	r.harnesses[s] = true
	r.broadcast()
	r.mu.Unlock()
	for {
		_, message, err := ws.ReadMessage()
		if err != nil {
			break
		}
		f, err := frame.Decode(message)
		if err != nil {
			continue
		}
		r.mu.Lock()
		if f.GetResume() != nil {
			for other := range r.harnesses { // a stream goes to its newest socket
				if other != s {
					delete(other.streams, f.GetStreamId())
				}
			}
			s.streams[f.GetStreamId()] = frame.ProfileOf(f) == frame.Codex
		}
		to := r.executor
		r.mu.Unlock()
		if to != nil {
			to.send(message)
		}
	}
	r.mu.Lock()
	delete(r.harnesses, s)
	to := r.executor
	r.mu.Unlock()
	for id, codex := range s.streams {
		if codex && to != nil {
			message, err := frame.Append(nil, &relayv1.RelayMessageFrame{
				Version: frame.Version, StreamId: id,
				Body: &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: "harness_gone"}},
			})
			if err == nil {
				to.send(message)
			}
		}
	}
}

// broadcast tells await. r.mu is held.
func (r *tinyRelay) broadcast() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// await returns once it is so; holds is called with r.mu.
func (r *tinyRelay) await(t testing.TB, holds func() bool) {
	t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		r.mu.Lock()
		changed, ok := r.changed, holds()
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal("it never was so")
		}
	}
}

// cutHarness cuts the sockets of all harnesses, once there is one.
func (r *tinyRelay) cutHarness(t testing.TB) {
	t.Helper()
	r.await(t, func() bool {
		for h := range r.harnesses {
			h.cut()
		}
		return len(r.harnesses) > 0
	})
}

// cutExecutor cuts the executor's socket, once there is one.
func (r *tinyRelay) cutExecutor(t testing.TB) {
	t.Helper()
	r.await(t, func() bool {
		if r.executor != nil {
			r.executor.cut()
		}
		return r.executor != nil
	})
}

// cutAll cuts what there is.
func (r *tinyRelay) cutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.executor != nil {
		r.executor.cut()
	}
	for h := range r.harnesses {
		h.cut()
	}
}

// execute runs an executor with a real server at the relay, which has none, until stop
// is called or the test ends.
func (r *tinyRelay) execute(t testing.TB, id *seal.Identity) (stop func()) {
	t.Helper()
	srv, err := execserver.New(execserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.New(registry.Config{BaseURLs: []string{r.http.URL}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := executor.Run(ctx, executor.Config{
			Registry: reg, EnvironmentID: relayEnv, Identity: id,
			Serve: func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
				_ = srv.ServeConnection(ctx, conn, server.ConnectionOptions{Remote: "relay " + info.ID})
			},
		})
		if err != nil {
			t.Errorf("executor: %v", err)
		}
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			<-done
			_ = srv.Close()
			reg.Close()
			r.await(t, func() bool { return r.executor == nil })
		})
	}
	t.Cleanup(stop)
	r.await(t, func() bool { return r.executor != nil })
	return stop
}

func newIdentity(t testing.TB) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// relayOptions are for a client that has the token, and a file of known executors of
// its own.
func relayOptions(t testing.TB) *client.Options {
	t.Helper()
	return &client.Options{
		BearerToken: relayToken,
		Relay:       client.RelayOptions{KnownExecutors: filepath.Join(t.TempDir(), "known_executors")},
	}
}

// dialRelay connects to a relay with an executor, until the test ends.
func dialRelay(t testing.TB, profile frame.Profile) (*tinyRelay, *client.Client) {
	t.Helper()
	r := newTinyRelay(t, profile)
	r.execute(t, newIdentity(t))
	c, err := client.Dial(t.Context(), r.url(), relayOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return r, c
}

// eachProfile runs a test with both profiles.
func eachProfile(t *testing.T, test func(t *testing.T, profile frame.Profile)) {
	for _, profile := range []frame.Profile{frame.Codex, frame.Reliable} {
		t.Run(fmt.Sprint(profile), func(t *testing.T) {
			t.Parallel()
			test(t, profile)
		})
	}
}
