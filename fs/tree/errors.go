package tree

import (
	"errors"
	iofs "io/fs"
	"syscall"
)

// What can be wrong with a call. Errors about a path are *io/fs.PathError around one of
// these, or around io/fs.ErrNotExist, ErrExist or ErrPermission.
var (
	ErrIsDirectory  = errors.New("is a directory")
	ErrNotDirectory = errors.New("not a directory")
	ErrNotEmpty     = errors.New("directory not empty")
	ErrLoop         = errors.New("too many links")
	ErrNameTooLong  = errors.New("name too long")
	ErrTooLarge     = errors.New("too large")
	ErrInvalid      = iofs.ErrInvalid
	// ErrUnknownHash: content is named by a hash that is not held.
	ErrUnknownHash = errors.New("unknown hash")
	// ErrDamaged: what the store holds contradicts itself.
	ErrDamaged = errors.New("the store is damaged")
)

// codes gives the name under which peers know an error, the first that fits.
var codes = []struct {
	err  error
	code string
}{
	{iofs.ErrNotExist, "ENOENT"},
	{iofs.ErrExist, "EEXIST"},
	{iofs.ErrPermission, "EPERM"},
	{ErrIsDirectory, "EISDIR"},
	{ErrNotDirectory, "ENOTDIR"},
	{ErrNotEmpty, "ENOTEMPTY"},
	{ErrLoop, "ELOOP"},
	{ErrNameTooLong, "ENAMETOOLONG"},
	{ErrTooLarge, "EFBIG"},
	{ErrUnknownHash, "EUNKNOWN_HASH"},
	{ErrInvalid, "EINVAL"},
	{ErrDamaged, "EIO"},
}

// Code is the name of an error among peers (ENOENT, EISDIR and so on), "" for one that
// has none.
func Code(err error) string {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return ""
}

// NoRoom reports whether an error says that the disk has no room, or none for us, or none for so large a file.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// MissingError says which chunk of a file is not held. It is an ErrUnknownHash.
type MissingError struct{ Hash Hash }

// Error names the hash.
func (e *MissingError) Error() string { return "chunk " + e.Hash.String() + " is not held" }

// Unwrap is ErrUnknownHash.
func (e *MissingError) Unwrap() error { return ErrUnknownHash }

// at says what was being done to which path. An error that already does is left alone.
func at(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*iofs.PathError](err); ok {
		return err
	}
	return &iofs.PathError{Op: op, Path: path, Err: err}
}
