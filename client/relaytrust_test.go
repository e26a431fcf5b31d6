package client

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/seal"
	"github.com/wsd-dev/wsd/relay/trust"
)

func newTrust(t *testing.T) (*relayTrust, *seal.PublicKey, *seal.PublicKey) {
	t.Helper()
	u := RelayURL{Name: "relay.example/lab"}
	r, err := newRelayTrust(u, RelayOptions{KnownExecutors: filepath.Join(t.TempDir(), "known")})
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
	if err := r.proved(proved); err != nil {
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
		err := r.proved(proved)
		_, untrusted := errors.AsType[*harness.UntrustedError](err)
		if _, changed := errors.AsType[*trust.KeyChangedError](err); !untrusted || !changed {
			t.Errorf("try %d: %v", try, err)
		}
	}
}
