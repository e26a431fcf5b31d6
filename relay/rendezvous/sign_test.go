package rendezvous

import (
	"net/url"
	"testing"
	"time"
)

func newTestNode(t *testing.T, state State) *Node {
	t.Helper()
	n, err := New(Config{State: state, PublicURL: "https://relay.example/base", NodeID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestURLs(t *testing.T) {
	state := NewMemory()
	n := newTestNode(t, state)
	want := ticket{
		env: "lab", role: roleHarness, registration: "r", expires: time.Now().Add(time.Minute).Truncate(time.Second),
		subject: "s.k", node: "one", nonce: "n",
	}
	raw, err := n.sign(t.Context(), n.public, &want)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "wss" || u.Host != "relay.example" || u.Path != "/base/relay/lab" {
		t.Fatalf("%s, %v", raw, err)
	}
	got, err := n.verify(t.Context(), "lab", u.RawQuery)
	if err != nil || *got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	// Another node of the relay knows the secret, another relay does not.
	if _, err := newTestNode(t, state).verify(t.Context(), "lab", u.RawQuery); err != nil {
		t.Errorf("another node: %v", err)
	}
	if _, err := newTestNode(t, NewMemory()).verify(t.Context(), "lab", u.RawQuery); err != rejectSignature {
		t.Errorf("another relay: %v", err)
	}

	// Nothing of it can be changed.
	for name, value := range map[string]string{"exp": "9999999999", "reg": "x", "sub": "x", "node": "x", "n": "x"} {
		q := u.Query()
		q.Set(name, value)
		if _, err := n.verify(t.Context(), "lab", q.Encode()); err != rejectSignature {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if _, err := n.verify(t.Context(), "other", u.RawQuery); err != rejectSignature {
		t.Errorf("another environment: %v", err)
	}
	change := func(f func(url.Values)) string {
		q := u.Query()
		f(q)
		return q.Encode()
	}
	for want, query := range map[rejection]string{
		rejectMalformed: u.RawQuery + "&v=1",
		rejectExtra:     u.RawQuery + "&x=1",
		rejectVersion:   change(func(q url.Values) { q.Set("v", "2") }),
		rejectRole:      change(func(q url.Values) { q.Set("role", "operator") }),
		rejectExpiry:    change(func(q url.Values) { q.Set("exp", "soon") }),
		rejectSignature: change(func(q url.Values) { q.Del("sig") }),
	} {
		if _, err := n.verify(t.Context(), "lab", query); err != want {
			t.Errorf("want %s: %v", want, err)
		}
	}
	old := want
	old.expires = time.Now().Add(-time.Second)
	if raw, err = n.sign(t.Context(), n.public, &old); err != nil {
		t.Fatal(err)
	}
	u, _ = url.Parse(raw)
	if _, err := n.verify(t.Context(), "lab", u.RawQuery); err != rejectExpired {
		t.Errorf("expired: %v", err)
	}
}

// The secret is replaced when it is old, and the one before still counts.
func TestSecretsRotate(t *testing.T) {
	state := NewMemory()
	n := newTestNode(t, state)
	first, err := n.secrets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	aged := []secret{{Key: first[0].Key, Made: time.Now().Add(-SecretLife - time.Hour)}}
	if _, err := write(t.Context(), state, BucketSecrets, secretKey, aged, AnyRevision); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*Node{newTestNode(t, state), newTestNode(t, state)} {
		now, err := n.secrets(t.Context())
		if err != nil || len(now) != 2 || string(now[1].Key) != string(first[0].Key) || string(now[0].Key) == string(first[0].Key) {
			t.Errorf("%d secrets, %v", len(now), err)
		}
	}
}
