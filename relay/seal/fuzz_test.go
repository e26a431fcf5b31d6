package seal

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

func readFile(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/noise-hybrid-ik.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Of all messages the responder takes only that which the initiator wrote.
func FuzzReadMessage1(f *testing.F) {
	h := readVectors(f).Handshakes[0]
	genuine := []byte(h.Message1)
	f.Add(genuine)
	f.Add(genuine[:Message1Overhead])
	f.Add(genuine[:kemCipher])
	f.Add([]byte(h.Message2))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, message []byte) {
		held := bytes.Clone(message)
		r := h.Inputs.responder(t)
		peer, payload, err := r.ReadMessage1(message)
		if !bytes.Equal(held, message) {
			t.Error("the message was changed")
		}
		if bytes.Equal(message, genuine) {
			if err != nil || string(payload) != h.Inputs.Authorization {
				t.Fatalf("%q, %v", payload, err)
			}
			return
		}
		if _, is := errors.AsType[*PeerError](err); !is || peer != nil || payload != nil {
			t.Fatalf("%v, %q, %v", peer, payload, err)
		}
	})
}

// Of all messages the initiator takes only those which the responder wrote.
func FuzzReadMessage2(f *testing.F) {
	v := readVectors(f)
	yes, no := v.Handshakes[0], v.Handshakes[2]
	f.Add([]byte(yes.Message2))
	f.Add([]byte(no.Message2))
	f.Add([]byte(yes.Message2[:kemCipher]))
	f.Add([]byte(yes.Message1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, message []byte) {
		i := yes.Inputs.initiator(t, &yes.ResponderPublic)
		if _, err := i.WriteMessage1([]byte(yes.Inputs.Authorization)); err != nil {
			t.Fatal(err)
		}
		tr, err := i.ReadMessage2(message)
		switch {
		case bytes.Equal(message, yes.Message2):
			if err != nil || tr == nil {
				t.Fatal(err)
			}
		case bytes.Equal(message, no.Message2):
			wantRefused(t, tr, err)
		default:
			if _, is := errors.AsType[*PeerError](err); !is || tr != nil {
				t.Fatalf("%v, %v", tr, err)
			}
		}
	})
}

// What parses as a public key is written in one form, which parses as the same key.
func FuzzParsePublicKey(f *testing.F) {
	v := readVectors(f)
	for _, k := range []PublicKey{v.Handshakes[0].ResponderPublic, v.Captured[0].ResponderPublic} {
		data, err := k.MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:100])
		f.Add(bytes.ToUpper(data))
	}
	f.Add([]byte(`{"suite":"","suite":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := ParsePublicKey(data)
		if err != nil {
			wantPeerError(t, err, ErrKey)
			return
		}
		canonical, err := k.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParsePublicKey(canonical)
		if err != nil || !again.Equal(k) || again.Fingerprint() != k.Fingerprint() {
			t.Fatalf("%s: %v", canonical, err)
		}
	})
}

// What parses as an identity is written in one form, which parses as the same.
func FuzzParseIdentity(f *testing.F) {
	s := readVectors(f).Handshakes[0].Inputs
	data, err := fixed(f, s.InitiatorDH, s.InitiatorKEM).MarshalSecret()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:60])
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := ParseIdentity(data)
		if err != nil {
			return
		}
		canonical, err := id.MarshalSecret()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseIdentity(canonical)
		if err != nil || !again.Public().Equal(id.Public()) {
			t.Fatal(err)
		}
	})
}

// Of all records the opener takes only the one whose turn it is.
func FuzzOpen(f *testing.F) {
	s, _ := fixedTransports()
	first, err := s.Seal(nil, 0, []byte("first"), nil)
	if err != nil {
		f.Fatal(err)
	}
	second, err := s.Seal(nil, 1, []byte("second"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(first)
	f.Add(second)
	f.Add(first[:15])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, record []byte) {
		_, o := fixedTransports()
		got, err := o.Open([]byte("x"), 0, record, nil)
		if genuine := bytes.Equal(record, first); genuine != (err == nil) || genuine != (string(got) == "xfirst") || !genuine && string(got) != "x" {
			t.Fatalf("%q, %v", got, err)
		}
		wantOpen(t, o, [][]byte{first, second}[o.Next()], [][]byte{[]byte("first"), []byte("second")}[o.Next()])
	})
}
