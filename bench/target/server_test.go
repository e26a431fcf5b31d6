package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program writes an executable shell script.
func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStart(t *testing.T) {
	path := program(t, `echo "$1 $2 $3 $4" > args; echo ws://127.0.0.1:4000; exec sleep 60`)
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Kind: Wsd, Path: path, Args: []string{"--more"}, Dir: dir, Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if s.URL != "ws://127.0.0.1:4000" || s.Addr != "127.0.0.1:4000" || s.Started <= 0 || s.PID <= 0 {
		t.Errorf("%+v", s)
	}
	args, _ := os.ReadFile(filepath.Join(dir, "args"))
	if string(args) != "serve --listen ws://127.0.0.1:0 --more\n" {
		t.Errorf("started with %q", args)
	}
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("Stop of a program that dies of SIGTERM: %v", err)
	}
	if again := s.Stop(); again == nil {
		t.Error("the second Stop says otherwise")
	}
}

func TestStopOrderly(t *testing.T) {
	path := program(t, `trap 'exit 0' TERM; echo ws://127.0.0.1:4000; while :; do sleep 0.05; done`)
	s, err := Start(t.Context(), Config{Kind: Wsd, Path: path, Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("Stop: %v", err)
	}
}

func TestStartFails(t *testing.T) {
	for name, tt := range map[string]struct{ script, want string }{
		"ends":      {"exit 3", "instead of its URL"},
		"says else": {"echo hello; exec sleep 60", `"hello"`},
	} {
		_, err := Start(t.Context(), Config{Kind: Wsd, Path: program(t, tt.script), Home: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Start(t.Context(), Config{Kind: "other", Path: "true", Home: t.TempDir()}); err == nil {
		t.Error("an unknown kind starts")
	}
}

// npm puts a link to a launcher into node_modules/.bin; the program lies elsewhere.
func TestNative(t *testing.T) {
	dir := t.TempDir()
	scope := filepath.Join(dir, "node_modules", "@openai")
	launcher := filepath.Join(scope, "codex", "bin", "codex.js")
	binary := filepath.Join(scope, "codex-linux-x64", "vendor", "x86_64-unknown-linux-musl", "bin", "codex")
	for _, path := range []string{launcher, binary} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "codex")
	if err := os.Symlink(launcher, link); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{link, binary} {
		got, err := Native(from)
		if err != nil || !strings.HasSuffix(got, "x86_64-unknown-linux-musl/bin/codex") {
			t.Errorf("Native(%s) = %s, %v", from, got, err)
		}
	}
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	if _, err := Native(link); err == nil {
		t.Error("a launcher without a program passes")
	}
}
