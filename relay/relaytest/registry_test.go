package relaytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A fakeRegistry answers as a registry must, without a network. It gives away what a
// hostile one could: the authorizations.
type fakeRegistry struct {
	mu           sync.Mutex
	key          *seal.PublicKey
	registration string
	profiles     []frame.Profile
	registered   int
	grants       map[string]grant
	issued       []string
	// life is how long an authorization is valid; 0 means a minute.
	life time.Duration
	// lie, if set, changes what a harness is told.
	lie func(*registry.ConnectResponse)
}

// A grant is a one-time authorization.
type grant struct {
	registration string
	harness      seal.Fingerprint
	until        time.Time
}

// client returns a client of the registry.
func (r *fakeRegistry) client(t *testing.T) *registry.Client {
	t.Helper()
	c, err := registry.New(registry.Config{BaseURLs: []string{"http://localhost"}, Transport: r})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// RoundTrip implements http.RoundTripper.
func (r *fakeRegistry) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	env, op := path.Split(strings.TrimPrefix(req.URL.Path, registry.PathPrefix))
	status, answer := r.serve(strings.TrimSuffix(env, "/"), op, req.Header, body)
	encoded, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(encoded)), ContentLength: int64(len(encoded)),
	}, nil
}

func (r *fakeRegistry) serve(env, op string, header http.Header, body []byte) (int, any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bad := func(err error) (int, any) {
		return http.StatusBadRequest, registry.ErrorBody{Error: &registry.ErrorDetail{Message: err.Error()}}
	}
	switch op {
	case registry.OpRegister:
		var in registry.RegisterRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return bad(err)
		}
		r.registered++
		r.key, r.registration = in.ExecutorPublicKey, fmt.Sprintf("registration-%d", r.registered)
		r.profiles = []frame.Profile{frame.Codex}
		if announced := header.Get(registry.HeaderProfiles); announced != "" {
			r.profiles = append(r.profiles, frame.Profile(announced))
		}
		return http.StatusOK, registry.RegisterResponse{
			EnvironmentID: env, URL: "ws://localhost/executor", SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: r.registration,
		}
	case registry.OpConnect:
		var in registry.ConnectRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return bad(err)
		}
		if r.key == nil {
			return http.StatusConflict, registry.ErrorBody{Error: &registry.ErrorDetail{Code: registry.CodeOffline}}
		}
		return http.StatusOK, r.connect(env, in.HarnessPublicKey)
	case registry.OpValidate:
		var in registry.ValidateRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return bad(err)
		}
		g, ok := r.grants[in.HarnessKeyAuthorization]
		delete(r.grants, in.HarnessKeyAuthorization)
		return http.StatusOK, registry.ValidateResponse{
			Valid: ok && g.registration == in.ExecutorRegistrationID && g.harness == in.HarnessPublicKey.Fingerprint() && time.Now().Before(g.until),
		}
	}
	return http.StatusNotFound, registry.ErrorBody{}
}

func (r *fakeRegistry) connect(env string, harness *seal.PublicKey) *registry.ConnectResponse {
	life := r.life
	if life == 0 {
		life = time.Minute
	}
	authorization := fmt.Sprintf("authorization-%d", len(r.issued))
	r.issued = append(r.issued, authorization)
	if r.grants == nil {
		r.grants = map[string]grant{}
	}
	r.grants[authorization] = grant{registration: r.registration, harness: harness.Fingerprint(), until: time.Now().Add(life)}
	answer := &registry.ConnectResponse{
		EnvironmentID: env, URL: "ws://localhost/harness", SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: r.registration,
		ExecutorPublicKey: r.key, HarnessKeyAuthorization: authorization, RelayProfiles: r.profiles,
	}
	if r.lie != nil {
		r.lie(answer)
	}
	return answer
}
