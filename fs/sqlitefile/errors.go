package sqlitefile

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"modernc.org/sqlite" // and the driver "sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What can be wrong with a file.
var (
	// ErrDamaged: the file is not a database, or parts of it are.
	ErrDamaged = errors.New("the file is damaged")
	// ErrReadOnly: the file or its directory must not be written.
	ErrReadOnly = errors.New("the file cannot be written")
	// ErrFull: no room on the disk. It is syscall.ENOSPC, too.
	ErrFull error = fullError{}
	// ErrBusy: somebody kept the write lock for too long.
	ErrBusy = errors.New("another process keeps the file locked")
	// ErrNewer: a later version of wsd has written the file.
	ErrNewer = errors.New("the file belongs to a later version of wsd")
	// ErrForeign: the file is the database of another program.
	ErrForeign = errors.New("the file is the database of another program")
)

type fullError struct{}

// Error implements error.
func (fullError) Error() string { return "the disk is full" }

// Is reports whether target means the same.
func (fullError) Is(target error) bool { return target == syscall.ENOSPC } //nolint:errorlint // that itself

// kinds gives the sentinel and a hint for the primary codes of SQLite
// (https://sqlite.org/rescode.html) that are about the file and not about us.
var kinds = map[int]struct {
	is   error
	hint string
}{
	sqlite3.SQLITE_CORRUPT:  {ErrDamaged, "restore a backup, or move it away"},
	sqlite3.SQLITE_NOTADB:   {ErrDamaged, "restore a backup, or move it away"},
	sqlite3.SQLITE_READONLY: {ErrReadOnly, "check the owner and mode of the file and of its directory, and whether the file system is mounted read-only"},
	sqlite3.SQLITE_CANTOPEN: {ErrReadOnly, "check the owner and mode of the file and of its directory"},
	sqlite3.SQLITE_PERM:     {ErrReadOnly, "check the owner and mode of the file and of its directory"},
	sqlite3.SQLITE_FULL:     {ErrFull, "make room on the disk; nothing that was stored is lost"},
	sqlite3.SQLITE_BUSY:     {ErrBusy, "see which other wsd, backup or database tool has it open"},
}

// Explain says what was being done to which file ("open", "the relay's state /x"), and
// what an error of SQLite means where that is known: it then wraps one of the sentinels
// and hints at what a person can do. Errors of a context pass as they are, and so do those
// that it has explained: the first to explain one says most closely what was being done.
func Explain(doing, file string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if _, ok := errors.AsType[explained](err); ok {
		return err
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		// The low byte is the primary code. A log whose index cannot grow has a code of its
		// own among the I/O errors: there is no room for that.
		code := e.Code() & 0xff
		if e.Code() == sqlite3.SQLITE_IOERR_SHMSIZE {
			code = sqlite3.SQLITE_FULL
		}
		if k, ok := kinds[code]; ok {
			return explained{fmt.Errorf("%s %s: %w (%w); %s", doing, file, k.is, err, k.hint)}
		}
	}
	return fmt.Errorf("%s %s: %w", doing, file, err)
}

// explained is an error that Explain has added a hint to.
type explained struct{ error }

// Unwrap returns what errors.Is and errors.As look at.
func (e explained) Unwrap() error { return e.error }

func isBusy(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY
}
