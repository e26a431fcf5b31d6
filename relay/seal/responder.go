package seal

import (
	"crypto/mlkem"
	"fmt"
)

// A Responder is the executor's end of one handshake: ReadMessage1, then, when the
// registry has said whether the harness may come in, WriteMessage2 or WriteRefusal, or
// nothing.
type Responder struct {
	opaque
	progress
	s      symmetric
	random source
	own    *Identity
	// What message 1 brought.
	peer *PublicKey
	dh   [dhSize]byte // ephemeral
	kem  *mlkem.EncapsulationKey768
}

// NewResponder begins the executor's end of a handshake.
func NewResponder(own *Identity, p Prologue) (*Responder, error) {
	const op = "begin handshake"
	if !own.usable() {
		return nil, &MisuseError{op, "no key"}
	}
	if wrong := p.check(); wrong != "" {
		return nil, &MisuseError{op, wrong}
	}
	return &Responder{s: newSymmetric(p, own.public), random: fresh(), own: own}, nil
}

// ReadMessage1 reads the harness's message and returns the harness's static key, which
// it has proved to have, and the payload, its authorization. The message may be a replay,
// until the first record has come. An error is a PeerError, and the handshake is spent.
func (r *Responder) ReadMessage1(message []byte) (peer *PublicKey, payload []byte, err error) {
	const op = "read message 1"
	if r.progress != begun {
		return nil, nil, &MisuseError{op, "not the next step of this handshake"}
	}
	if len(message) < Message1Overhead || len(message) > MaxMessage {
		err = ErrLength
	} else {
		payload, err = r.readMessage1(message)
	}
	if err != nil {
		r.end()
		return nil, nil, &PeerError{op, err}
	}
	r.progress = halfway
	return r.peer, payload, nil
}

// -> skem, e, es, s, ss
func (r *Responder) readMessage1(m []byte) (payload []byte, err error) {
	// skem: to our static key, in clear. A ciphertext that was altered yields another
	// secret, not an error; s will not authenticate then.
	ciphertext, err := r.s.decryptAndHash(cut(&m, kemCipher))
	if err != nil {
		return nil, err
	}
	shared, err := r.own.kem.Decapsulate(ciphertext)
	if err != nil {
		return nil, ErrLength
	}
	r.s.mixKeyAndHash(shared)
	r.s.trace("m1 skem")
	// e
	r.dh = [dhSize]byte(cut(&m, dhSize))
	r.s.mixHash(r.dh[:])
	ephemeral := cut(&m, kemSize)
	r.s.mixHash(ephemeral)
	// es
	if err := r.s.mixDH("m1 es", r.own.dh, r.dh[:]); err != nil {
		return nil, err
	}
	// s
	dh, err := r.s.decryptAndHash(cut(&m, dhSize+Overhead))
	if err != nil {
		return nil, err
	}
	static, err := r.s.decryptAndHash(cut(&m, kemSize+Overhead))
	if err != nil {
		return nil, err
	}
	// ss
	if err := r.s.mixDH("m1 ss", r.own.dh, dh); err != nil {
		return nil, err
	}
	if payload, err = r.s.decryptAndHash(m); err != nil {
		return nil, err
	}
	r.s.trace("m1 end")
	// Only now that all of it is known to be the peer's are its ML-KEM keys looked at.
	if r.peer, err = newPublicKey(dh, static); err != nil {
		return nil, err
	}
	if r.kem, err = mlkem.NewEncapsulationKey768(ephemeral); err != nil {
		return nil, ErrKey
	}
	return payload, nil
}

// WriteMessage2 accepts the harness: it returns the second message and the transport,
// which must be ready for records before the message is sent.
func (r *Responder) WriteMessage2() ([]byte, *Transport, error) {
	message, err := r.answer("write message 2", "")
	if err != nil {
		return nil, nil, err
	}
	hash := r.s.h
	receive, send := r.s.split()
	return message, newTransport(send, receive, hash), nil
}

// WriteRefusal returns a second message that tells the harness, authenticated, that the
// registry did not take the executor's credentials.
func (r *Responder) WriteRefusal() ([]byte, error) {
	message, err := r.answer("write refusal", refusal)
	if err != nil {
		return nil, err
	}
	r.s.wipe() // there will be no keys to split
	return message, nil
}

// answer makes message 2. The handshake is spent, but for splitting its keys.
func (r *Responder) answer(op, payload string) ([]byte, error) {
	if r.progress != halfway {
		return nil, &MisuseError{op, "not the next step of this handshake"}
	}
	message, err := r.writeMessage2([]byte(payload))
	r.progress, r.peer, r.kem = spent, nil, nil
	if err != nil {
		r.end()
		return nil, err
	}
	return message, nil
}

// <- ekem, skem, e, ee, se
func (r *Responder) writeMessage2(payload []byte) ([]byte, error) {
	m := make([]byte, 0, Message2Overhead+len(payload))
	// ekem: to the initiator's ephemeral key, in clear although there is a key.
	shared, ciphertext := r.random.encapsulate(r.kem)
	r.s.mixHash(ciphertext)
	m = append(m, ciphertext...)
	r.s.mixKey(shared)
	r.s.trace("m2 ekem")
	// skem: to the initiator's static key.
	shared, ciphertext = r.random.encapsulate(r.peer.kem)
	m = r.s.encryptAndHash(m, ciphertext)
	r.s.mixKeyAndHash(shared)
	r.s.trace("m2 skem")
	// e
	dh, err := r.random.dh()
	if err != nil {
		return nil, fmt.Errorf("make an X25519 key: %w", err)
	}
	kem, err := r.random.kem()
	if err != nil {
		return nil, fmt.Errorf("make an ML-KEM key: %w", err)
	}
	for _, key := range [][]byte{dh.Public, kem.EncapsulationKey().Bytes()} {
		r.s.mixHash(key)
		m = append(m, key...)
	}
	// ee
	if err := r.s.mixDH("m2 ee", dh, r.dh[:]); err != nil {
		return nil, &PeerError{"write message 2", err}
	}
	// se
	if err := r.s.mixDH("m2 se", dh, r.peer.dh[:]); err != nil {
		return nil, &PeerError{"write message 2", err}
	}
	m = r.s.encryptAndHash(m, payload)
	r.s.trace("m2 end")
	return m, nil
}

// end forgets what this handshake had.
func (r *Responder) end() {
	r.progress = spent
	r.s.wipe()
	r.peer, r.kem = nil, nil
}
