package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/relay/seal"
)

func TestPinOnFirstUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "conf", "known_executors")
	k := NewKnown(path)
	one, two := newFingerprint(t), newFingerprint(t)
	const name = "relay.example:8443/lab"

	if known, err := k.Check(name, one); known || err != nil {
		t.Errorf("no file: %v, %v", known, err)
	}
	if added, err := k.Pin(name, one); !added || err != nil {
		t.Fatalf("first use: %v, %v", added, err)
	}
	if added, err := k.Pin("Relay.Example:8443/lab", one); added || err != nil {
		t.Errorf("second use: %v, %v", added, err)
	}
	for _, other := range []string{"relay.example/lab", "relay.example:8443/LAB", "relay.example:8443/x/lab", "example:8443/lab"} {
		if known, err := k.Check(other, two); known || err != nil {
			t.Errorf("%s: %v, %v", other, known, err)
		}
	}
	if added, err := k.Pin("relay.example/lab", two); !added || err != nil {
		t.Errorf("another executor: %v, %v", added, err)
	}
	got, err := os.ReadFile(path)
	want := name + " " + one.String() + "\nrelay.example/lab " + two.String() + "\n"
	if err != nil || string(got) != want {
		t.Errorf("file is %q, want %q", got, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestChangedKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known_executors")
	k := NewKnown(path)
	one, two, three := newFingerprint(t), newFingerprint(t), newFingerprint(t)
	text := "# lab machines\n\n  h/lab\t" + one.String() + " since May\n# end" // no newline
	write(t, path, text, 0o600)

	_, err := k.Pin("h/lab", two)
	changed, ok := errors.AsType[*KeyChangedError](err)
	if !ok || *changed != (KeyChangedError{Name: "h/lab", Before: one, Now: two, Path: path, Line: 3}) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"h/lab", one.String(), two.String(), "wsd fingerprint", "delete line 3 of " + path, "--identity"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if pinned := (&KeyChangedError{Name: "h/lab", Before: one, Now: two}).Error(); !strings.Contains(pinned, "the URL") || strings.Contains(pinned, "line") {
		t.Errorf("pinned by URL: %s", pinned)
	}

	// What is there stays as it is; the new line is one of its own.
	if _, err := k.Pin("h/other", three); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := text + "\nh/other " + three.String() + "\n"; err != nil || string(got) != want {
		t.Errorf("file is %q, want %q", got, want)
	}

	// Two lines for one executor are two good keys.
	write(t, path, string(got)+"h/lab "+two.String()+"\n", 0o600)
	for _, print := range []seal.Fingerprint{one, two} {
		if known, err := k.Check("h/lab", print); !known || err != nil {
			t.Errorf("%s: %v, %v", print, known, err)
		}
	}
	if _, err := k.Check("h/lab", three); err == nil {
		t.Error("a third key")
	}
}

func TestKnownFileRefused(t *testing.T) {
	print := newFingerprint(t).String()
	for _, tt := range []struct{ name, text, want string }{
		{"no fingerprint", "h/lab\n", "line 1: no fingerprint"},
		{"not one", "# x\nh/lab SHA256:abc\n", "line 2: fingerprint"},
		{"no environment", "h " + print, "line 1: the name is not"},
		{"slash at the end", "h/ " + print, "line 1: the name is not"},
		{"cut", "h/lab " + print[:20], "line 1: fingerprint"},
		{"too long", strings.Repeat("#\n", MaxFileBytes/2+1), "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "known")
			write(t, path, tt.text, 0o600)
			k := NewKnown(path)
			// Not even for another executor: what the line meant is not known.
			if _, err := k.Pin("other/lab", newFingerprint(t)); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if after, _ := os.ReadFile(path); string(after) != tt.text {
				t.Error("the file was changed")
			}
		})
	}
	path := filepath.Join(t.TempDir(), "known")
	write(t, path, "", 0o666)
	_, err := NewKnown(path).Pin("h/lab", newFingerprint(t))
	if mode, ok := errors.AsType[*ModeError](err); !ok || mode.Excess != 0o022 || !strings.Contains(err.Error(), "chmod go-w "+path) {
		t.Errorf("others may write: %v", err)
	}
	for _, name := range []string{"", "lab", "h/", "/lab", "h/a b", "#h/lab", "h/\x00", "h/\u2028x", strings.Repeat("h", MaxNameBytes) + "/x"} {
		if _, err := NewKnown(path+"2").Pin(name, newFingerprint(t)); err == nil {
			t.Errorf("name %q was added", name)
		}
	}
	if _, err := os.Stat(path + "2"); err == nil {
		t.Error("a file was made for nothing")
	}
}

func TestKnownFileIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known")
	text := strings.Repeat("#\n", MaxFileBytes/2)
	write(t, path, text, 0o600)
	if _, err := NewKnown(path).Pin("h/lab", newFingerprint(t)); err == nil || !strings.Contains(err.Error(), "is full") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != text {
		t.Error("the file was changed")
	}
}

// Many pin at once: each name gets one line, and of two keys for one name the first.
func TestPinRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known")
	prints := []seal.Fingerprint{newFingerprint(t), newFingerprint(t)}
	var mu sync.Mutex
	added, refused := map[string]int{}, 0
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			name := "h/" + string(rune('a'+i%4))
			ok, err := NewKnown(path).Pin(name, prints[i/20])
			_, changed := errors.AsType[*KeyChangedError](err)
			if err != nil && !changed {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
				added[name]++
			}
			if changed {
				refused++
			}
		})
	}
	wg.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := parseKnown(path, data)
	if err != nil || len(keys) != 4 || refused != 20 {
		t.Errorf("%d lines, %d refused, %v", len(keys), refused, err)
	}
	for name, n := range added {
		if n != 1 {
			t.Errorf("%s was added %d times", name, n)
		}
	}
}

// An editor that renames its version into place while a line is being added.
func TestPinIntoReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "known")
	k := NewKnown(path)
	held, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := k.Pin("h/lab", newFingerprint(t))
		done <- err
	}()
	write(t, path+".new", "# edited\n", 0o600)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	_ = held.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(data), "# edited\nh/lab SHA256:") {
		t.Errorf("file is %q, %v", data, err)
	}
}
