package sandbox

import (
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/protocol"
)

// kindPreparation is the data.kind of a process/start whose sandbox object names
// something that is not of this host.
const kindPreparation = "sandboxPreparation"

// ErrUnavailable is what every error is that says: this machine cannot enforce that.
var ErrUnavailable = errors.New("sandbox unavailable")

// unavailable says which part of a policy cannot be enforced.
type unavailable struct {
	missing string
	cause   error // nil if there is none to tell
}

// unavailablef keeps the cause that the format names with %w.
func unavailablef(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &unavailable{missing: err.Error(), cause: errors.Unwrap(err)}
}

func (e *unavailable) Error() string        { return "sandbox unavailable: " + e.missing }
func (e *unavailable) Is(target error) bool { return target == ErrUnavailable }
func (e *unavailable) Unwrap() error        { return e.cause }

// A foreignError is a URI in a sandbox object that names no path of this host.
type foreignError struct {
	// what names the member: "permission path", "policy cwd", "workspace root".
	what string
	err  error
}

func (e *foreignError) Error() string { return fmt.Sprintf("invalid sandbox %s: %v", e.what, e.err) }
func (e *foreignError) Unwrap() error { return e.err }

// errNeedsCwd is that of entries whose place depends on a directory nobody gave.
var errNeedsCwd = protocol.InvalidParams("file system sandbox context with dynamic permissions requires cwd")

// processError is err as process/start answers it.
func processError(err error) error {
	var foreign *foreignError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable):
		return protocol.InvalidStart(protocol.KindSandboxUnavailable, "%v", err)
	case errors.As(err, &foreign):
		return protocol.InvalidStart(kindPreparation, "failed to prepare process sandbox: %v", err)
	}
	return err
}

// fileError is err as fs/* answers it.
func fileError(err error) error {
	var foreign *foreignError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable):
		return protocol.InvalidStart(protocol.KindSandboxUnavailable, "%v", err)
	case errors.As(err, &foreign):
		switch foreign.what {
		case whatCwd:
			return protocol.Errorf(protocol.CodeInvalidRequest, "%v", foreign.err)
		case whatPath:
			return protocol.Errorf(protocol.CodeInvalidRequest, "invalid sandbox permission path URI: %v", foreign.err)
		}
		return protocol.Errorf(protocol.CodeInvalidRequest, "%v", err)
	}
	return err
}

const (
	whatPath = "permission path"
	whatCwd  = "policy cwd"
	whatRoot = "workspace root"
	whatHome = "user home"
	whatTemp = "temporary directory"
)

// hostPath returns the path of a URI in the member called what.
func hostPath(what, uri string) (string, error) {
	path, err := fileuri.Path(uri)
	if err == nil {
		return path, nil
	}
	if bad, ok := errors.AsType[*fileuri.Error](err); ok && bad.Kind == fileuri.Foreign {
		return "", &foreignError{what: what, err: err}
	}
	return "", protocol.InvalidParams("%v", err)
}
