package harness

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// ErrRejected says that the executor, authenticated, refused the handshake since the
// registry does not take the executor's own credentials.
var ErrRejected = errors.New("environment registry authentication error: executor credentials rejected")

// A KeyChangedError says that the executor has another key than the one that the same
// Harness has spoken with before.
type KeyChangedError struct{ Before, Now seal.Fingerprint }

func (e *KeyChangedError) Error() string {
	return fmt.Sprintf("executor key changed during session recovery: it was %s and is now %s; "+
		"the executor was started anew without --identity, or somebody answers in its place", e.Before, e.Now)
}

// An UntrustedError is what Config.Verify said of the executor's key.
type UntrustedError struct {
	Key seal.Fingerprint
	Err error
}

func (e *UntrustedError) Error() string { return e.Err.Error() }
func (e *UntrustedError) Unwrap() error { return e.Err }

// A ProfileError says that the executor did not grant the profile that was asked for.
type ProfileError struct{ Asked, Granted frame.Profile }

func (e *ProfileError) Error() string {
	return fmt.Sprintf("the executor answers with the profile %s where %s was asked for: "+
		"it does not have it although the registry says so, or somebody in between took it away", e.Granted, e.Asked)
}

// A ResetError says that a handshake was answered with a reset: by the executor, which
// takes no more streams, does not admit this harness's key, or was told by the registry
// that the authorization is not good; or by somebody in between.
type ResetError struct {
	// Reason is not to be trusted.
	Reason string
}

func (e *ResetError) Error() string {
	return fmt.Sprintf("the executor did not take the stream (%q): it may not admit this key, have too many streams, or be about to be replaced", e.Reason)
}

// A StepError says which step towards a stream failed.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// broke reports whether err says that a socket broke while it was made.
func broke(err error) bool {
	step, ok := errors.AsType[*StepError](err)
	return ok && step.Step == StepUpgrade && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

// Permanent reports whether err, of Connect or of a connection, is for good: trying
// again is in vain until a person has done something.
func Permanent(err error) bool {
	if errors.Is(err, ErrRejected) {
		return true
	}
	if _, ok := errors.AsType[*KeyChangedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*UntrustedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*ProfileError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*registry.CredentialError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*registry.ResponseError](err); ok {
		return true
	}
	_, ok := errors.AsType[*registry.StatusError](err)
	return ok && !registry.RetryConnect(err)
}
