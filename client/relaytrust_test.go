package client

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/trust"
)

func newTrust(t *testing.T) (*relayTrust, *seal.PublicKey, *seal.PublicKey) {
	t.Helper()
	u := RelayURL{Name: "relay.example/lab"}
	r, err := newRelayTrust(u, RelayOptions{KnownExecutors: filepath.Join(t.TempDir(), "known")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var keys [2]*seal.PublicKey
	for i := range keys {
		id, err := seal.NewIdentity()
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = id.Public()
	}
	return r, keys[0], keys[1]
}

// A registry that names another key while a handshake is under way must not have that one
// remembered.
func TestRelayRemembersWhatWasProved(t *testing.T) {
	r, proved, other := newTrust(t)
	for _, key := range []*seal.PublicKey{proved, other} {
		if err := r.verify(key); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.proved(proved, frame.Codex); err != nil {
		t.Fatal(err)
	}
	if known, err := r.known.Check(r.name, proved.Fingerprint()); !known || err != nil {
		t.Errorf("the key of the handshake: known %v, %v", known, err)
	}
	if _, err := r.known.Check(r.name, other.Fingerprint()); err == nil {
		t.Error("the key that nobody proved is taken")
	}
}

// Another process may have remembered another key meanwhile. That is refused however
// often it is tried, although the harness asks about a key only once.
func TestRelayRefusesAgain(t *testing.T) {
	r, proved, other := newTrust(t)
	if err := r.verify(proved); err != nil {
		t.Fatal(err)
	}
	if _, err := r.known.Pin(r.name, other.Fingerprint()); err != nil {
		t.Fatal(err)
	}
	for try := range 2 {
		err := r.proved(proved, frame.Codex)
		_, untrusted := errors.AsType[*harness.UntrustedError](err)
		if _, changed := errors.AsType[*trust.KeyChangedError](err); !untrusted || !changed {
			t.Errorf("try %d: %v", try, err)
		}
	}
}

// S-R7: a relay that takes the reliable profile away is noticed, by a connection with a
// pinned key too, and the error says how to accept it.
func TestSR7WeakerProfile(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		r, key, other := newTrust(t)
		if pinned {
			r.pin = key.Fingerprint().String()
		}
		connects := func(profile frame.Profile) error {
			err := r.verify(key)
			if err == nil {
				err = r.verifyProfile(key, profile)
			}
			if err == nil {
				err = r.proved(key, profile)
			}
			return err
		}
		for _, profile := range []frame.Profile{frame.Codex, frame.Reliable, frame.Reliable} {
			if err := connects(profile); err != nil {
				t.Fatalf("%s: %v", profile, err)
			}
		}
		err := connects(frame.Codex)
		weaker, ok := errors.AsType[*trust.WeakerProfileError](err)
		if !ok || weaker.Line != 1 || !strings.Contains(err.Error(), "take the word reliable-1 out of line 1 of "+r.known.Path()) {
			t.Errorf("pinned %v: the weaker profile: %v", pinned, err)
		}
		if err := r.verifyProfile(other, frame.Codex); err != nil {
			t.Errorf("another key: %v", err)
		}
		text, err := os.ReadFile(r.known.Path())
		if err != nil || strings.Count(string(text), "\n") != 1 {
			t.Errorf("the file is %q, %v", text, err)
		}
		accepted := strings.Replace(string(text), " reliable-1", "", 1)
		if err := os.WriteFile(r.known.Path(), []byte(accepted), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := connects(frame.Codex); err != nil {
			t.Errorf("once it was accepted: %v", err)
		}
	}
}

// Where the file of known executors cannot be written, here since it is full, an executor
// whose key is in it is reached as before, and the file stays as it is.
func TestSR7ProfileThatIsNotRemembered(t *testing.T) {
	r, key, _ := newTrust(t)
	line := r.name + " " + key.Fingerprint().String() + "\n"
	text := line + strings.Repeat("#", trust.MaxFileBytes-len(line)-1) + "\n"
	if err := os.WriteFile(r.known.Path(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.verify(key); err != nil {
			t.Fatal(err)
		}
		if err := r.proved(key, frame.Reliable); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(r.known.Path()); err != nil || string(now) != text {
		t.Errorf("the file has %d bytes, %v", len(now), err)
	}
}

// A pinned key is not added to another one that is known of that executor: those who
// connect without the pin would trust it too.
func TestSR7PinAddsNoSecondKey(t *testing.T) {
	r, known, pinned := newTrust(t)
	if _, err := r.known.Pin(r.name, known.Fingerprint()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(r.known.Path())
	if err != nil {
		t.Fatal(err)
	}
	r.pin = pinned.Fingerprint().String()
	for range 2 {
		if err := r.verify(pinned); err != nil {
			t.Fatal(err)
		}
		if err := r.proved(pinned, frame.Reliable); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(r.known.Path()); err != nil || string(now) != string(before) {
		t.Errorf("the file was %q, is %q, %v", before, now, err)
	}
}
