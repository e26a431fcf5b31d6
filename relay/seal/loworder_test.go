package seal

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
)

// lowOrderKeys are the points of low order, in their encodings below 2^255.
var lowOrderKeys = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// S-R10: a key of low order is none, with the bit that X25519 ignores set too.
func TestSR10LowOrderKeys(t *testing.T) {
	good, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range lowOrderKeys {
		for _, high := range []byte{0, 0x80} {
			dh, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			dh[31] |= high
			var object map[string]string
			data, err := json.Marshal(good.Public())
			if err == nil {
				err = json.Unmarshal(data, &object)
			}
			if err != nil {
				t.Fatal(err)
			}
			object[memberDH] = base64.StdEncoding.EncodeToString(dh)
			if data, err = json.Marshal(object); err != nil {
				t.Fatal(err)
			}
			if _, err := ParsePublicKey(data); !errors.Is(err, ErrKey) {
				t.Errorf("%x is parsed: %v", dh, err)
			}
			if _, err := newPublicKey(dh, good.public.kem.Bytes()); !errors.Is(err, ErrKey) {
				t.Errorf("%x is a static key: %v", dh, err)
			}
			var s symmetric
			if err := s.mixDH("es", good.dh, dh); err == nil {
				t.Errorf("%x is an ephemeral key", dh)
			}
		}
	}
}
