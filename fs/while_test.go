package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/atomicfile"
)

// endless gives zeros, and cancels after some reads.
type endless struct {
	reads  int
	cancel context.CancelFunc
}

func (e *endless) Read(p []byte) (int, error) {
	if e.reads--; e.reads == 0 {
		e.cancel()
	}
	clear(p)
	return len(p), nil
}

// Long work ends with the request that wants it.
func TestWorkEndsWithItsRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := hashFrom(ctx, &endless{reads: 3, cancel: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("hash: %v", err)
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for path, content := range map[string]string{from: strings.Repeat("line\n", 100), to: "old"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := newLineMatcher(t.Context(), "x", false, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if f := m.file(ctx, from, room{matches: 1, bytes: 1 << 20}); !errors.Is(f.err, context.Canceled) {
		t.Errorf("search: %v", f.err)
	}
	source, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := atomicfile.Resolve(to, true)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if err := copyInto(ctx, source, 0o600, target, to); !errors.Is(err, context.Canceled) {
		t.Errorf("copy: %v", err)
	}
	if got, err := os.ReadFile(to); string(got) != "old" {
		t.Errorf("the copy that ended early left %q, %v", got, err)
	}
}
