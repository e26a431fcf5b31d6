package seal

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
)

// A Fingerprint identifies a PublicKey: SHA-256 of "wsd-relay-identity/v1", the X25519
// key and the ML-KEM key. Compare with ==.
type Fingerprint [sha256.Size]byte

const (
	fingerprintLabel  = "wsd-relay-identity/v1"
	fingerprintPrefix = "SHA256:"
)

// Fingerprint returns the fingerprint of k, which must be a key.
func (k *PublicKey) Fingerprint() Fingerprint {
	b := make([]byte, 0, len(fingerprintLabel)+dhSize+kemSize)
	b = append(b, fingerprintLabel...)
	b = append(b, k.dh[:]...)
	b = append(b, k.kem.Bytes()...)
	return sha256.Sum256(b)
}

// String returns "SHA256:" and 43 characters of unpadded base64 in the alphabet of
// URLs, so that it can be the fragment of one.
func (f Fingerprint) String() string {
	return fingerprintPrefix + base64.RawURLEncoding.EncodeToString(f[:])
}

// ParseFingerprint reads what Fingerprint.String returns.
func ParseFingerprint(text string) (Fingerprint, error) {
	digest, is := strings.CutPrefix(text, fingerprintPrefix)
	if !is {
		return Fingerprint{}, errors.New("fingerprint without " + fingerprintPrefix + " before it")
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(digest)
	if err != nil || len(b) != sha256.Size || len(digest) != base64.RawURLEncoding.EncodedLen(sha256.Size) {
		return Fingerprint{}, errors.New("fingerprint is not 43 characters of base64")
	}
	return Fingerprint(b), nil
}
