package sqlstate

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What can be wrong with the file. Errors wrap these and say which file it is and what
// a person can do.
var (
	// ErrDamaged: the file is not a database, or parts of it are.
	ErrDamaged = errors.New("the file is damaged")
	// ErrReadOnly: the file or its directory must not be written.
	ErrReadOnly = errors.New("the file cannot be written")
	// ErrFull: no room on the disk.
	ErrFull = errors.New("the disk is full")
	// ErrBusy: another process kept the write lock for longer than BusyTimeout.
	ErrBusy = errors.New("another process keeps the file locked")
	// ErrNewer: a later version of wsd has written the file.
	ErrNewer = errors.New("the file belongs to a later version of wsd")
	// ErrForeign: the file is the database of another program.
	ErrForeign = errors.New("the file is the database of another program")
)

// kinds gives the sentinel and a hint for the primary codes of SQLite
// (https://sqlite.org/rescode.html) that are about the file and not about us.
var kinds = map[int]struct {
	is   error
	hint string
}{
	sqlite3.SQLITE_CORRUPT:  {ErrDamaged, "restore a backup, or move it away: executors register anew by themselves, tokens must be made again"},
	sqlite3.SQLITE_NOTADB:   {ErrDamaged, "restore a backup, or move it away: executors register anew by themselves, tokens must be made again"},
	sqlite3.SQLITE_READONLY: {ErrReadOnly, "check the owner and mode of the file and of its directory, and whether the file system is mounted read-only"},
	sqlite3.SQLITE_CANTOPEN: {ErrReadOnly, "check the owner and mode of the file and of its directory"},
	sqlite3.SQLITE_PERM:     {ErrReadOnly, "check the owner and mode of the file and of its directory"},
	sqlite3.SQLITE_FULL:     {ErrFull, "make room on the disk; nothing that was stored is lost"},
	sqlite3.SQLITE_BUSY:     {ErrBusy, "see which other wsd, backup or database tool has it open"},
}

// explain says which file an error is about, and what it means where that is known.
// Errors of a context pass as they are.
func (s *State) explain(doing string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		// The low byte is the primary code; a write that found no room may also come
		// as an I/O error of the system's, which says so itself.
		if k, ok := kinds[e.Code()&0xff]; ok {
			return fmt.Errorf("%s the relay's state %s: %w (%w); %s", doing, s.path, k.is, err, k.hint)
		}
	}
	return fmt.Errorf("%s the relay's state %s: %w", doing, s.path, err)
}
