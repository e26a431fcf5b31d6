package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server with TLS is found with its certificate; otherwise one has to say which to
// trust.
func TestConnectTLS(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	server := serveReal(t, "--tls-cert", certFile, "--tls-key", keyFile)

	found := program(t, "exec", "--", "echo", "hello")
	found.Env = server.Env
	if out, err := found.CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("found: %v\n%s", err, out)
	}
	named := program(t, "exec", "--connect", server.url, "--tls-ca", certFile, "--", "echo", "hello")
	if out, err := named.CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("named: %v\n%s", err, out)
	}
	unknown := program(t, "exec", "--connect", server.url, "--", "true")
	out, err := unknown.CombinedOutput()
	if err == nil || unknown.ProcessState.ExitCode() != exitTransport || !strings.Contains(string(out), "Hint: trust the server's certificate with --tls-ca PATH") {
		t.Errorf("unknown: %v\n%s", err, out)
	}
	plain := program(t, "ls", "--connect", strings.Replace(server.url, "wss:", "ws:", 1))
	if out, err := plain.CombinedOutput(); err == nil || !strings.Contains(string(out), "Hint: the server speaks TLS: write wss://") {
		t.Errorf("without TLS: %v\n%s", err, out)
	}
}

func TestConnectHints(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	for _, tt := range []struct {
		serve, ls []string
		scheme    string
		want      string
	}{
		{nil, nil, "wss:", "write ws:// for wss://"},
		{[]string{"--tls-cert", certFile, "--tls-key", keyFile, "--tls-client-ca", certFile}, []string{"--tls-ca", certFile}, "wss:", "a client certificate: --tls-cert PATH"},
	} {
		server := serveReal(t, tt.serve...)
		_, address, _ := strings.Cut(server.url, ":")
		cmd := program(t, append([]string{"ls", "--connect", tt.scheme + address}, tt.ls...)...)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "\nHint: ") || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: %v\n%s", tt.serve, err, out)
		}
	}
}

func TestConnectTimeout(t *testing.T) {
	// A socket that nobody accepts on answers nothing.
	listener := quietListener(t)
	cmd := program(t, "ls", "--connect", "ws://"+listener, "--connect-timeout", "200ms")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no connection within 200ms") {
		t.Errorf("%v\n%s", err, out)
	}
	if d := time.Since(began); d > patience {
		t.Errorf("after %v", d)
	}
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte(" from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flag, env, envFile string
		want               string
		fails              bool
	}{
		{"", "", "", "", false},
		{"", "from-env", "", "from-env", false},
		{"", "", file, "from-file", false},
		{"", "from-env", file, "from-env", false},
		{file, "from-env", empty, "from-file", false},
		{empty, "", "", "", true},
		{filepath.Join(dir, "gone"), "", "", "", true},
	} {
		t.Setenv(envToken, tt.env)
		t.Setenv(envTokenFile, tt.envFile)
		got, err := (&connectFlags{tokenFile: tt.flag}).token()
		if got != tt.want || (err != nil) != tt.fails {
			t.Errorf("%+v: %q, %v", tt, got, err)
		}
	}
}
