package seal

import (
	"crypto/mlkem"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flynn/noise"
)

// An Identity is one end's static keys, the secret halves included. Make one with
// NewIdentity or ParseIdentity; the zero value is none.
type Identity struct {
	opaque
	dh     noise.DHKey
	kem    *mlkem.DecapsulationKey768
	public *PublicKey
}

// The members of an identity's JSON beside the suite.
const (
	memberDHSecret  = "x25519_private_key"
	memberKEMSecret = "mlkem768_seed"
)

// NewIdentity makes fresh keys.
func NewIdentity() (*Identity, error) {
	dh, err := suite.GenerateKeypair(nil)
	if err != nil {
		return nil, fmt.Errorf("make an X25519 key: %w", err)
	}
	kem, err := mlkem.GenerateKey768()
	if err != nil {
		return nil, fmt.Errorf("make an ML-KEM key: %w", err)
	}
	return newIdentity(dh, kem), nil
}

func newIdentity(dh noise.DHKey, kem *mlkem.DecapsulationKey768) *Identity {
	public := &PublicKey{dh: [dhSize]byte(dh.Public), kem: kem.EncapsulationKey()}
	return &Identity{dh: dh, kem: kem, public: public}
}

// ParseIdentity reads what MarshalSecret wrote. White space around it does not matter.
func ParseIdentity(data []byte) (*Identity, error) {
	values, err := parseObject(data, memberSuite, memberDHSecret, memberKEMSecret)
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	if values[0] != Suite {
		return nil, errors.New("read identity: it is of another suite")
	}
	var secret [dhSize]byte
	if err := decodeBase64(secret[:], values[1]); err != nil {
		return nil, fmt.Errorf("read identity: %s: %w", memberDHSecret, err)
	}
	var seed [mlkem.SeedSize]byte
	if err := decodeBase64(seed[:], values[2]); err != nil {
		return nil, fmt.Errorf("read identity: %s: %w", memberKEMSecret, err)
	}
	return identityFrom(secret[:], seed[:])
}

// identityFrom makes an identity of the secrets: a scalar and a seed d, z.
func identityFrom(secret, seed []byte) (*Identity, error) {
	dh, err := dhKey(secret)
	if err != nil {
		return nil, err
	}
	kem, err := mlkem.NewDecapsulationKey768(seed)
	if err != nil {
		return nil, fmt.Errorf("read identity: %s: %w", memberKEMSecret, err)
	}
	return newIdentity(dh, kem), nil
}

// dhKey makes a key pair of its secret half.
func dhKey(secret []byte) (noise.DHKey, error) {
	base := [dhSize]byte{9} // RFC 7748, section 4.1
	public, err := suite.DH(secret, base[:])
	if err != nil {
		return noise.DHKey{}, fmt.Errorf("read identity: %s: %w", memberDHSecret, err)
	}
	return noise.DHKey{Private: secret, Public: public}, nil
}

// MarshalSecret writes the identity, secrets and all, as one line of JSON: the suite,
// the X25519 scalar and the ML-KEM seed d, z in base64. It is not called MarshalJSON so
// that nothing writes an identity by accident.
func (id *Identity) MarshalSecret() ([]byte, error) {
	if !id.usable() {
		return nil, &MisuseError{"write identity", "no identity"}
	}
	b := make([]byte, 0, 320)
	b = append(b, `{"`+memberSuite+`":"`+Suite+`","`+memberDHSecret+`":"`...)
	b = base64.StdEncoding.AppendEncode(b, id.dh.Private)
	b = append(b, `","`+memberKEMSecret+`":"`...)
	b = base64.StdEncoding.AppendEncode(b, id.kem.Bytes())
	return append(b, "\"}\n"...), nil
}

// Public returns the public half.
func (id *Identity) Public() *PublicKey { return id.public }

func (id *Identity) usable() bool { return id != nil && id.kem != nil }

// LogValue implements slog.LogValuer with the fingerprint of the public half.
func (id Identity) LogValue() slog.Value {
	if !id.usable() {
		return slog.StringValue("no identity")
	}
	return id.public.LogValue()
}
