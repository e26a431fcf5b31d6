package registry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// authorize returns the headers that cred sets for u.
func authorize(t *testing.T, cred registry.Credential, u string) (http.Header, error) {
	t.Helper()
	parsed, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	req := &http.Request{URL: parsed, Header: http.Header{}}
	return req.Header, cred.Authorize(req)
}

func must(t *testing.T) func(registry.Credential, error) registry.Credential {
	return func(c registry.Credential, err error) registry.Credential {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// Where each kind may be sent.
func TestWhereCredentialsGo(t *testing.T) {
	m := must(t)
	bearer := m(registry.Bearer("t"))
	key := m(registry.APIKey("t"))
	chatGPT := m(registry.ChatGPT("t", "acc"))
	for _, test := range []struct {
		url                  string
		bearer, key, chatGPT bool
	}{
		{"https://relay.example/x", true, false, true},
		{"http://relay.example", false, false, false},
		{"http://192.0.2.1", false, false, false},
		{"http://127.0.0.1:80", true, true, false},
		{"http://127.9.9.9", true, true, false},
		{"http://[::1]:80", true, true, false},
		{"http://[::ffff:127.0.0.1]", true, true, false},
		{"http://LOCALHOST", true, true, false},
		{"https://localhost", true, true, true},
		{"http://localhost.example", false, false, false},
		{"http://127.0.0.1.example", false, false, false},
		{"https://api.openai.com", true, true, true},
		{"https://chatgpt.com/backend-api", true, true, true},
		{"http://api.openai.com", false, false, false},
		{"https://openai.com.example", true, false, true},
		{"https://notopenai.com", true, false, true},
	} {
		for name, c := range map[string]struct {
			cred registry.Credential
			may  bool
		}{"bearer": {bearer, test.bearer}, "key": {key, test.key}, "ChatGPT": {chatGPT, test.chatGPT}} {
			header, err := authorize(t, c.cred, test.url)
			if (err == nil) != c.may {
				t.Errorf("%s to %s: %v", name, test.url, err)
			}
			if err != nil && len(header) != 0 {
				t.Errorf("%s to %s: refused, and set all the same", name, test.url)
			}
			if _, ok := errors.AsType[*registry.CredentialError](err); err != nil && !ok {
				t.Errorf("%s to %s: %v is no CredentialError", name, test.url, err)
			}
		}
	}
	header, err := authorize(t, chatGPT, "https://relay.example")
	if err != nil || header.Get("ChatGPT-Account-ID") != "acc" || header.Get("Authorization") != "Bearer t" {
		t.Errorf("headers %v, %v", header, err)
	}
}

// A client for a URL that its credential must not go to is not made.
func TestClientChecksURLs(t *testing.T) {
	cred := must(t)(registry.Bearer("t"))
	for _, u := range []string{
		"http://relay.example", "https://u:p@relay.example", "https://relay.example?x=1", "https://relay.example/?",
		"https://relay.example#x", "ftp://relay.example", "relay.example", "https://", "https://[", "",
	} {
		if _, err := registry.New(registry.Config{BaseURLs: []string{"https://ok.example", u}, Credential: cred}); err == nil {
			t.Errorf("%q was taken", u)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: the error repeats the password: %v", u, err)
		}
	}
	if _, err := registry.New(registry.Config{}); err == nil {
		t.Error("no URL was taken")
	}
}

func TestTokensAreChecked(t *testing.T) {
	for _, secret := range []string{"", "a b", "a\nb", "ä", "a\x00", strings.Repeat("x", registry.MaxToken+1)} {
		if _, err := registry.Bearer(secret); err == nil {
			t.Errorf("%.10q was taken", secret)
		} else if secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats the token: %v", err)
		}
	}
	if _, err := registry.ChatGPT("t", "a\r\nb"); err == nil {
		t.Error("an account with a line end was taken")
	}
}

// Nothing prints a secret, whatever it is asked with.
func TestNothingPrintsSecrets(t *testing.T) {
	dir := t.TempDir()
	writeLogin(t, dir, `{"tokens":{"access_token":"hunter2","account_id":"a"}}`)
	m := must(t)
	values := []any{
		m(registry.Bearer("hunter2")), m(registry.APIKey("hunter2")), m(registry.ChatGPT("hunter2", "a")), m(registry.CodexLogin(dir)),
		registry.RegisterResponse{URL: "wss://x/hunter2"},
		&registry.ConnectResponse{URL: "hunter2", HarnessKeyAuthorization: "hunter2"},
		registry.ValidateRequest{HarnessKeyAuthorization: "hunter2"},
	}
	for _, v := range values {
		var b bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&b, verb+"\n", v)
			fmt.Fprintf(&b, verb+"\n", struct{ V any }{v})
		}
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
		for _, secret := range []string{"hunter2", "68756e74657232"} {
			if strings.Contains(b.String(), secret) {
				t.Errorf("%T prints its secret:\n%s", v, b.String())
			}
		}
	}
}

func TestReadToken(t *testing.T) {
	for name, test := range map[string]struct{ in, want, rest string }{
		"line":           {"tok\n", "tok", ""},
		"with return":    {"tok\r\n", "tok", ""},
		"more after":     {"tok\nmore", "tok", "more"},
		"longest":        {strings.Repeat("x", registry.MaxToken) + "\n", strings.Repeat("x", registry.MaxToken), ""},
		"no newline":     {"tok", "", ""},
		"empty":          {"\n", "", ""},
		"nothing":        {"", "", ""},
		"too long":       {strings.Repeat("x", registry.MaxToken+1) + "\n", "", "\n"},
		"white space in": {"to ken\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := iotest.OneByteReader(strings.NewReader(test.in))
			got, err := registry.ReadToken(r)
			if (err == nil) != (test.want != "") || err == nil && got != test.want {
				t.Fatalf("got %.20q, %v", got, err)
			}
			rest, _ := io.ReadAll(r)
			if string(rest) != test.rest {
				t.Errorf("left %q, want %q", rest, test.rest)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := registry.ReadToken(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func writeLogin(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCodexLogin(t *testing.T) {
	dir := t.TempDir()
	if _, err := registry.CodexLogin(dir); err == nil || !strings.Contains(err.Error(), "codex login") {
		t.Fatalf("without a file: %v", err)
	}
	for _, text := range []string{`{}`, `{"tokens":{}}`, `{"OPENAI_API_KEY":null,"tokens":null}`, `not JSON`, strings.Repeat(" ", 300<<10)} {
		writeLogin(t, dir, text)
		if _, err := registry.CodexLogin(dir); err == nil {
			t.Errorf("%.40q was taken", text)
		}
	}

	writeLogin(t, dir, `{"OPENAI_API_KEY":"key","tokens":{"id_token":"i","access_token":"one","refresh_token":"r","account_id":"acc"},"last_refresh":"x"}`)
	cred, err := registry.CodexLogin(dir)
	if err != nil {
		t.Fatal(err)
	}
	header, err := authorize(t, cred, "https://relay.example")
	if err != nil || header.Get("Authorization") != "Bearer one" || header.Get("ChatGPT-Account-ID") != "acc" {
		t.Fatalf("%v, %v", header, err)
	}

	// Refreshed by codex: of the same size, and replaced within the clock's grain.
	writeLogin(t, dir, `{"OPENAI_API_KEY":"key","tokens":{"id_token":"i","access_token":"two","refresh_token":"r","account_id":"acc"},"last_refresh":"x"}`)
	if err := os.Chtimes(filepath.Join(dir, "auth.json"), time.Time{}, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if header, err := authorize(t, cred, "https://relay.example"); err != nil || header.Get("Authorization") != "Bearer two" {
		t.Fatalf("after a refresh: %v, %v", header, err)
	}

	// A login with an API key has an API key's rule.
	writeLogin(t, dir, `{"OPENAI_API_KEY":"key"}`)
	if _, err := authorize(t, cred, "https://relay.example"); err == nil {
		t.Error("an API key went elsewhere")
	}
	if header, err := authorize(t, cred, "http://127.0.0.1"); err != nil || header.Get("Authorization") != "Bearer key" {
		t.Errorf("%v, %v", header, err)
	}

	// Logged out.
	if err := os.Remove(filepath.Join(dir, "auth.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := authorize(t, cred, "https://relay.example"); err == nil {
		t.Error("the login outlived its file")
	}
}

// A login that cannot be read for a moment, or that codex is just writing, is no login
// that the executor does not have.
func TestCodexLoginUnreadNow(t *testing.T) {
	const text = `{"OPENAI_API_KEY":"key"}`
	for name, harm := range map[string]func(path string) error{
		"empty":      func(path string) error { return os.Truncate(path, 0) },
		"half":       func(path string) error { return os.Truncate(path, int64(len(text)/2)) },
		"open fails": func(path string) error { return errors.Join(os.Remove(path), os.Symlink(path, path)) },
		"read fails": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := registry.CodexLoginFile(dir)
			writeLogin(t, dir, text)
			cred, err := registry.CodexLogin(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			_, err = authorize(t, cred, "http://127.0.0.1")
			if _, refusal := errors.AsType[*registry.CredentialError](err); err == nil || refusal {
				t.Errorf("Authorize: %v", err)
			}
			if !registry.RetryRenewal(err) || !registry.RetryConnect(err) || registry.RetryRegister(err) {
				t.Errorf("renewal %v, connect %v, register %v: %v",
					registry.RetryRenewal(err), registry.RetryConnect(err), registry.RetryRegister(err), err)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			writeLogin(t, dir, text)
			if header, err := authorize(t, cred, "http://127.0.0.1"); err != nil || header.Get("Authorization") != "Bearer key" {
				t.Errorf("afterwards: %v, %v", header, err)
			}
		})
	}
}

// A file that says that there is no login, or is gone, or held none from the beginning, is refused.
func TestCodexLoginRefused(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"no login":  func(path string) error { return os.WriteFile(path, []byte(`{"OPENAI_API_KEY":null}`), 0o600) },
		"no object": func(path string) error { return os.WriteFile(path, []byte(`[]`), 0o600) },
		"gone":      os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeLogin(t, dir, `{"OPENAI_API_KEY":"key"}`)
			cred, err := registry.CodexLogin(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := harm(registry.CodexLoginFile(dir)); err != nil {
				t.Fatal(err)
			}
			_, err = authorize(t, cred, "http://127.0.0.1")
			if _, refusal := errors.AsType[*registry.CredentialError](err); !refusal || registry.RetryRenewal(err) {
				t.Errorf("Authorize: %v", err)
			}
		})
	}
	dir := t.TempDir()
	writeLogin(t, dir, "")
	_, err := registry.CodexLogin(dir)
	if _, refusal := errors.AsType[*registry.CredentialError](err); !refusal {
		t.Errorf("empty from the beginning: %v", err)
	}
}
