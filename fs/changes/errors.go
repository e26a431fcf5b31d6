package changes

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"syscall"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Codes of errors that are no filesystem's. The others are those of tree.Code.
const (
	CodeProtocol = "EPROTOCOL"      // more than there may be, or what makes no sense in a call
	CodeUnseen   = "EUNSEEN"        // the sender has not seen what it would be mixed with
	CodePack     = "EPACK_PROTOCOL" // a pack that is none
	CodeNoRoom   = "ENOSPC"         // the disk has no room, or none for us
	CodeNoAccess = "EACCES"         // the disk may not be read or searched
)

// Names of errors, as peers know their classes.
const (
	nameFilesystem = "WorkspaceFsError"
	NamePack       = "PackProtocolError"
	NamePlain      = "Error"
)

// An Error is what went wrong at a Peer, with what its wire says of it. Who calls a peer
// elsewhere makes one of what it was answered. An errors.Is finds the errors of package
// tree, and io/fs's, by the code.
type Error struct {
	Code string // ENOENT, EUNKNOWN_HASH and so on, or "" for none
	Name string // "" for what goes with the code
	Path string // "" for none
	// More are other paths that it is about. The wire does not carry them.
	More []string
	Err  error
}

// Error is what Err says.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is an error of the same code.
func (e *Error) Is(target error) bool { return e.Code != "" && tree.Code(target) == e.Code }

// Code is the name of an error among peers, "" for one that has none: an *Error's own, or
// else tree.Code, or CodeNoRoom.
func Code(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if code := tree.Code(err); code != "" || !tree.NoRoom(err) {
		return code
	}
	return CodeNoRoom
}

// Name is the class of an error among peers.
func Name(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Name != "" {
		return e.Name
	}
	switch Code(err) {
	case CodePack:
		return NamePack
	case CodeProtocol, CodeUnseen, "":
		return NamePlain
	}
	return nameFilesystem
}

// Path is the path that an error is about, "" for none.
func Path(err error) string {
	if e, ok := errors.AsType[*Error](err); ok && e.Path != "" {
		return e.Path
	}
	if e, ok := errors.AsType[*iofs.PathError](err); ok {
		return e.Path
	}
	return ""
}

// Paths are all the paths that an error is about.
func Paths(err error) []string {
	path := Path(err)
	if path == "" {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Path != "" {
		return append([]string{path}, e.More...)
	}
	return []string{path}
}

// settleError is the error of a Settle, with a code if the disk may not be read.
func settleError(err error) error {
	settled := fmt.Errorf("settle: %w", err)
	if errors.Is(err, syscall.EACCES) {
		return &Error{Code: CodeNoAccess, Name: NamePlain, Err: settled}
	}
	return settled
}

func protocolErrorf(format string, args ...any) error {
	return &Error{Code: CodeProtocol, Err: fmt.Errorf(format, args...)}
}

// Invalid is an EINVAL about a path, which is cut to a length that can be shown.
func Invalid(path, format string, args ...any) error {
	const shown = 256
	if len(path) > shown {
		path = path[:shown] + "…"
	}
	err := fmt.Errorf(format, args...)
	return &Error{Code: "EINVAL", Path: path, Err: fmt.Errorf("%q: %w", path, err)}
}
