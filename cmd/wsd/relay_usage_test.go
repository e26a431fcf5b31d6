package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is wrong with the flags themselves: exit status 2, what it is, and a hint. Nothing
// is opened, read or asked before.
func TestRelayUsage(t *testing.T) {
	remote := "--remote http://127.0.0.1:1 --environment-id lab "
	for _, tt := range []struct {
		args string
		env  string // NAME=VALUE...
		want string
	}{
		{args: "serve --remote http://127.0.0.1:1", want: "--remote needs --environment-id"},
		{args: "--remote http://127.0.0.1:1", want: "--remote needs --environment-id"},
		{args: "exec-server --remote http://127.0.0.1:1", want: "--remote needs --environment-id"},
		{args: "serve --environment-id lab", want: "--environment-id is for serving over a relay"},
		{args: "serve --token-file t", want: "--token-file is for serving over a relay"},
		{args: "serve --authorized-keys k", want: "--authorized-keys is for serving over a relay"},
		{args: "serve --remote ftp://h --environment-id lab", want: "invalid value for --remote"},
		{args: "serve --remote https://h?x=y --environment-id lab", want: "invalid value for --remote"},
		{args: "serve --remote https://u:p@h --environment-id lab", want: "invalid value for --remote"},
		{args: "serve --remote http://127.0.0.1:1 --environment-id a/b", want: "invalid value for --environment-id"},
		{args: "serve " + remote + "--relay-life 0s", want: "invalid value 0s for --relay-life"},
		{args: "serve " + remote + "--token-file t --registration-bearer-stdin", want: "--token-file and --registration-bearer-stdin say twice"},
		{args: "serve " + remote + "--chatgpt-token-stdin", want: "--chatgpt-token-stdin and --chatgpt-account-id go together"},
		{args: "serve " + remote + "--chatgpt-account-id me --token-file t", want: "--chatgpt-token-stdin and --chatgpt-account-id go together"},
		{args: "serve " + remote, want: "the relay wants to know who this is"},
		{args: "serve " + remote, env: "WSD_TOKEN=a WSD_API_KEY=b", want: "$WSD_TOKEN and $WSD_API_KEY say twice"},
		{args: "serve " + remote + "--log-level loud", want: "--log-level"},
		{args: "serve --forward ws://127.0.0.1:1", want: "--forward is for serving over a relay"},
		{args: "serve " + remote + "--forward ws://127.0.0.1:1 --listen stdio", want: "--forward passes on another server, which --listen does not serve"},
		{args: "serve " + remote + "--forward tcp://127.0.0.1:1", env: "WSD_TOKEN=a", want: "unsupported URL"},
		{args: "exec-server forward " + remote, want: "--connect is missing"},
		{args: "exec-server forward --connect ws://127.0.0.1:1", want: "--remote is missing"},
		{args: "exec-server forward " + remote + "--connect relay://127.0.0.1:1/x", env: "WSD_TOKEN=a", want: "not put in front of a relay"},

		{args: "relay here", want: "takes no arguments"},
		{args: "relay --listen ws://127.0.0.1:0", want: "want http://IP:PORT or https://IP:PORT"},
		{args: "relay --listen http://127.0.0.1:0/path", want: "want http://IP:PORT or https://IP:PORT"},
		{args: "relay --listen http://localhost:1", want: "is no IP address"},
		{args: "relay --listen http://0.0.0.0:0", want: "needs TLS: 0.0.0.0 is not a loopback address"},
		{args: "relay --listen http://0.0.0.0:0 --behind-proxy", want: "nobody can connect to 0.0.0.0"},
		{args: "relay --listen https://127.0.0.1:0", want: "needs --tls-cert and --tls-key"},
		{args: "relay --listen http://127.0.0.1:0 --tls-cert c --tls-key k", want: "does not use the certificate"},
		{args: "relay --public-url nonsense", want: "invalid value for --public-url"},
		{args: "relay --node-url http://relay.example", want: "nobody sends a token to relay.example without TLS"},
		{args: "relay --log-format xml", want: "--log-format"},
		{args: "relay --listen http://127.0.0.1:0 --state here.db", want: `invalid value for --state: a state is "sqlite:PATH"`},
		{args: "relay token list --state ./here.db", want: `"sqlite:./here.db"`},
		{args: "relay token create --environment lab", want: "--role is missing: executor or harness"},
		{args: "relay token create --role admin --environment lab", want: `invalid value "admin" for --role`},
		{args: "relay token create --role harness", want: "--environment is missing"},
		{args: "relay token create --role harness --environment a/b", want: "invalid value for --environment"},
		{args: "relay token create --role harness --environment lab --expires -1h", want: "for --expires"},
		{args: "relay token create --role harness --environment lab --max-streams -1", want: "for --max-streams"},
		{args: "relay token create --role executor --environment lab --max-streams 1", want: "--max-streams is for --role harness"},
		{args: "relay token create --role harness --environment lab --max-bytes-per-second 10", want: "a frame has up to 262144"},
		{args: "relay token revoke", want: "which token?"},
		{args: "relay token list --state memory:", want: "reached by nobody else"},
		{args: "relay status --state memory:", want: "reached by nobody else"},

		{args: "fingerprint", want: "say which keys"},
		{args: "fingerprint --client --environment-id lab", want: "say which keys"},
		{args: "fingerprint --environment-id a/b", want: "invalid value for --environment-id"},
		{args: "ls --connect relay://127.0.0.1:1", want: "no environment after the host"},
		{args: "ls --connect relay+http://relay.example/lab", want: "a token is not sent without TLS"},
		{args: "ls --connect relay://127.0.0.1:1/lab#", want: "what comes after #"},
	} {
		t.Run(tt.args+" "+tt.env, func(t *testing.T) {
			home := t.TempDir()
			for _, name := range slices.Concat([]string{envURL, envToken, envTokenFile, "XDG_CONFIG_HOME", "XDG_STATE_HOME", "STATE_DIRECTORY"}, envAPIKeys, envHomes) {
				t.Setenv(name, "")
			}
			t.Setenv("HOME", home)
			for set := range strings.FieldsSeq(tt.env) {
				name, value, _ := strings.Cut(set, "=")
				t.Setenv(name, value)
			}
			var stdout, stderr bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // whatever begins to serve ends at once
			if code := a.run(ctx, strings.Fields(tt.args)); code != exitUsage {
				t.Errorf("exit status %d", code)
			}
			if text := stderr.String(); !strings.Contains(text, tt.want) || !strings.Contains(text, "\nHint: ") || strings.Contains(text, "u:p") {
				t.Errorf("%s", text)
			}
			if stdout.Len() > 0 {
				t.Errorf("on stdout: %s", &stdout)
			}
			if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
				t.Errorf("it made %v, %v", left, err)
			}
		})
	}
}

// A name that was mistyped makes no file.
func TestRelayRefusesFiles(t *testing.T) {
	for args, want := range map[string]string{
		"relay token list --state sqlite:here.db":           "no relay keeps its state in here.db",
		"relay token revoke 1f0c52a9be77 --state sqlite:no": "no relay keeps its state in no",
		"relay status --state sqlite:deep/here.db":          "no relay keeps its state in deep/here.db",
		"fingerprint --identity none.json":                  "--identity none.json",
	} {
		t.Run(args, func(t *testing.T) {
			t.Chdir(t.TempDir())
			var stderr bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &stderr}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if code := a.run(ctx, strings.Fields(args)); code != exitFailure || !strings.Contains(stderr.String(), want) {
				t.Errorf("exit status %d\n%s", code, &stderr)
			}
			if left, err := filepath.Glob("*"); err != nil || len(left) > 0 {
				t.Errorf("it made %v, %v", left, err)
			}
		})
	}
}
