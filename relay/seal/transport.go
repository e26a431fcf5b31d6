package seal

import (
	"fmt"
	"sync"

	"github.com/flynn/noise"
)

// A Transport is what a handshake came to: a direction each way, with a key of its own.
type Transport struct {
	opaque
	Sealer *Sealer
	Opener *Opener
	// Hash is the same at both ends and differs for every handshake.
	Hash [hashSize]byte
}

func newTransport(send, receive *noise.CipherState, hash [hashSize]byte) *Transport {
	return &Transport{Sealer: &Sealer{cipher: send}, Opener: &Opener{cipher: receive}, Hash: hash}
}

// A Sealer encrypts the records of one direction.
//
// Records are numbered from 0, and the number is the nonce. It goes with the record as
// the frame's seq; a record that must be sent again is kept and sent as it is.
//
// What else of a frame must not be altered on the way, both ends pass as additional data
// (ad): it is authenticated with the record and not sent with it. The codex profile has
// none.
type Sealer struct {
	opaque
	mu     sync.Mutex
	cipher *noise.CipherState
}

// Next is the number of the next record.
func (s *Sealer) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cipher.Nonce()
}

// Seal appends to dst the record that carries plaintext, at most MaxPlaintext bytes, and
// returns the longer slice. seq must be Next(). It allocates nothing of the record's size
// if dst has room for Overhead bytes more than plaintext has. plaintext may lie where the
// record will begin, right behind dst, and must not overlap it otherwise.
//
// At the end of the numbers it returns ErrExhausted, for ever. All other errors are
// MisuseErrors; after one, dst and the number are as they were.
func (s *Sealer) Seal(dst []byte, seq uint64, plaintext, ad []byte) ([]byte, error) {
	const op = "seal record"
	if len(plaintext) > MaxPlaintext {
		return dst, &MisuseError{op, fmt.Sprintf("plaintext of %d bytes, more than %d", len(plaintext), MaxPlaintext)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := inTurn(op, s.cipher, seq); err != nil {
		return dst, err
	}
	out, err := s.cipher.Encrypt(dst, ad, plaintext)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", op, err)
	}
	return out, nil
}

// An Opener decrypts the records of one direction, in the order of their numbers.
type Opener struct {
	opaque
	mu     sync.Mutex
	cipher *noise.CipherState
}

// Next is the number of the record that can be opened now.
func (o *Opener) Next() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cipher.Nonce()
}

// Open appends to dst the plaintext of record, whose number is seq, and returns the
// longer slice. seq must be Next(): whoever receives records out of order keeps them
// until their turn. dst may be record[:0], and must not overlap record otherwise; what
// record held is then lost even if it does not open.
//
// A record that was altered, or whose ad was, or that is another one's, or has an
// impossible length, is a PeerError; the number does not advance, and the true record can be opened still. At the
// end of the numbers it returns ErrExhausted, for ever. After an error, dst is as it was.
func (o *Opener) Open(dst []byte, seq uint64, record, ad []byte) ([]byte, error) {
	const op = "open record"
	if len(record) < Overhead || len(record) > MaxRecord {
		return dst, &PeerError{op, ErrLength}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := inTurn(op, o.cipher, seq); err != nil {
		return dst, err
	}
	out, err := o.cipher.Decrypt(dst, ad, record)
	if err != nil {
		return dst, &PeerError{op, ErrAuthentication}
	}
	return out, nil
}

// inTurn refuses any number but the next, and that too when it is one too far.
func inTurn(op string, c *noise.CipherState, seq uint64) error {
	if c.Nonce() > noise.MaxNonce {
		return fmt.Errorf("%s: %w", op, ErrExhausted)
	}
	if seq != c.Nonce() {
		return &MisuseError{op, fmt.Sprintf("number %d, want %d", seq, c.Nonce())}
	}
	return nil
}
