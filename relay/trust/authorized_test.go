package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAuthorized(t *testing.T) {
	path := filepath.Join(t.TempDir(), "authorized")
	alice, bob := newKey(t), newKey(t)
	write(t, path, "# people\n\n"+alice.Fingerprint().String()+" alice, laptop\n", 0o644)
	a, err := LoadAuthorized(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(alice); err != nil {
		t.Errorf("alice: %v", err)
	}
	if err := a.Check(bob); !errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), bob.Fingerprint().String()) {
		t.Errorf("bob: %v", err)
	}

	// Changed right away, to the same length.
	write(t, path, "# people\n\n"+bob.Fingerprint().String()+" robert laptop\n", 0o644)
	if err := a.Check(bob); err != nil {
		t.Errorf("bob, after the change: %v", err)
	}
	if err := a.Check(alice); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("alice, after the change: %v", err)
	}

	// Whatever is wrong with it, nobody comes in; when it is mended, they do.
	for name, spoil := range map[string]func() error{
		"malformed":        func() error { return os.WriteFile(path, []byte("ssh-ed25519 AAAA\n"), 0o644) },
		"gone":             func() error { return os.Remove(path) },
		"others may write": func() error { return os.Chmod(path, 0o666) },
		"a directory":      func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := a.Check(bob); err == nil || errors.Is(err, ErrUnauthorized) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.RemoveAll(path)
		write(t, path, bob.Fingerprint().String(), 0o600)
		if err := a.Check(bob); err != nil {
			t.Errorf("%s, mended: %v", name, err)
		}
	}
}

func TestAuthorizedAtStart(t *testing.T) {
	dir := t.TempDir()
	if _, err := LoadAuthorized(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	path := filepath.Join(dir, "keys")
	write(t, path, "# c\n"+newFingerprint(t).String()+"\nSHA256:short\n", 0o600)
	_, err := LoadAuthorized(path)
	if line, ok := errors.AsType[*LineError](err); !ok || line.Line != 3 || line.Path != path {
		t.Errorf("malformed: %v", err)
	}
	write(t, path, "# nobody yet\n", 0o600)
	a, err := LoadAuthorized(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(newKey(t)); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("empty: %v", err)
	}
}

// A file that has not changed for a while is not read again.
func TestAuthorizedIsNotReadInVain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	key := newKey(t)
	write(t, path, key.Fingerprint().String(), 0o600)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	a, err := LoadAuthorized(path)
	if err != nil {
		t.Fatal(err)
	}
	before := a.read
	if err := a.Check(key); err != nil || !a.read.Equal(before) {
		t.Errorf("read again, %v", err)
	}
	if err := os.Chtimes(path, old, old.Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	if err := a.Check(key); err != nil || a.read.Equal(before) {
		t.Errorf("not read again, %v", err)
	}
}
