package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// members returns the parts of a public key's JSON.
func members(t testing.TB, k *PublicKey) map[string]string {
	t.Helper()
	data, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPublicKeyJSON(t *testing.T) {
	v := readVectors(t)
	var raw struct {
		Handshakes []struct {
			Key json.RawMessage `json:"responder_public_key"`
		}
	}
	data := readFile(t)
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	k, err := ParsePublicKey(raw.Handshakes[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw.Handshakes[0].Key); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{"pointer": k, "value": *k} {
		if got, err := json.Marshal(value); err != nil || !bytes.Equal(got, compact.Bytes()) {
			t.Errorf("%s: %.100s, %v", name, got, err)
		}
	}
	if !k.Equal(&v.Handshakes[0].ResponderPublic) || k.Equal(&v.Handshakes[0].InitiatorPublic) {
		t.Error("Equal does not tell keys apart")
	}
	m := members(t, k)
	if len(m) != 3 || len(m["x25519_public_key"]) != 44 || len(m["mlkem768_public_key"]) != 1580 {
		t.Errorf("members %v", m)
	}
	// Order and escapes do not matter.
	other := fmt.Sprintf(` {"mlkem768_public_key":%q, "x25519_public_key":"\u%04x%s","suite":%q}`+"\n",
		m["mlkem768_public_key"], m["x25519_public_key"][0], m["x25519_public_key"][1:], m["suite"])
	if got, err := ParsePublicKey([]byte(other)); err != nil || !got.Equal(k) {
		t.Errorf("in another form: %v", err)
	}
}

func TestBadPublicKeys(t *testing.T) {
	k := newIdentityT(t).Public()
	m := members(t, k)
	dh, kem := m[memberDH], m[memberKEM]
	object := func(suite, dh, kem string) string {
		return fmt.Sprintf(`{"suite":%q,"x25519_public_key":%q,"mlkem768_public_key":%q}`, suite, dh, kem)
	}
	good := object(Suite, dh, kem)
	if _, err := ParsePublicKey([]byte(good)); err != nil {
		t.Fatal(err)
	}
	impossible := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, kemSize))
	for name, text := range map[string]string{
		"empty":               "",
		"null":                "null",
		"array":               `["` + Suite + `","` + dh + `","` + kem + `"]`,
		"empty object":        "{}",
		"cut":                 good[:len(good)-1],
		"data behind":         good + "{}",
		"unknown member":      good[:len(good)-1] + `,"x":"y"}`,
		"second member":       good[:len(good)-1] + `,"suite":"` + Suite + `"}`,
		"missing member":      `{"suite":"` + Suite + `","x25519_public_key":"` + dh + `"}`,
		"name in capitals":    strings.Replace(good, `"suite"`, `"Suite"`, 1),
		"null member":         strings.Replace(good, `"`+dh+`"`, "null", 1),
		"number":              strings.Replace(good, `"`+dh+`"`, "1", 1),
		"nested":              strings.Replace(good, `"`+dh+`"`, `{"a":"b"}`, 1),
		"no suite":            object("", dh, kem),
		"hashed name":         object(protocolName, dh, kem),
		"suite and space":     object(Suite+" ", dh, kem),
		"empty X25519":        object(Suite, "", kem),
		"short X25519":        object(Suite, dh[:40], kem),
		"long X25519":         object(Suite, dh[:43]+"A"+dh[:4], kem),
		"no padding":          object(Suite, dh[:43], kem),
		"alphabet of URLs":    object(Suite, "-"+dh[1:], kem),
		"line break":          object(Suite, dh[:41]+"\n"+dh[42:], kem),
		"line break behind":   object(Suite, dh+"\n", kem),
		"unused bits":         object(Suite, dh[:42]+"B=", kem),
		"short ML-KEM":        object(Suite, dh, kem[:1576]),
		"long ML-KEM":         object(Suite, dh, kem+"AAAA"),
		"swapped":             object(Suite, kem, dh),
		"impossible ML-KEM":   object(Suite, dh, impossible),
		"comma behind":        good[:len(good)-1] + ",}",
		"name without quotes": strings.Replace(good, `"suite"`, "suite", 1),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParsePublicKey([]byte(text))
			if got != nil {
				t.Error("parsed")
			}
			wantPeerError(t, err, ErrKey)
			held := *k
			if err := held.UnmarshalJSON([]byte(text)); err == nil || !held.Equal(k) {
				t.Errorf("unmarshal: %v, or it changed the key", err)
			}
		})
	}
}

// Another suite's name comes from the peer: of a long one the error shows the beginning.
func TestLongSuite(t *testing.T) {
	_, err := ParsePublicKey(fmt.Appendf(nil, `{"suite":"%s","x25519_public_key":"","mlkem768_public_key":""}`, strings.Repeat("s", 10_000)))
	if err == nil || len(err.Error()) > 300 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

func TestNoKey(t *testing.T) {
	var none *PublicKey
	for _, k := range []*PublicKey{none, {}} {
		if k.Equal(k) || k.Equal(newIdentityT(t).Public()) || newIdentityT(t).Public().Equal(k) {
			t.Error("no key equals one")
		}
		if k.String() != "no key" {
			t.Errorf("String() = %q", k)
		}
	}
	_, err := json.Marshal(PublicKey{})
	wantMisuse(t, err)
}

func TestFingerprint(t *testing.T) {
	v := readVectors(t)
	k := &v.Handshakes[0].ResponderPublic
	// It is what people write into files and URLs: it must not change.
	const want = "SHA256:zwSOy6LJDailwte3ED4gRpJ4TVqgart4PaloB7EoLD4"
	if got := k.Fingerprint().String(); got != want || k.String() != want {
		t.Errorf("fingerprint %s, want %s", got, want)
	}
	if got, err := ParseFingerprint(want); err != nil || got != k.Fingerprint() {
		t.Errorf("parsed %v, %v", got, err)
	}
	a, b := newIdentityT(t), newIdentityT(t)
	seen := map[Fingerprint]bool{}
	for _, id := range []*Identity{a, b, mixed(a, b), mixed(b, a)} {
		seen[id.Public().Fingerprint()] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d fingerprints of 4 keys", len(seen))
	}
	for _, bad := range []string{
		"", "SHA256:", want[7:], "sha256:" + want[7:], want[:49], want + "=", want + "A", "SHA256:" + strings.Repeat("/", 43),
		want[:20] + "\n" + want[20:], want[:20] + "\n" + want[21:], " " + want, want[:49] + "Z",
	} {
		if _, err := ParseFingerprint(bad); err == nil {
			t.Errorf("%q is a fingerprint", bad)
		}
	}
}

func TestIdentityFile(t *testing.T) {
	id := newIdentityT(t)
	data, err := id.MarshalSecret()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseIdentity(data)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Public().Equal(id.Public()) {
		t.Error("another public key came back")
	}
	// And it is the same secret: the other end of a handshake notices if not.
	i, err := NewInitiator(newIdentityT(t), id.Public(), testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResponder(got, testPrologue)
	if err != nil {
		t.Fatal(err)
	}
	(&pair{i, r}).message1(t, "x", true)

	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(data))
	for name, bad := range map[string]string{
		"empty":          "",
		"cut":            text[:len(text)/2],
		"twice":          text + text,
		"public key":     string(mustJSON(t, id.Public())),
		"other suite":    strings.Replace(text, Suite, protocolName, 1),
		"short seed":     strings.Replace(text, m[memberKEMSecret], m[memberKEMSecret][:44], 1),
		"short scalar":   strings.Replace(text, m[memberDHSecret], m[memberDHSecret][:40], 1),
		"unknown member": text[:len(text)-1] + `,"comment":""}`,
	} {
		got, err := ParseIdentity([]byte(bad))
		if err == nil || got != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if strings.Contains(err.Error(), m[memberKEMSecret][:20]) || strings.Contains(err.Error(), m[memberDHSecret][:20]) {
			t.Errorf("%s: the error shows the secret", name)
		}
	}
	for _, none := range []*Identity{nil, {}} {
		_, err = none.MarshalSecret()
		wantMisuse(t, err)
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Nothing that holds a secret shows it, by any verb or to any handler.
func TestRedaction(t *testing.T) {
	p := newPair(t)
	p.message1(t, "authorization", true)
	i, _ := transports(t)
	for _, secret := range []any{p.i, p.r, i, i.Sealer, i.Opener, p.i.own, *p.i.own, *i, &p.i.s, p.i.s} {
		name := fmt.Sprintf("%T", secret)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, secret); got != redacted {
				t.Errorf("%s by %s: %s", name, verb, got)
			}
		}
		var text, asJSON strings.Builder
		slog.New(slog.NewTextHandler(&text, nil)).Info("m", "secret", secret)
		slog.New(slog.NewJSONHandler(&asJSON, nil)).Info("m", "secret", secret)
		for _, out := range []string{text.String(), asJSON.String()} {
			want := redacted
			switch secret.(type) {
			case Identity, *Identity:
				want = p.i.own.Public().String()
			}
			if !strings.Contains(out, want) || len(out) > 200 {
				t.Errorf("%s logged as %s", name, out)
			}
		}
		if got := string(mustJSON(t, secret)); len(got) > 250 {
			t.Errorf("%s as JSON: %s", name, got)
		}
	}
	if got := new(Identity).LogValue().String(); got != "no identity" {
		t.Errorf("no identity logged as %s", got)
	}
}

func TestPrologueIsInjective(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		part := rapid.StringN(0, 12, -1)
		draw := func(name string) Prologue {
			return Prologue{
				Label:          rapid.SampledFrom([]Label{LabelCodex, LabelReliable}).Draw(rt, name+" label"),
				EnvironmentID:  part.Draw(rt, name+" environment"),
				RegistrationID: part.Draw(rt, name+" registration"),
				StreamID:       part.Draw(rt, name+" stream"),
			}
		}
		a, b := draw("a"), draw("b")
		if (a == b) != bytes.Equal(a.Bytes(), b.Bytes()) {
			rt.Fatalf("%q and %q", a, b)
		}
	})
}

func TestErrors(t *testing.T) {
	for err, want := range map[error]string{
		&PeerError{"read message 1", ErrAuthentication}: "read message 1: does not authenticate",
		&MisuseError{"seal record", "number 1, want 0"}: "seal record: number 1, want 0",
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
	if !errors.Is(&PeerError{"read message 1", ErrAuthentication}, ErrAuthentication) {
		t.Error("a PeerError does not unwrap")
	}
}
