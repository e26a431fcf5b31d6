package seal

import (
	"crypto/hkdf"
	"fmt"

	"github.com/flynn/noise"
)

// symmetric is the SymmetricState of the Noise specification, section 5.2, and what both
// ends of a handshake do with it.
type symmetric struct {
	opaque
	h, ck  [hashSize]byte
	cipher *noise.CipherState // nil until the first key
	traced func(step string)  // nil but in tests: called after each step
}

// newSymmetric begins a handshake that both ends have the prologue and the responder's
// static keys in common for.
func newSymmetric(p Prologue, responder *PublicKey) symmetric {
	var s symmetric
	// InitializeSymmetric: the name is longer than a hash.
	d := suite.Hash()
	d.Write([]byte(protocolName))
	d.Sum(s.h[:0])
	s.ck = s.h
	s.mixHash(p.Bytes())
	// <- s
	s.mixHash(responder.dh[:])
	s.mixHash(responder.kem.Bytes())
	return s
}

// mixHash: h = SHA256(h || data).
func (s *symmetric) mixHash(data []byte) {
	d := suite.Hash()
	d.Write(s.h[:])
	d.Write(data)
	d.Sum(s.h[:0])
}

// mixKey: ck, k = HKDF(ck, ikm, 2).
func (s *symmetric) mixKey(ikm []byte) {
	out := s.hkdf(ikm, 2)
	s.ck = [hashSize]byte(out)
	s.setKey([hashSize]byte(out[hashSize:]))
}

// mixKeyAndHash: ck, temp, k = HKDF(ck, ikm, 3), then MixHash(temp).
func (s *symmetric) mixKeyAndHash(ikm []byte) {
	out := s.hkdf(ikm, 3)
	s.ck = [hashSize]byte(out)
	s.mixHash(out[hashSize : 2*hashSize])
	s.setKey([hashSize]byte(out[2*hashSize:]))
}

func (s *symmetric) setKey(k [hashSize]byte) {
	s.cipher = noise.UnsafeNewCipherState(suite, k, 0)
}

// hkdf is the chain of HMACs of the specification, section 4.3, which is RFC 5869's with
// ck as salt and no info.
func (s *symmetric) hkdf(ikm []byte, outputs int) []byte {
	out, err := hkdf.Key(suite.Hash, ikm, s.ck[:], "", outputs*hashSize)
	if err != nil {
		panic(fmt.Sprintf("seal: hkdf: %v", err)) // lengths are constants
	}
	return out
}

// encryptAndHash appends p to dst, encrypted once there is a key, and hashes what it
// appended.
func (s *symmetric) encryptAndHash(dst, p []byte) []byte {
	start := len(dst)
	if s.cipher == nil {
		dst = append(dst, p...)
	} else {
		var err error
		if dst, err = s.cipher.Encrypt(dst, s.h[:], p); err != nil {
			panic(fmt.Sprintf("seal: encrypt: %v", err)) // a key is used twice at most
		}
	}
	s.mixHash(dst[start:])
	return dst
}

// decryptAndHash returns what encryptAndHash was given for c. It does not change c.
func (s *symmetric) decryptAndHash(c []byte) ([]byte, error) {
	p := c
	if s.cipher != nil {
		var err error
		if p, err = s.cipher.Decrypt(nil, s.h[:], c); err != nil {
			return nil, ErrAuthentication
		}
	}
	s.mixHash(c)
	return p, nil
}

// mixDH mixes in the secret of our key and the peer's: es, ss, ee or se.
func (s *symmetric) mixDH(step string, ours noise.DHKey, theirs []byte) error {
	secret, err := suite.DH(ours.Private, theirs)
	if err != nil { // of low order
		return ErrKey
	}
	s.mixKey(secret)
	s.trace(step)
	return nil
}

// split: the keys of the two directions, from the initiator and to it. What is left of
// the handshake's secrets is wiped.
func (s *symmetric) split() (fromInitiator, toInitiator *noise.CipherState) {
	out := s.hkdf(nil, 2)
	fromInitiator = noise.UnsafeNewCipherState(suite, [hashSize]byte(out), 0)
	toInitiator = noise.UnsafeNewCipherState(suite, [hashSize]byte(out[hashSize:]), 0)
	clear(out)
	s.wipe()
	return fromInitiator, toInitiator
}

func (s *symmetric) wipe() {
	clear(s.ck[:])
	s.cipher = nil
}

func (s *symmetric) trace(step string) {
	if s.traced != nil {
		s.traced(step)
	}
}

// cut takes the first n bytes off message.
func cut(message *[]byte, n int) []byte {
	b := (*message)[:n:n]
	*message = (*message)[n:]
	return b
}
