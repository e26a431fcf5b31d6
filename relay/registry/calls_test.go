package registry_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
)

// What goes over the wire, header by header and member by member.
func TestRegisterRequest(t *testing.T) {
	f := serve(t, reply(201, registered()))
	key := newKey(t)
	got, err := client(t, f.URL+"/prefix/").Register(t.Context(), "lab", key)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(registered(), *got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	r := f.asked()[0]
	if r.Method != http.MethodPost || r.Path != "/prefix/cloud/environment/lab/register" {
		t.Errorf("asked %s %s", r.Method, r.Path)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer secret-token", "Content-Type": "application/json",
		"Wsd-Relay-Profiles": "reliable-1", "User-Agent": "", "Accept": "*/*",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	wantMembers(t, r.Body, "security_profile", "executor_public_key")
	var body registry.RegisterRequest
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.SecurityProfile != "noise_hybrid_ik_v1" || !body.ExecutorPublicKey.Equal(key) {
		t.Errorf("body says %s", r.Body)
	}
}

func TestConnectRequest(t *testing.T) {
	executor, harness := newKey(t), newKey(t)
	want := registry.ConnectResponse{
		EnvironmentID: "lab", URL: "wss://relay.example/x", SecurityProfile: registry.SecurityProfile,
		ExecutorRegistrationID: "reg-1", ExecutorPublicKey: executor, HarnessKeyAuthorization: "once",
		RelayProfiles: []frame.Profile{frame.Codex, frame.Reliable},
	}
	f := serve(t, reply(200, want))
	got, err := client(t, f.URL).Connect(t.Context(), "lab", harness)
	if err != nil {
		t.Fatal(err)
	}
	if !got.ExecutorPublicKey.Equal(executor) || got.HarnessKeyAuthorization != "once" || len(got.RelayProfiles) != 2 {
		t.Errorf("got %v with %v", got, got.RelayProfiles)
	}
	r := f.asked()[0]
	if r.Path != "/cloud/environment/lab/connect" {
		t.Errorf("asked %s", r.Path)
	}
	wantMembers(t, r.Body, "harness_public_key")
	if h := r.Header.Get("Wsd-Relay-Profiles"); h != "" {
		t.Errorf("a harness announced %q", h)
	}
}

func TestValidateRequest(t *testing.T) {
	for _, valid := range []bool{true, false} {
		f := serve(t, reply(200, registry.ValidateResponse{Valid: valid}))
		got, err := client(t, f.URL).Validate(t.Context(), "lab", "stream\r\nEvil: 1", registry.ValidateRequest{
			ExecutorRegistrationID: "reg-1", HarnessPublicKey: newKey(t),
		})
		if err != nil || got != valid {
			t.Fatalf("got %v, %v, want %v", got, err, valid)
		}
		r := f.asked()[0]
		if id := r.Header.Get("X-Codex-Noise-Stream-Id"); id != "stream??Evil: 1" {
			t.Errorf("stream id header %q", id)
		}
		wantMembers(t, r.Body, "executor_registration_id", "harness_public_key", "harness_key_authorization")
	}
}

// wantMembers says that body has these members and no other.
func wantMembers(t *testing.T, body []byte, names ...string) {
	t.Helper()
	var got map[string]json.RawMessage
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for _, n := range names {
		want[n] = true
	}
	have := make(map[string]bool)
	for n := range maps.Keys(got) {
		have[n] = true
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

// Answers that say 2xx and nothing that can be used.
func TestUnusableAnswers(t *testing.T) {
	change := func(f func(*registry.RegisterResponse)) any {
		r := registered()
		f(&r)
		return r
	}
	for name, answer := range map[string]any{
		"not JSON":              "<html>",
		"cut":                   `{"environment_id":"lab"`,
		"too long":              `{"x":"` + strings.Repeat("x", registry.MaxResponse) + `"}`,
		"other environment":     change(func(r *registry.RegisterResponse) { r.EnvironmentID = "lab2" }),
		"other profile":         change(func(r *registry.RegisterResponse) { r.SecurityProfile = "none" }),
		"no registration":       change(func(r *registry.RegisterResponse) { r.ExecutorRegistrationID = " " }),
		"no URL":                change(func(r *registry.RegisterResponse) { r.URL = "" }),
		"clear text elsewhere":  change(func(r *registry.RegisterResponse) { r.URL = "ws://192.0.2.1/x" }),
		"a URL of another kind": change(func(r *registry.RegisterResponse) { r.URL = "https://relay.example/x" }),
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, reply(200, answer))
			_, err := client(t, f.URL).Register(t.Context(), "lab", newKey(t))
			if _, ok := errors.AsType[*registry.ResponseError](err); !ok {
				t.Fatalf("got %v, want a ResponseError", err)
			}
			if registry.RetryRenewal(err) || registry.RetryConnect(err) {
				t.Error("would be asked again")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells secrets: %v", err)
			}
		})
	}
}

func TestUnusableConnectAnswers(t *testing.T) {
	good := func() map[string]any {
		return map[string]any{
			"environment_id": "lab", "url": "wss://relay.example/x", "security_profile": registry.SecurityProfile,
			"executor_registration_id": "reg-1", "executor_public_key": newKey(t), "harness_key_authorization": "once",
		}
	}
	for _, missing := range []string{
		"environment_id", "url", "security_profile", "executor_registration_id",
		"executor_public_key", "harness_key_authorization",
	} {
		t.Run(missing, func(t *testing.T) {
			answer := good()
			delete(answer, missing)
			f := serve(t, reply(200, answer))
			_, err := client(t, f.URL).Connect(t.Context(), "lab", newKey(t))
			if _, ok := errors.AsType[*registry.ResponseError](err); !ok {
				t.Fatalf("got %v, want a ResponseError", err)
			}
		})
	}
	t.Run("long authorization", func(t *testing.T) {
		answer := good()
		answer["harness_key_authorization"] = strings.Repeat("a", registry.MaxAuthorization+1)
		f := serve(t, reply(200, answer))
		if _, err := client(t, f.URL).Connect(t.Context(), "lab", newKey(t)); err == nil {
			t.Fatal("taken")
		}
	})
	t.Run("unknown member in the key", func(t *testing.T) {
		answer := good()
		answer["executor_public_key"] = map[string]string{"suite": "x", "more": "y"}
		f := serve(t, reply(200, answer))
		if _, err := client(t, f.URL).Connect(t.Context(), "lab", newKey(t)); err == nil {
			t.Fatal("taken")
		}
	})
}

// valid must be there.
func TestValidateAnswerWithoutMember(t *testing.T) {
	for _, answer := range []string{`{}`, `{"valid":null}`, `{"valid":"true"}`} {
		f := serve(t, reply(200, answer))
		ok, err := client(t, f.URL).Validate(t.Context(), "lab", "s", registry.ValidateRequest{HarnessPublicKey: newKey(t)})
		if ok || err == nil {
			t.Errorf("%s: %v, %v", answer, ok, err)
		}
	}
}

// Both shapes of an error, and what is neither.
func TestErrorBodies(t *testing.T) {
	for name, test := range map[string]struct {
		status              int
		body, code, message string
	}{
		"error":         {409, `{"error":{"code":"environment_offline","message":"no executor"}}`, "environment_offline", "no executor"},
		"detail":        {503, `{"detail":{"code":"c","message":"m"}}`, "c", "m"},
		"both":          {400, `{"detail":{"code":"c2"},"error":{"code":"c1"}}`, "c1", ""},
		"error is text": {400, `{"error":"bad","detail":{"code":"c"}}`, "c", ""},
		"none":          {500, `oops`, "", ""},
		"too long":      {400, `{"error":{"code":"c","message":"` + strings.Repeat("m", 5000) + `"}}`, "", ""},
		"for terminals": {400, `{"error":{"code":"c","message":"\u001b[2Jx\ny"}}`, "c", "[2Jx y"},
		"redirect":      {302, ``, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				reply(test.status, test.body)(w, r)
			})
			_, err := client(t, f.URL).Register(t.Context(), "lab", newKey(t))
			got, ok := errors.AsType[*registry.StatusError](err)
			if !ok {
				t.Fatalf("got %v, want a StatusError", err)
			}
			want := registry.StatusError{Op: "register", Host: got.Host, Status: test.status, Code: test.code, Message: test.message}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := len(f.asked()); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// An error says what to do about it.
func TestStatusErrorsSayWhatToDo(t *testing.T) {
	for _, test := range []struct {
		err  registry.StatusError
		want string
	}{
		{registry.StatusError{Op: "register", Status: 401}, "token"},
		{registry.StatusError{Op: "register", Status: 403}, "role"},
		{registry.StatusError{Op: "connect", Status: 404}, "URL"},
		{registry.StatusError{Op: "register", Status: 409}, "another executor"},
		{registry.StatusError{Op: "connect", Status: 409, Code: registry.CodeOffline}, "no executor is connected"},
		{registry.StatusError{Op: "connect", Status: 429}, "later"},
		{registry.StatusError{Op: "connect", Status: 301}, "redirects"},
		{registry.StatusError{Op: "connect", Status: 502}, "later"},
	} {
		if got := test.err.Error(); !strings.Contains(got, test.want) {
			t.Errorf("%q does not say %q", got, test.want)
		}
	}
}

func TestGzip(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			t.Error("gzip is not asked for")
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_ = json.NewEncoder(z).Encode(registered())
		_ = z.Close()
	})
	if _, err := client(t, f.URL).Register(t.Context(), "lab", newKey(t)); err != nil {
		t.Fatal(err)
	}
}

// A bomb is not unpacked.
func TestGzipBomb(t *testing.T) {
	var bomb bytes.Buffer // made before anybody waits for it
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(bytes.Repeat([]byte(" "), 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	_, err := client(t, f.URL).Register(t.Context(), "lab", newKey(t))
	if _, ok := errors.AsType[*registry.ResponseError](err); !ok {
		t.Fatalf("got %v", err)
	}
}

func TestEnvironmentIDsAreChecked(t *testing.T) {
	f := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked") }))
	defer f.Close()
	c := client(t, f.URL)
	for _, id := range []string{"", "..", "a/b", "a?b", "a#b", "a b", "ä", "a%2e", strings.Repeat("x", registry.MaxEnvironmentID+1)} {
		if _, err := c.Register(t.Context(), id, newKey(t)); err == nil {
			t.Errorf("%q was taken", id)
		}
	}
	for _, id := range []string{"lab", "A-z_0", strings.Repeat("x", registry.MaxEnvironmentID)} {
		if err := registry.CheckEnvironmentID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}
