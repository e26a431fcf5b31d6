package seal

import (
	"crypto/mlkem"
	"fmt"

	"github.com/flynn/noise"
)

// refusal is the payload of message 2 by which an executor refuses.
const refusal = "codex-registry-authentication-rejected/v1"

// progress is how far a handshake has come.
type progress int

const (
	begun progress = iota
	halfway
	spent
)

// An Initiator is the harness's end of one handshake: WriteMessage1, then ReadMessage2.
type Initiator struct {
	opaque
	progress
	s      symmetric
	random source
	own    *Identity
	peer   *PublicKey
	// The ephemeral keys, from WriteMessage1 on.
	dh  noise.DHKey
	kem *mlkem.DecapsulationKey768
}

// NewInitiator begins a handshake with the executor whose key is peer.
func NewInitiator(own *Identity, peer *PublicKey, p Prologue) (*Initiator, error) {
	const op = "begin handshake"
	if !own.usable() || !peer.usable() {
		return nil, &MisuseError{op, "no key"}
	}
	if wrong := p.check(); wrong != "" {
		return nil, &MisuseError{op, wrong}
	}
	return &Initiator{s: newSymmetric(p, peer), random: fresh(), own: own, peer: peer}, nil
}

// WriteMessage1 returns the first message, which carries payload, the harness's
// authorization, for nobody but the executor to read. That the executor's key is of no
// use shows here, as a PeerError, before anything was sent.
func (i *Initiator) WriteMessage1(payload []byte) ([]byte, error) {
	const op = "write message 1"
	if i.progress != begun {
		return nil, &MisuseError{op, "not the next step of this handshake"}
	}
	if len(payload) > MaxMessage-Message1Overhead {
		return nil, &MisuseError{op, fmt.Sprintf("payload of %d bytes, more than %d", len(payload), MaxMessage-Message1Overhead)}
	}
	message, err := i.writeMessage1(payload)
	if err != nil {
		i.end()
		return nil, err
	}
	i.progress = halfway
	return message, nil
}

// -> skem, e, es, s, ss
func (i *Initiator) writeMessage1(payload []byte) ([]byte, error) {
	m := make([]byte, 0, Message1Overhead+len(payload))
	// skem: to the responder's static key. There is no key yet, so it goes in clear.
	shared, ciphertext := i.random.encapsulate(i.peer.kem)
	m = i.s.encryptAndHash(m, ciphertext)
	i.s.mixKeyAndHash(shared)
	i.s.trace("m1 skem")
	// e
	var err error
	if i.dh, err = i.random.dh(); err != nil {
		return nil, fmt.Errorf("make an X25519 key: %w", err)
	}
	if i.kem, err = i.random.kem(); err != nil {
		return nil, fmt.Errorf("make an ML-KEM key: %w", err)
	}
	for _, key := range [][]byte{i.dh.Public, i.kem.EncapsulationKey().Bytes()} {
		i.s.mixHash(key)
		m = append(m, key...)
	}
	// es
	if err := i.s.mixDH("m1 es", i.dh, i.peer.dh[:]); err != nil {
		return nil, &PeerError{"write message 1", err}
	}
	// s
	m = i.s.encryptAndHash(m, i.own.public.dh[:])
	m = i.s.encryptAndHash(m, i.own.public.kem.Bytes())
	// ss
	if err := i.s.mixDH("m1 ss", i.own.dh, i.peer.dh[:]); err != nil {
		return nil, &PeerError{"write message 1", err}
	}
	m = i.s.encryptAndHash(m, payload)
	i.s.trace("m1 end")
	return m, nil
}

// ReadMessage2 reads the executor's answer and returns the transport. An authenticated
// refusal is ErrRefused; anything else that is not acceptance is a PeerError. After an
// error the handshake is spent.
func (i *Initiator) ReadMessage2(message []byte) (*Transport, error) {
	const op = "read message 2"
	if i.progress != halfway {
		return nil, &MisuseError{op, "not the next step of this handshake"}
	}
	defer i.end()
	if len(message) < Message2Overhead || len(message) > MaxMessage {
		return nil, &PeerError{op, ErrLength}
	}
	payload, err := i.readMessage2(message)
	if err != nil {
		return nil, &PeerError{op, err}
	}
	switch string(payload) {
	case "":
		hash := i.s.h
		send, receive := i.s.split()
		return newTransport(send, receive, hash), nil
	case refusal:
		return nil, ErrRefused
	default:
		return nil, &PeerError{op, ErrPayload}
	}
}

// <- ekem, skem, e, ee, se
func (i *Initiator) readMessage2(m []byte) (payload []byte, err error) {
	// ekem: to our ephemeral key, in clear although there is a key.
	ciphertext := cut(&m, kemCipher)
	i.s.mixHash(ciphertext)
	shared, err := i.kem.Decapsulate(ciphertext)
	if err != nil {
		return nil, ErrLength
	}
	i.s.mixKey(shared)
	i.s.trace("m2 ekem")
	// skem: to our static key.
	ciphertext, err = i.s.decryptAndHash(cut(&m, kemCipher+Overhead))
	if err != nil {
		return nil, err
	}
	if shared, err = i.own.kem.Decapsulate(ciphertext); err != nil {
		return nil, ErrLength
	}
	i.s.mixKeyAndHash(shared)
	i.s.trace("m2 skem")
	// e: the ML-KEM key is hashed and otherwise of no use.
	peer := cut(&m, dhSize)
	i.s.mixHash(peer)
	i.s.mixHash(cut(&m, kemSize))
	// ee
	if err := i.s.mixDH("m2 ee", i.dh, peer); err != nil {
		return nil, err
	}
	// se
	if err := i.s.mixDH("m2 se", i.own.dh, peer); err != nil {
		return nil, err
	}
	payload, err = i.s.decryptAndHash(m)
	i.s.trace("m2 end")
	return payload, err
}

// end forgets the secrets of this handshake.
func (i *Initiator) end() {
	i.progress = spent
	i.s.wipe()
	i.dh, i.kem = noise.DHKey{}, nil
}
