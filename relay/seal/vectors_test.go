package seal

import (
	"bytes"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/flynn/noise"
)

// octets are bytes that the vectors give in hex.
type octets []byte

func (o *octets) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	b, err := hex.DecodeString(text)
	*o = b
	return err
}

// secrets are what both ends of a vector draw, and what they talk about. A transcript
// captured from a foreign end lacks that end's.
type secrets struct {
	Authorization    string `json:"authorization_utf8"`
	Environment      string `json:"environment_id"`
	Registration     string `json:"executor_registration_id"`
	Stream           string `json:"stream_id"`
	InitiatorDH      octets `json:"initiator_static_x25519_private"`
	InitiatorKEM     octets `json:"initiator_static_mlkem768_seed_d_z"`
	InitiatorFreshDH octets `json:"initiator_ephemeral_x25519_private"`
	InitiatorFreshKE octets `json:"initiator_ephemeral_mlkem768_seed_d_z"`
	ResponderDH      octets `json:"responder_static_x25519_private"`
	ResponderKEM     octets `json:"responder_static_mlkem768_seed_d_z"`
	ResponderFreshDH octets `json:"responder_ephemeral_x25519_private"`
	ResponderFreshKE octets `json:"responder_ephemeral_mlkem768_seed_d_z"`
	M1SKEM           octets `json:"m1_skem_encapsulation_randomness"`
	M2EKEM           octets `json:"m2_ekem_encapsulation_randomness"`
	M2SKEM           octets `json:"m2_skem_encapsulation_randomness"`
	Message2Payload  string `json:"message_2_payload_utf8"`
}

func (s *secrets) prologue() Prologue {
	return Prologue{LabelCodex, s.Environment, s.Registration, s.Stream}
}

// initiator returns the vector's initiator, which draws what the vector's drew.
func (s *secrets) initiator(t testing.TB, peer *PublicKey) *Initiator {
	t.Helper()
	i, err := NewInitiator(fixed(t, s.InitiatorDH, s.InitiatorKEM), peer, s.prologue())
	if err != nil {
		t.Fatal(err)
	}
	i.random = drawn(t, s.InitiatorFreshDH, s.InitiatorFreshKE, s.M1SKEM)
	return i
}

// responder is initiator's counterpart.
func (s *secrets) responder(t testing.TB) *Responder {
	t.Helper()
	r, err := NewResponder(fixed(t, s.ResponderDH, s.ResponderKEM), s.prologue())
	if err != nil {
		t.Fatal(err)
	}
	r.random = drawn(t, s.ResponderFreshDH, s.ResponderFreshKE, s.M2EKEM, s.M2SKEM)
	return r
}

type record struct {
	Seq                   uint64
	Plaintext, Ciphertext octets
}

// results are what every vector ends with.
type results struct {
	Name                 string
	Message1             octets    `json:"message_1"`
	Message2             octets    `json:"message_2"`
	Hash                 octets    `json:"handshake_hash"`
	InitiatorPublic      PublicKey `json:"initiator_public_key"`
	ResponderPublic      PublicKey `json:"responder_public_key"`
	FromInitiator        octets    `json:"key_initiator_to_responder"`
	ToInitiator          octets    `json:"key_responder_to_initiator"`
	RecordsFromInitiator []record  `json:"records_initiator_to_responder"`
	RecordsToInitiator   []record  `json:"records_responder_to_initiator"`
}

type vectors struct {
	ProtocolName string `json:"protocol_name_hashed"`
	SuiteTag     string `json:"suite_tag_in_json"`
	Handshakes   []struct {
		results
		Inputs       secrets
		Prologue     octets
		Intermediate map[string]octets
	}
	Captured []struct {
		results
		secrets
	} `json:"captured_from_codex_0_171_0"`
}

func readVectors(t testing.TB) *vectors {
	t.Helper()
	data, err := os.ReadFile("testdata/noise-hybrid-ik.json")
	if err != nil {
		t.Fatal(err)
	}
	v := new(vectors)
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
	if len(v.Handshakes) != 3 || len(v.Captured) != 2 {
		t.Fatalf("%d handshakes and %d transcripts", len(v.Handshakes), len(v.Captured))
	}
	return v
}

// fixed makes an identity of given secrets.
func fixed(t testing.TB, dh, kem []byte) *Identity {
	t.Helper()
	id, err := identityFrom(dh, kem)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// drawn is a source of given secrets; each of encapsulations is used once, in order.
func drawn(t testing.TB, dh, kem []byte, encapsulations ...octets) source {
	return source{
		dh:  func() (noise.DHKey, error) { return dhKey(dh) },
		kem: func() (*mlkem.DecapsulationKey768, error) { return mlkem.NewDecapsulationKey768(kem) },
		encapsulate: func(k *mlkem.EncapsulationKey768) (shared, ciphertext []byte) {
			random := encapsulations[0]
			encapsulations = encapsulations[1:]
			shared, ciphertext, err := mlkemtest.Encapsulate768(k, random)
			if err != nil {
				t.Fatal(err)
			}
			return shared, ciphertext
		},
	}
}

// wantState makes t fail when s has other values after a step than the vector.
func wantState(t *testing.T, s *symmetric, end string, want map[string]octets) (steps *int) {
	steps = new(int)
	names := map[string]string{
		"m1 skem": "m1_after_skem", "m1 es": "m1_after_es", "m1 ss": "m1_after_ss", "m1 end": "m1_final",
		"m2 ekem": "m2_after_ekem", "m2 skem": "m2_after_skem", "m2 ee": "m2_after_ee", "m2 se": "m2_after_se",
		"m2 end": "m2_final",
	}
	s.traced = func(step string) {
		*steps++
		k := s.cipher.UnsafeKey()
		for suffix, got := range map[string][]byte{"_h": s.h[:], "_ck": s.ck[:], "_k": k[:]} {
			if w, given := want[names[step]+suffix]; given && !bytes.Equal(got, w) {
				t.Errorf("%s after %s: %s%s is %x, want %x", end, step, names[step], suffix, got, w)
			}
		}
	}
	return steps
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	if v.ProtocolName != protocolName || v.SuiteTag != Suite {
		t.Errorf("names %q and %q", v.ProtocolName, v.SuiteTag)
	}
	for _, h := range v.Handshakes {
		t.Run(h.Name, func(t *testing.T) {
			if got := h.Inputs.prologue().Bytes(); !bytes.Equal(got, h.Prologue) {
				t.Errorf("prologue %x, want %x", got, h.Prologue)
			}
			i, r := h.Inputs.initiator(t, &h.ResponderPublic), h.Inputs.responder(t)
			if !i.own.Public().Equal(&h.InitiatorPublic) || !r.own.Public().Equal(&h.ResponderPublic) {
				t.Fatal("public keys differ")
			}
			if !bytes.Equal(i.s.h[:], h.Intermediate["h_after_pre_messages"]) {
				t.Errorf("h before message 1 is %x", i.s.h)
			}
			stepsI := wantState(t, &i.s, "initiator", h.Intermediate)
			stepsR := wantState(t, &r.s, "responder", h.Intermediate)

			m1, err := i.WriteMessage1([]byte(h.Inputs.Authorization))
			if err != nil || !bytes.Equal(m1, h.Message1) {
				t.Fatalf("message 1: %v, %d bytes that differ", err, len(m1))
			}
			peer, payload, err := r.ReadMessage1(m1)
			if err != nil || string(payload) != h.Inputs.Authorization || !peer.Equal(&h.InitiatorPublic) {
				t.Fatalf("read message 1: %v, payload %q", err, payload)
			}
			var m2 []byte
			var atR *Transport
			if h.Inputs.Message2Payload == "" {
				m2, atR, err = r.WriteMessage2()
			} else {
				m2, err = r.WriteRefusal()
			}
			if err != nil || !bytes.Equal(m2, h.Message2) {
				t.Fatalf("message 2: %v, %d bytes that differ", err, len(m2))
			}
			atI, err := i.ReadMessage2(m2)
			if *stepsI != 8+1 || *stepsR != 8+1 {
				t.Errorf("%d and %d steps", *stepsI, *stepsR)
			}
			if h.Inputs.Message2Payload != "" {
				wantRefused(t, atI, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantTransport(t, &h.results, atI.Sealer, atI.Opener, atI.Hash)
			wantTransport(t, &h.results, atR.Opener, atR.Sealer, atR.Hash)
		})
	}
}

// end is a Sealer or an Opener.
type end interface{ key() [32]byte }

func (s *Sealer) key() [32]byte { return s.cipher.UnsafeKey() }
func (o *Opener) key() [32]byte { return o.cipher.UnsafeKey() }

// wantTransport compares the two directions of a transport, as one end sees them, with a
// vector, and replays the vector's records over them.
func wantTransport(t *testing.T, want *results, fromInitiator, toInitiator end, hash [32]byte) {
	t.Helper()
	if !bytes.Equal(hash[:], want.Hash) {
		t.Errorf("hash %x, want %x", hash, want.Hash)
	}
	if k := fromInitiator.key(); !bytes.Equal(k[:], want.FromInitiator) {
		t.Errorf("key from initiator %x, want %x", k, want.FromInitiator)
	}
	if k := toInitiator.key(); !bytes.Equal(k[:], want.ToInitiator) {
		t.Errorf("key to initiator %x, want %x", k, want.ToInitiator)
	}
	if len(want.RecordsFromInitiator) == 0 || len(want.RecordsToInitiator) == 0 {
		t.Error("a vector without records")
	}
	wantRecords(t, want.RecordsFromInitiator, fromInitiator)
	wantRecords(t, want.RecordsToInitiator, toInitiator)
}

func wantRecords(t *testing.T, records []record, e end) {
	t.Helper()
	if records[0].Seq == 1 { // the transcripts leave out the executor's first record
		switch e := e.(type) {
		case *Sealer:
			e.cipher.SetNonce(1)
		case *Opener:
			e.cipher.SetNonce(1)
		}
	}
	for _, rec := range records {
		var got []byte
		var err error
		want := rec.Ciphertext
		switch e := e.(type) {
		case *Sealer:
			got, err = e.Seal(nil, rec.Seq, rec.Plaintext, nil)
		case *Opener:
			want = rec.Plaintext
			got, err = e.Open(nil, rec.Seq, rec.Ciphertext, nil)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%T record %d: %x, %v; want %x", e, rec.Seq, got, err, want)
		}
	}
}

// Sessions of the real codex 0.171.0, once as responder and once as initiator.
func TestCaptured(t *testing.T) {
	v := readVectors(t)
	t.Run(v.Captured[0].Name, func(t *testing.T) {
		c := v.Captured[0]
		i := c.initiator(t, &c.ResponderPublic)
		m1, err := i.WriteMessage1([]byte(c.Authorization))
		if err != nil || !bytes.Equal(m1, c.Message1) {
			t.Fatalf("message 1: %v, %d bytes that differ", err, len(m1))
		}
		tr, err := i.ReadMessage2(c.Message2)
		if err != nil {
			t.Fatal(err)
		}
		wantTransport(t, &c.results, tr.Sealer, tr.Opener, tr.Hash)
	})
	t.Run(v.Captured[1].Name, func(t *testing.T) {
		c := v.Captured[1]
		r := c.responder(t)
		peer, payload, err := r.ReadMessage1(c.Message1)
		if err != nil || string(payload) != c.Authorization || !peer.Equal(&c.InitiatorPublic) {
			t.Fatalf("read message 1: %v, payload %q", err, payload)
		}
		m2, tr, err := r.WriteMessage2()
		if err != nil || !bytes.Equal(m2, c.Message2) {
			t.Fatalf("message 2: %v, %d bytes that differ", err, len(m2))
		}
		wantTransport(t, &c.results, tr.Opener, tr.Sealer, tr.Hash)
	})
}
