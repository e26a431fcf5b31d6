//go:build interop

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// Programs that the tests drive, set by TestMain.
var (
	codexPath string
	kind      target.Kind
	program   string // of the server under test
	scratch   string // a directory outside the system's temporary one, for homes and workspaces
)

func TestMain(m *testing.M) {
	code, err := prepare(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		code = 1
	}
	os.Exit(code)
}

func prepare(m *testing.M) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	root, err := target.Root()
	if err != nil {
		return 0, err
	}
	cache := filepath.Join(root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return 0, err
	}
	// Not the system's temporary directory: a workspace-write sandbox may write there.
	if scratch, err = os.MkdirTemp(cache, "interop-"); err != nil {
		return 0, err
	}
	defer os.RemoveAll(scratch)
	if codexPath, err = target.CodexPath(); err != nil {
		return 0, err
	}
	switch kind = target.Kind(os.Getenv("WSD_INTEROP_TARGET")); kind {
	case "", target.Wsd:
		kind = target.Wsd
		program, err = target.WsdPath(ctx, scratch)
	case target.Codex:
		program = codexPath
	default:
		err = errors.New("WSD_INTEROP_TARGET is neither wsd nor codex")
	}
	if err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// tempDir is a directory of the test's own, outside the system's temporary one.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "t-") //nolint:usetesting // t.TempDir lies in the system's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A setup is a server, a tap in front of it and a workspace that both know.
type setup struct {
	server    *target.Server
	tap       *tap
	workspace string
	// environment is added to what the client is told of the server.
	environment map[string]any
}

func newSetup(t *testing.T, args ...string) *setup {
	t.Helper()
	s := &setup{workspace: tempDir(t)}
	log := &lockedBuffer{}
	server, err := target.Start(context.Background(), target.Config{
		Kind: kind, Path: program, Args: args, Dir: s.workspace, Home: tempDir(t), Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Errorf("server: %v", err)
		}
		if t.Failed() {
			t.Logf("server's log:\n%s", log)
		}
	})
	s.server, s.tap = server, newTap(t, server.URL)
	return s
}
