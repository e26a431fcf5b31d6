package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/relay/seal"
)

func TestRemoteArgs(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--remote https://h --environment-id lab", "serve --remote https://h --environment-id lab"},
		{"--environment-id lab --remote=https://h", "serve --environment-id lab --remote=https://h"},
		{"serve --remote https://h", "serve --remote https://h"},
		{"exec -- tool --remote x", "exec -- tool --remote x"},
		{"--help", "--help"},
		{"", ""},
	} {
		if got := strings.Join(remoteArgs(strings.Fields(tt.args)), " "); got != tt.want {
			t.Errorf("%q: %q", tt.args, got)
		}
	}
}

// What an executor prints, a client reads; and it leads to where the executor is.
func TestRelayTarget(t *testing.T) {
	identity, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for base, want := range map[string]string{
		"https://relay.example":          "relay://relay.example/lab",
		"https://relay.example:444/pre/": "relay://relay.example:444/pre/lab",
		"http://127.0.0.1:1":             "relay://127.0.0.1:1/lab",
		"http://localhost:1":             "relay://localhost:1/lab",
		"https://127.0.0.1:1":            "relay+https://127.0.0.1:1/lab",
	} {
		got := relayTarget(base, "lab", identity.Public())
		url, print, _ := strings.Cut(got, "#")
		if url != want || print != identity.Public().Fingerprint().String() {
			t.Errorf("%s: %s", base, got)
		}
		u, err := client.ParseRelayURL(got)
		if err != nil || u.Registry != strings.TrimRight(base, "/") || u.EnvironmentID != "lab" || u.Pin != print {
			t.Errorf("%s is read as %+v, %v", got, u, err)
		}
	}
}

// TestCredentialOrder: a flag counts before a variable, ours before codex's, a token
// before a login.
func TestCredentialOrder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flagFile, envFile := write("flag", "from-flag\n"), write("env", "from-file\n")
	write("login/auth.json", `{"OPENAI_API_KEY":"from-login"}`)
	write("home/.codex/auth.json", `{"OPENAI_API_KEY":"from-home"}`)
	for name, tt := range map[string]struct {
		o     remoteOptions
		stdin string
		env   map[string]string
		want  string // the token, or what the error says
	}{
		"flag before variable":  {o: remoteOptions{tokenFile: flagFile}, env: map[string]string{"WSD_TOKEN": "x", "WSD_API_KEY": "y"}, want: "from-flag"},
		"bearer on stdin":       {o: remoteOptions{bearerStdin: true}, stdin: "from-stdin\nmore", env: map[string]string{"WSD_TOKEN": "x"}, want: "from-stdin"},
		"empty stdin":           {o: remoteOptions{bearerStdin: true}, want: "--registration-bearer-stdin: "},
		"WSD_TOKEN":             {env: map[string]string{"WSD_TOKEN": "from-env", "CODEX_API_KEY": "x", "CODEX_HOME": dir}, want: "from-env"},
		"WSD_TOKEN_FILE":        {env: map[string]string{"WSD_TOKEN_FILE": envFile}, want: "from-file"},
		"WSD_API_KEY":           {env: map[string]string{"WSD_API_KEY": "ours", "CODEX_API_KEY": "theirs"}, want: "ours"},
		"CODEX_API_KEY":         {env: map[string]string{"CODEX_API_KEY": "theirs", "CODEX_HOME": dir}, want: "theirs"},
		"a login":               {env: map[string]string{"CODEX_HOME": filepath.Join(dir, "login")}, want: "from-login"},
		"WSD_HOME first":        {env: map[string]string{"WSD_HOME": filepath.Join(dir, "login"), "CODEX_HOME": dir}, want: "from-login"},
		"a login that is not":   {env: map[string]string{"CODEX_HOME": dir}, want: "codex login"},
		"not the login at home": {env: map[string]string{"HOME": filepath.Join(dir, "home")}, want: "give a token with --token-file"},
		"two of ours":           {env: map[string]string{"WSD_TOKEN": "x", "WSD_TOKEN_FILE": envFile}, want: "$WSD_TOKEN and $WSD_TOKEN_FILE say twice"},
		"none":                  {want: "give a token with --token-file"},
		"a flag's missing file": {o: remoteOptions{tokenFile: filepath.Join(dir, "none")}, want: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range slices.Concat([]string{envToken, envTokenFile}, envAPIKeys, envHomes) {
				t.Setenv(v, tt.env[v])
			}
			t.Setenv("HOME", dir)
			if home := tt.env["HOME"]; home != "" {
				t.Setenv("HOME", home)
			}
			cred, err := tt.o.credential(&app{stdin: strings.NewReader(tt.stdin), stdout: io.Discard, stderr: io.Discard})
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %v, want %q", err, tt.want)
				}
				return
			}
			req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", nil)
			if err := cred.Authorize(req); err != nil {
				t.Fatal(err)
			}
			if got := req.Header.Get("Authorization"); got != "Bearer "+tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
