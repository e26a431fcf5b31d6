package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write makes a file and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newPolicy(t *testing.T, cfg Config) *Policy {
	t.Helper()
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// authorize asks p about a request with these Authorization headers.
func authorize(p *Policy, headers ...string) error {
	r := httptest.NewRequest(http.MethodGet, "/?access_token=tok123", nil)
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return p.Authorize(r)
}

func TestHeader(t *testing.T) {
	p := newPolicy(t, Config{Mode: ModeCapabilityToken, TokenFile: write(t, " tok123\n\n")})
	for _, tc := range []struct {
		name    string
		headers []string
		want    error
	}{
		{"right", []string{"Bearer tok123"}, nil},
		{"scheme in lower case", []string{"bearer tok123"}, nil},
		{"scheme in upper case", []string{"BEARER tok123"}, nil},
		{"blanks around the token", []string{"Bearer   tok123  "}, nil},
		{"the first of two counts", []string{"Bearer tok123", "Bearer no"}, nil},
		{"the second of two does not", []string{"Bearer no", "Bearer tok123"}, InvalidToken},
		{"none, whatever the query says", nil, MissingToken},
		{"another scheme", []string{"Basic dG9rMTIz"}, InvalidHeader},
		{"the token alone", []string{"tok123"}, InvalidHeader},
		{"no token", []string{"Bearer"}, InvalidHeader},
		{"an empty token", []string{"Bearer "}, InvalidHeader},
		{"a tab", []string{"Bearer\ttok123"}, InvalidHeader},
		{"longer", []string{"Bearer tok1234"}, InvalidToken},
		{"shorter", []string{"Bearer tok12"}, InvalidToken},
		{"another case", []string{"Bearer TOK123"}, InvalidToken},
		{"two tokens", []string{"Bearer tok123 tok123"}, InvalidToken},
		{"the digest instead", []string{"Bearer " + digest("tok123")}, InvalidToken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := authorize(p, tc.headers...); !errors.Is(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestDigestInEitherCase(t *testing.T) {
	for _, hex := range []string{digest("tok"), strings.ToUpper(digest("tok"))} {
		p := newPolicy(t, Config{Mode: ModeCapabilityToken, TokenSHA256: hex})
		if err := authorize(p, "Bearer tok"); err != nil {
			t.Errorf("right token: %v", err)
		}
		if err := authorize(p, "Bearer toc"); !errors.Is(err, InvalidToken) {
			t.Errorf("wrong token: %v", err)
		}
	}
}

func TestNoPolicyWithoutMode(t *testing.T) {
	if p, err := New(Config{}); p != nil || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestConfigErrors(t *testing.T) {
	token, secret := write(t, "token"), write(t, strings.Repeat("s", 32))
	negative := -time.Second
	for _, tc := range []struct {
		name string
		cfg  Config
		want string // part of the error
	}{
		{"settings without a mode", Config{TokenFile: token}, "need --ws-auth"},
		{"skew without a mode", Config{ClockSkew: new(time.Duration)}, "need --ws-auth"},
		{"unknown mode", Config{Mode: "basic"}, `unknown --ws-auth mode "basic"`},
		{"capability without a token", Config{Mode: ModeCapabilityToken}, "needs --ws-token-file or --ws-token-sha256"},
		{"both tokens", Config{Mode: ModeCapabilityToken, TokenFile: token, TokenSHA256: digest("x")}, "exclude each other"},
		{"no such token file", Config{Mode: ModeCapabilityToken, TokenFile: token + "x"}, "read websocket token"},
		{"empty token file", Config{Mode: ModeCapabilityToken, TokenFile: write(t, " \n")}, "is empty"},
		{"short digest", Config{Mode: ModeCapabilityToken, TokenSHA256: "abcd"}, "64 hex digits"},
		{"no digest", Config{Mode: ModeCapabilityToken, TokenSHA256: strings.Repeat("g", 64)}, "64 hex digits"},
		{"capability with an issuer", Config{Mode: ModeCapabilityToken, TokenFile: token, Issuer: "me"}, "need --ws-auth signed-bearer-token"},
		{"signed without a secret", Config{Mode: ModeSignedBearerToken}, "needs --ws-shared-secret-file"},
		{"no such secret file", Config{Mode: ModeSignedBearerToken, SharedSecretFile: secret + "x"}, "read websocket shared secret"},
		{"short secret, blanks not counted", Config{Mode: ModeSignedBearerToken, SharedSecretFile: write(t, strings.Repeat("s", 31)+"\n\n")}, "at least 32 bytes"},
		{"signed with a token", Config{Mode: ModeSignedBearerToken, SharedSecretFile: secret, TokenSHA256: digest("x")}, "need --ws-auth capability-token"},
		{"negative skew", Config{Mode: ModeSignedBearerToken, SharedSecretFile: secret, ClockSkew: &negative}, "must not be negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := New(tc.cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	secret := Secret("hunter2")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("message", "secret", secret)
	slog.New(slog.NewTextHandler(&log, nil)).Info("message", "secret", secret)
	encoded, err := json.Marshal(struct{ S Secret }{secret})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(encoded)
	for _, verb := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%d"} {
		all += fmt.Sprintf(verb, secret) + fmt.Sprintf(verb, struct{ S Secret }{secret})
	}
	for _, bad := range []string{"hunter2", hex.EncodeToString(secret), "104 117"} {
		if strings.Contains(all, bad) {
			t.Errorf("shown as %q in %s", bad, all)
		}
	}
	if !strings.Contains(all, redacted) {
		t.Errorf("not marked: %s", all)
	}
}

// A secret that is given itself is a token like one from a file, for every page.
func TestSecret(t *testing.T) {
	p := newPolicy(t, Config{Secret: Secret("0123456789abcdef")})
	for header, want := range map[string]error{
		"Bearer 0123456789abcdef": nil, "bEARER 0123456789abcdef": nil,
		"Bearer 0123456789abcdeF": InvalidToken, "0123456789abcdef": InvalidHeader,
	} {
		if got := authorize(p, header); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
	if err := authorize(p); err != MissingToken {
		t.Errorf("without a token: %v", err)
	}
	if _, err := New(Config{Secret: Secret("x"), Mode: ModeCapabilityToken, TokenSHA256: digest("y")}); err == nil {
		t.Error("a secret beside a mode is taken")
	}
}

// A file of a token is refused when others may write it; what else is weak is said.
func TestSL10WeakTokens(t *testing.T) {
	long := strings.Repeat("t", minTokenBytes)
	for _, tc := range []struct {
		content string
		mode    os.FileMode
		refused bool
		warns   []string // part of each
	}{
		{long, 0o600, false, nil},
		{long, 0o400, false, nil},
		{long, 0o644, false, []string{"chmod 600"}},
		{long, 0o640, false, []string{"chmod 600"}},
		{"x", 0o600, false, []string{"has 1 bytes"}},
		{"x", 0o604, false, []string{"chmod 600", "has 1 bytes"}},
		{long, 0o666, true, nil},
		{long, 0o620, true, nil},
		{long, 0o602, true, nil},
	} {
		path := write(t, tc.content)
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		p, err := New(Config{Mode: ModeCapabilityToken, TokenFile: path})
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "chmod go-w "+path) {
			t.Errorf("%04o: %v", tc.mode, err)
		}
		got := p.Warnings()
		for i, want := range tc.warns {
			if i >= len(got) || !strings.Contains(got[i], want) {
				t.Errorf("%04o, %d bytes: warnings %q, want %q", tc.mode, len(tc.content), got, tc.warns)
			}
		}
		if len(got) != len(tc.warns) {
			t.Errorf("%04o, %d bytes: warnings %q, want %q", tc.mode, len(tc.content), got, tc.warns)
		}
	}
	path := write(t, testKey)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Mode: ModeSignedBearerToken, SharedSecretFile: path}); err == nil {
		t.Error("a shared secret that all may write is taken")
	}
	if p := newPolicy(t, Config{Secret: Secret("short")}); len(p.Warnings()) != 1 {
		t.Errorf("a short secret: %q", p.Warnings())
	}
}
