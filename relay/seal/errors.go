package seal

import "errors"

// What may be wrong with what a peer sent; a PeerError wraps one of them.
var (
	// ErrAuthentication: it was altered, or made with other keys, or for another
	// environment, registration, stream or profile.
	ErrAuthentication = errors.New("does not authenticate")
	// ErrLength: it is too short or too long.
	ErrLength = errors.New("impossible length")
	// ErrKey: it is no key of this suite, or one that no honest peer has.
	ErrKey = errors.New("not a key of this suite")
	// ErrPayload: message 2 carries what neither accepts nor refuses.
	ErrPayload = errors.New("unknown payload")
)

// ErrRefused is what the initiator gets when the executor says, authenticated, that the
// registry did not take the executor's credentials. Asking again does not help.
var ErrRefused = errors.New("refused by the executor: the registry rejected its credentials")

// ErrExhausted ends a direction of a transport whose record numbers are used up.
var ErrExhausted = errors.New("record numbers are used up")

// A PeerError is the peer's fault, or that of somebody in between who altered what the
// peer sent.
type PeerError struct {
	// Op is what was being done, as "read message 1".
	Op  string
	Err error
}

func (e *PeerError) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *PeerError) Unwrap() error { return e.Err }

// A MisuseError is the fault of the program that uses this package. Nothing was
// written or read.
type MisuseError struct {
	Op     string
	Reason string
}

func (e *MisuseError) Error() string { return e.Op + ": " + e.Reason }
