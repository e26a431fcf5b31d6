package rendezvous_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/seal"
)

// status is that of a *registry.StatusError, 0 without an error.
func status(t *testing.T, err error) (int, string) {
	t.Helper()
	if err == nil {
		return http.StatusOK, ""
	}
	s, ok := errors.AsType[*registry.StatusError](err)
	if !ok {
		t.Fatalf("no status: %v", err)
	}
	return s.Status, s.Code
}

// lab is the environment of most tests.
const lab = "lab"

// attach registers an executor by hand and attaches it.
func (w *world) attach(id *seal.Identity) (*registry.RegisterResponse, relay.Carrier) {
	w.t.Helper()
	c := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: lab}))
	reg, err := c.Register(w.t.Context(), lab, id.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	carrier, err := relay.Dial(w.t.Context(), reg.URL, relay.DialConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = carrier.Close() })
	return reg, carrier
}

// connect asks as a harness until the executor is found.
func (w *world) connect(id *seal.Identity) *registry.ConnectResponse {
	w.t.Helper()
	c := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: lab}))
	for {
		resp, err := c.Connect(w.t.Context(), lab, id.Public())
		if err == nil {
			return resp
		}
		if _, code := status(w.t, err); code != registry.CodeOffline || w.t.Context().Err() != nil {
			w.t.Fatal(err)
		}
	}
}

func TestWhoMayAsk(t *testing.T) {
	w := newWorld(t, nil)
	key := identity(t).Public()
	executor := w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "lab"})
	harness := w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: "lab"})
	ask := func(op, token string) (int, string) {
		c := w.client(token)
		var err error
		switch op {
		case registry.OpRegister:
			_, err = c.Register(t.Context(), "lab", key)
		case registry.OpConnect:
			_, err = c.Connect(t.Context(), "lab", key)
		case registry.OpValidate:
			_, err = c.Validate(t.Context(), "lab", "s", registry.ValidateRequest{ExecutorRegistrationID: "r", HarnessPublicKey: key, HarnessKeyAuthorization: "a"})
		}
		return status(t, err)
	}
	for _, c := range []struct {
		op, token string
		want      int
	}{
		{registry.OpRegister, "wsd-000000000000-guess", 401},
		{registry.OpConnect, "other", 401},
		{registry.OpValidate, executor[:len(executor)-1] + "?", 401},
		{registry.OpRegister, harness, 403},
		{registry.OpValidate, harness, 403},
		{registry.OpConnect, executor, 403},
		{registry.OpRegister, w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "other"}), 403},
		{registry.OpConnect, harness, 409},
		{registry.OpValidate, executor, 200},
		{registry.OpRegister, executor, 200},
	} {
		if got, code := ask(c.op, c.token); got != c.want {
			t.Errorf("%s: %d %s, want %d", c.op, got, code, c.want)
		}
	}
	if strings.Contains(w.audit.String(), executor) || strings.Contains(w.audit.String(), harness) {
		t.Error("a token is in the audit log")
	}
}

func TestBadRequests(t *testing.T) {
	w := newWorld(t, nil)
	token := w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "lab"})
	key, err := json.Marshal(identity(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, method, path, body string
		header                   http.Header
		want                     int
	}{
		{"no JSON", "POST", "/cloud/environment/lab/register", "x", nil, 400},
		{"no key", "POST", "/cloud/environment/lab/register", `{"security_profile":"noise_hybrid_ik_v1"}`, nil, 400},
		{"another profile", "POST", "/cloud/environment/lab/register", `{"security_profile":"none","executor_public_key":` + string(key) + `}`, nil, 400},
		{"too much", "POST", "/cloud/environment/lab/register", strings.Repeat("x", rendezvous.MaxBody+1), nil, 400},
		{"no such operation", "POST", "/cloud/environment/lab/destroy", "{}", nil, 404},
		{"no such environment", "POST", "/cloud/environment/a%2Fb/register", "{}", nil, 404},
		{"GET", "GET", "/cloud/environment/lab/register", "", nil, 405},
		{"a web page", "POST", "/cloud/environment/lab/register", "{}", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"a web page's socket", "GET", "/relay/lab?role=harness", "", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"an unsigned socket", "GET", "/relay/lab?v=1&role=harness&exp=9999999999&sig=x", "", nil, 401},
		{"the old, unencrypted relay", "GET", "/relay/lab?role=harness", "", nil, 401},
		{"health", "GET", "/healthz", "", nil, 200},
		{"readiness", "GET", "/readyz", "", nil, 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, w.url+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range c.header {
			req.Header[k] = v
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != c.want || bytes.Contains(body, []byte(token)) {
			t.Errorf("%s: %d %s, %v; want %d", c.name, resp.StatusCode, body, err, c.want)
		}
	}
}

// One executor an environment: the same keys replace, others are refused while it is there.
func TestSecondExecutor(t *testing.T) {
	w := newWorld(t, nil)
	mine, other := identity(t), identity(t)
	first, carrier := w.prove(w.executorToken(lab), registry.Registrant{Identity: mine, Instance: "a"})
	w.connect(identity(t))
	c := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "lab"}))
	_, err := c.Register(t.Context(), "lab", other.Public())
	if got, code := status(t, err); got != http.StatusConflict || code == registry.CodeRegistrationConflict {
		t.Errorf("another executor: %d %s", got, code)
	}
	second, _ := w.prove(w.executorToken(lab), registry.Registrant{Identity: mine, Instance: "b"})
	if second.ExecutorRegistrationID == first.ExecutorRegistrationID {
		t.Error("the registration id was given twice")
	}
	if _, err := carrier.Read(t.Context()); err == nil {
		t.Error("the old socket goes on")
	}
	// The old URL leads nowhere; a 401 makes an executor register anew.
	_, err = relay.Dial(t.Context(), first.URL, relay.DialConfig{})
	refused, ok := errors.AsType[*relay.RefusedError](err)
	if !ok || refused.Status != http.StatusUnauthorized || refused.Reason != "unexpected_executor_registration_id" {
		t.Errorf("the old URL: %v", err)
	}
}

func TestValidate(t *testing.T) {
	w := newWorld(t, nil)
	reg, _ := w.attach(identity(t))
	id := identity(t)
	c := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "lab"}))
	validate := func(req registry.ValidateRequest) bool {
		t.Helper()
		ok, err := c.Validate(t.Context(), "lab", "s", req)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	good := func() registry.ValidateRequest {
		return registry.ValidateRequest{
			ExecutorRegistrationID: reg.ExecutorRegistrationID, HarnessPublicKey: id.Public(),
			HarnessKeyAuthorization: w.connect(id).HarnessKeyAuthorization,
		}
	}
	req := good()
	if !validate(req) {
		t.Error("a good one is refused")
	}
	if validate(req) {
		t.Error("it can be used twice")
	}
	req = good()
	req.HarnessPublicKey = identity(t).Public()
	if validate(req) {
		t.Error("another key may use it")
	}
	req.HarnessPublicKey = id.Public()
	if validate(req) {
		t.Error("it was not used up by the attempt")
	}
	req = good()
	req.ExecutorRegistrationID = "another"
	if validate(req) {
		t.Error("another registration may use it")
	}
	for _, text := range []string{"", "x", strings.Repeat("x", registry.MaxAuthorization+1)} {
		if validate(registry.ValidateRequest{ExecutorRegistrationID: reg.ExecutorRegistrationID, HarnessPublicKey: id.Public(), HarnessKeyAuthorization: text}) {
			t.Errorf("%.10q is taken", text)
		}
	}
	if strings.Contains(w.audit.String(), req.HarnessKeyAuthorization) {
		t.Error("an authorization is in the audit log")
	}
}

// A harness's URL is good for one socket.
func TestHarnessURLOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.attach(identity(t))
	url := w.connect(identity(t)).URL
	carrier, err := relay.Dial(t.Context(), url, relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	_, err = relay.Dial(t.Context(), url, relay.DialConfig{})
	if refused, ok := errors.AsType[*relay.RefusedError](err); !ok || refused.Status != http.StatusUnauthorized {
		t.Errorf("a second time: %v", err)
	}
}

func TestStreamQuota(t *testing.T) {
	w := newWorld(t, nil)
	w.attach(identity(t))
	w.connect(identity(t)) // the executor is there
	c := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: "lab", Quota: rendezvous.Quota{Streams: 1}}))
	resp, err := c.Connect(t.Context(), "lab", identity(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	spare, err := c.Connect(t.Context(), "lab", identity(t).Public())
	if err != nil {
		t.Fatal(err)
	}
	carrier, err := relay.Dial(t.Context(), resp.URL, relay.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer carrier.Close()
	if _, err = c.Connect(t.Context(), "lab", identity(t).Public()); err == nil {
		t.Error("connect lets one more in")
	} else if got, code := status(t, err); got != http.StatusTooManyRequests {
		t.Errorf("connect: %d %s", got, code)
	}
	if _, err := relay.Dial(t.Context(), spare.URL, relay.DialConfig{}); err == nil {
		t.Error("a URL from before lets one more in")
	}
}

// A State that fails at will.
type failing struct {
	rendezvous.State
	fails atomic.Bool
}

var errDown = errors.New("the state is down")

func (f *failing) Get(ctx context.Context, b rendezvous.Bucket, key string) (rendezvous.Entry, error) {
	if f.fails.Load() {
		return rendezvous.Entry{}, errDown
	}
	return f.State.Get(ctx, b, key)
}

func (f *failing) List(ctx context.Context, b rendezvous.Bucket) ([]rendezvous.Entry, error) {
	if f.fails.Load() {
		return nil, errDown
	}
	return f.State.List(ctx, b)
}

// While the state is not reached, executors are told to ask again, and not to end; what
// is attached stays.
func TestStateDown(t *testing.T) {
	t.Parallel() // it waits
	state := &failing{State: rendezvous.NewMemory()}
	w := newWorld(t, state)
	executor := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "*"}))
	harness := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: "*"}))
	_, carrier := w.attach(identity(t))
	w.connect(identity(t))
	state.fails.Store(true)
	defer state.fails.Store(false)
	_, err := executor.Register(t.Context(), "new", identity(t).Public())
	if !registry.RetryRegister(err) {
		t.Errorf("register: %v", err)
	}
	_, err = harness.Connect(t.Context(), "lab", identity(t).Public())
	if got, _ := status(t, err); got != http.StatusServiceUnavailable {
		t.Errorf("connect: %v", err)
	}
	resp, err := http.Get(w.url + "/readyz") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readiness: %d", resp.StatusCode)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*rendezvous.Heartbeat/2)
	defer cancel()
	if _, err := carrier.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the attached executor: %v", err)
	}
}

// A revoked token's sockets end with a heartbeat.
func TestRevoked(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t, nil)
	_, carrier := w.attach(identity(t))
	w.connect(identity(t))
	tokens := rendezvous.Tokens{State: w.state}
	all, err := tokens.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range all {
		if token.Role == rendezvous.RoleExecutor {
			if err := tokens.Revoke(t.Context(), token.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*rendezvous.Heartbeat)
	defer cancel()
	if _, err := carrier.Read(ctx); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the socket of a revoked token: %v", err)
	}
}

// The end of what is to run is no failure, be it before the others know of the node.
func TestRunEndsAtOnce(t *testing.T) {
	node, err := rendezvous.New(rendezvous.Config{State: rendezvous.NewMemory(), PublicURL: "http://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := node.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestDrain(t *testing.T) {
	w := newWorld(t, nil)
	reg, carrier := w.attach(identity(t))
	w.connect(identity(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.node.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := carrier.Read(t.Context()); err == nil {
		t.Error("the executor's socket goes on")
	}
	_, err := relay.Dial(t.Context(), reg.URL, relay.DialConfig{})
	if refused, ok := errors.AsType[*relay.RefusedError](err); !ok || refused.Status != 503 || refused.Reason != "pod_draining" {
		t.Errorf("a new socket: %v", err)
	}
	c := w.client(w.token(rendezvous.Token{Role: rendezvous.RoleExecutor, Environment: "*"}))
	if _, err := c.Register(t.Context(), "new", identity(t).Public()); !registry.RetryRegister(err) {
		t.Errorf("register: %v", err)
	}
	_, err = w.client(w.token(rendezvous.Token{Role: rendezvous.RoleHarness, Environment: lab})).Connect(t.Context(), lab, identity(t).Public())
	if refused, ok := errors.AsType[*registry.StatusError](err); !ok || refused.Status != 503 {
		t.Errorf("connect: %v", err)
	}
	status, err := rendezvous.Status(t.Context(), w.state)
	if err != nil || len(status.Nodes) != 0 || len(status.Environments) != 1 || status.Environments[0].Attached {
		t.Errorf("status: %+v, %v", status, err)
	}
}
