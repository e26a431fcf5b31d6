package seal

import (
	"crypto/mlkem"
	"encoding/base64"
	"fmt"
	"log/slog"
)

// A PublicKey is the public half of an Identity. Get one from an Identity, from
// ParsePublicKey, by decoding JSON, or from a Responder; its zero value is no key.
type PublicKey struct {
	dh  [dhSize]byte
	kem *mlkem.EncapsulationKey768 // nil: no key
}

// The members of a public key's JSON.
const (
	memberSuite = "suite"
	memberDH    = "x25519_public_key"
	memberKEM   = "mlkem768_public_key"
)

// newPublicKey checks and copies the two keys.
func newPublicKey(dh, kem []byte) (*PublicKey, error) {
	k, err := mlkem.NewEncapsulationKey768(kem)
	if err != nil || len(dh) != dhSize || lowOrder(dh) {
		return nil, ErrKey
	}
	return &PublicKey{dh: [dhSize]byte(dh), kem: k}, nil
}

// lowOrder reports whether an X25519 key is a point of low order, all zeros among them:
// its secret with every key is known to everybody. Every scalar shows it, as scalars are
// multiples of the cofactor.
func lowOrder(dh []byte) bool {
	scalar := [dhSize]byte{1}
	_, err := suite.DH(scalar[:], dh)
	return err != nil
}

// ParsePublicKey reads a public key as the registry carries it,
//
//	{"suite":"...","x25519_public_key":"<base64>","mlkem768_public_key":"<base64>"}
//
// with exactly these members, in any order. A key that is not acceptable is a PeerError
// of ErrKey.
func ParsePublicKey(data []byte) (*PublicKey, error) {
	values, err := parseObject(data, memberSuite, memberDH, memberKEM)
	if err != nil {
		return nil, badKey(err)
	}
	if values[0] != Suite {
		return nil, badKey(fmt.Errorf("suite %.80q", values[0]))
	}
	var dh [dhSize]byte
	if err := decodeBase64(dh[:], values[1]); err != nil {
		return nil, badKey(fmt.Errorf("%s: %w", memberDH, err))
	}
	var kem [kemSize]byte
	if err := decodeBase64(kem[:], values[2]); err != nil {
		return nil, badKey(fmt.Errorf("%s: %w", memberKEM, err))
	}
	if lowOrder(dh[:]) {
		return nil, badKey(fmt.Errorf("%s: it is of low order, and no secret", memberDH))
	}
	k, err := newPublicKey(dh[:], kem[:])
	if err != nil {
		return nil, badKey(fmt.Errorf("%s: coefficient out of range", memberKEM))
	}
	return k, nil
}

// badKey says that a peer's key is not acceptable, and why.
func badKey(why error) error {
	return &PeerError{Op: "read public key", Err: fmt.Errorf("%w: %w", ErrKey, why)}
}

// UnmarshalJSON implements json.Unmarshaler as ParsePublicKey does. null is refused.
func (k *PublicKey) UnmarshalJSON(data []byte) error {
	parsed, err := ParsePublicKey(data)
	if err == nil {
		*k = *parsed
	}
	return err
}

// MarshalJSON implements json.Marshaler.
func (k PublicKey) MarshalJSON() ([]byte, error) {
	if k.kem == nil {
		return nil, &MisuseError{"write public key", "no key"}
	}
	b := make([]byte, 0, 2048)
	b = append(b, `{"`+memberSuite+`":"`+Suite+`","`+memberDH+`":"`...)
	b = base64.StdEncoding.AppendEncode(b, k.dh[:])
	b = append(b, `","`+memberKEM+`":"`...)
	b = base64.StdEncoding.AppendEncode(b, k.kem.Bytes())
	return append(b, `"}`...), nil
}

// Equal reports whether both are the same key. No key equals none, not even another.
func (k *PublicKey) Equal(other *PublicKey) bool {
	return k.usable() && other.usable() && k.dh == other.dh && string(k.kem.Bytes()) == string(other.kem.Bytes())
}

func (k *PublicKey) usable() bool { return k != nil && k.kem != nil }

// String returns the fingerprint.
func (k *PublicKey) String() string {
	if !k.usable() {
		return "no key"
	}
	return k.Fingerprint().String()
}

// LogValue implements slog.LogValuer with the fingerprint.
func (k *PublicKey) LogValue() slog.Value { return slog.StringValue(k.String()) }
