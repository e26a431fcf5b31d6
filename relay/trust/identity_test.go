package trust

import (
	"bytes"
	"errors"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/relay/seal"
)

// envIdentity makes the test binary a process that wants the identity in that file
// and prints its fingerprint.
const envIdentity = "WSD_TEST_IDENTITY"

func TestMain(m *testing.M) {
	if path := os.Getenv(envIdentity); path != "" {
		id, err := Identity(path)
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		_, _ = os.Stdout.WriteString(id.Public().Fingerprint().String())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func newFingerprint(t testing.TB) seal.Fingerprint {
	t.Helper()
	return newKey(t).Fingerprint()
}

func newKey(t testing.TB) *seal.PublicKey {
	t.Helper()
	id, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id.Public()
}

func write(t testing.TB, path, text string, mode iofs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestIdentityIsMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "identity")
	if _, err := LoadIdentity(path); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	first, err := Identity(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Identity(path)
	if err != nil || !first.Public().Equal(second.Public()) {
		t.Errorf("second time: %v, or another key", err)
	}
	for p, want := range map[string]iofs.FileMode{path: 0o600, filepath.Dir(path): 0o700, filepath.Dir(filepath.Dir(path)): 0o700} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", p, got, want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestIdentityRefused(t *testing.T) {
	good := filepath.Join(t.TempDir(), "identity")
	if _, err := Identity(good); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		mode       iofs.FileMode
		want       string
	}{
		{"group may read", string(text), 0o640, "chmod 600 "},
		{"world may read", string(text), 0o604, "chmod 600 "},
		{"group may write", string(text), 0o620, "chmod go-w "},
		{"empty", "", 0o600, "read identity"},
		{"cut", string(text[:len(text)/2]), 0o600, "read identity"},
		{"too long", string(text) + strings.Repeat(" ", MaxIdentityBytes), 0o600, "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "identity")
			write(t, path, tt.text, tt.mode)
			_, err := Identity(path)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if after, _ := os.ReadFile(path); string(after) != tt.text {
				t.Error("the file was changed")
			}
		})
	}
	dir := t.TempDir()
	if _, err := Identity(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Identity(pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
	if _, err := Identity(filepath.Join(good, "x")); err == nil {
		t.Error("below a file")
	}
}

// Goroutines and processes that want the identity at once all get the same.
func TestIdentityRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "identity")
	prints := make([]string, 12)
	var wg sync.WaitGroup
	for i := range prints {
		wg.Go(func() {
			if i%2 == 0 {
				id, err := Identity(path)
				if err != nil {
					t.Error(err)
					return
				}
				prints[i] = id.Public().Fingerprint().String()
				return
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), envIdentity+"="+path)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			prints[i] = string(bytes.TrimSpace(out))
		})
	}
	wg.Wait()
	for i, print := range prints {
		if print == "" || print != prints[0] {
			t.Errorf("%d has %q, 0 has %q", i, print, prints[0])
		}
	}
}
