package environment_test

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server/environment"
)

type handler struct{ *rpc.Dispatcher }

func (handler) HandleNotification(context.Context, string, []byte) error { return nil }

// call asks a server that serves only s.
func call(t *testing.T, s *environment.Service, method string, params, result any) error {
	t.Helper()
	table := rpc.NewTable()
	environment.Register(table)
	scope := table.NewScope()
	scope.Bind(s)
	a, b := rpc.Pair()
	server := rpc.NewPeer(a, rpc.PeerConfig{Handler: handler{rpc.NewDispatcher(scope, rpc.DispatcherConfig{})}})
	client := rpc.NewPeer(b, rpc.PeerConfig{})
	for _, p := range []*rpc.Peer{server, client} {
		done := make(chan struct{})
		go func() { defer close(done); _ = p.Serve(t.Context()) }()
		defer func() { p.Close(); <-done }()
	}
	return client.Call(t.Context(), method, params, result)
}

func TestInfo(t *testing.T) {
	cwd := t.TempDir()
	t.Setenv("HOME", "/home/some one")
	t.Setenv("TMPDIR", "/var/t")
	grace, retention := 5*time.Second, time.Minute
	s, err := environment.New(environment.Config{
		Version: "1.2.3", Cwd: cwd, Capabilities: map[string]bool{"x": true},
		SessionGrace: &grace, ProcessRetention: &retention,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got protocol.EnvironmentInfo
	if err := call(t, s, "environment/info", nil, &got); err != nil {
		t.Fatal(err)
	}
	want := protocol.EnvironmentInfo{
		Shell: got.Shell, ExecutorVersion: "1.2.3", Cwd: "file://" + cwd, UserHomeDir: "file:///home/some%20one",
		PlatformOS: runtime.GOOS, PrependPathDirs: []string{}, TemporaryDirectories: []string{"file:///var/t"}, TempDir: "file:///var/t",
		Capabilities: map[string]bool{"x": true},
		Limits: &protocol.Limits{
			MaxMessageBytes: 64 << 20, MaxReadFileBytes: 512 << 20, MaxBlockBytes: 1 << 20, MaxRetainedBytes: 1 << 20,
			SessionGraceMs: 5000, ProcessRetentionMs: 60_000,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("environment/info (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, s.Info()); diff != "" {
		t.Errorf("Info (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(got.Shell.Path); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("shell %v cannot be run: %v", got.Shell, err)
	}
}

// The wire wants arrays and an object where there is nothing to list.
func TestInfoEmptyLists(t *testing.T) {
	t.Setenv("TMPDIR", "")
	s, err := environment.New(environment.Config{})
	if err != nil {
		t.Fatal(err)
	}
	info := s.Info()
	raw, err := wire.Append(nil, &info)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"prependPathDirs":[]`, `"temporaryDirectories":[]`, `"capabilities":{}`, `"tempDir":"file:///tmp"`, `"executorVersion":"devel"`} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %s in %s", want, raw)
		}
	}
	if !json.Valid(raw) {
		t.Errorf("invalid JSON: %s", raw)
	}
}

func TestStatus(t *testing.T) {
	draining := false
	s, err := environment.New(environment.Config{Draining: func() bool { return draining }})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ready", "draining"} {
		var got protocol.EnvironmentStatusResult
		if err := call(t, s, "environment/status", nil, &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != want {
			t.Errorf("status %q, want %q", got.Status, want)
		}
		draining = true
	}
}

func TestParamsRefused(t *testing.T) {
	s, err := environment.New(environment.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = call(t, s, "environment/info", map[string]bool{"a": true}, nil)
	if failure := rpc.WireError(err); failure == nil || failure.Code != protocol.CodeInvalidParams {
		t.Errorf("error %v, want invalid params", err)
	}
}
