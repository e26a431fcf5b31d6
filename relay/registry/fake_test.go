package registry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A request is one that a fake registry was sent.
type request struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// A fake is a registry that answers what it is told to, and keeps what it was asked.
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
}

// serve starts a fake registry.
func serve(t *testing.T, answer http.HandlerFunc) *fake {
	t.Helper()
	f := new(fake)
	f.Server = httptest.NewServer(f.record(t, answer))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) record(t *testing.T, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		f.requests = append(f.requests, request{r.Method, r.URL.Path, r.Header.Clone(), body})
		f.mu.Unlock()
		answer(w, r)
	})
}

// asked returns the requests so far.
func (f *fake) asked() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]request(nil), f.requests...)
}

// reply answers with status and v as JSON; a string is sent as it is.
func reply(status int, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if text, ok := v.(string); ok {
			_, _ = io.WriteString(w, text)
			return
		}
		_ = json.NewEncoder(w).Encode(v)
	}
}

// client returns a client with token secret-token of the registries at urls.
func client(t *testing.T, urls ...string) *registry.Client {
	t.Helper()
	cred, err := registry.Bearer("secret-token")
	if err != nil {
		t.Fatal(err)
	}
	c, err := registry.New(registry.Config{BaseURLs: urls, Credential: cred})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newKey(t *testing.T) *seal.PublicKey {
	t.Helper()
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Public()
}

// registered is a good answer to register.
func registered() registry.RegisterResponse {
	return registry.RegisterResponse{
		EnvironmentID: "lab", URL: "ws://127.0.0.1:1/relay/lab?sig=secret-sig",
		SecurityProfile: registry.SecurityProfile, ExecutorRegistrationID: "reg-1",
	}
}
