package sqlitefile

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// DSN names a file for the driver "sqlite". The path is escaped, so that a ? or # in it
// is not read as the beginning of options. Options are NAME=VALUE of the driver's.
func DSN(path string, busy time.Duration, options ...string) string {
	u := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_defensive=1&_dqs=0&_foreign_keys=1&_busy_timeout=" + strconv.FormatInt(busy.Milliseconds(), 10)
	for _, o := range options {
		u += "&" + o
	}
	return u
}

// Prepare makes the file (0600) and its directories (0700) when they are missing, so that
// nobody else can read it from its first moment on; SQLite gives the files it puts beside
// it the same mode. An existing file that others may read is closed to them, and narrowed
// is true.
//
// An existing file is looked at but not opened: closing it would give up the locks that
// another connection of this process holds on it (POSIX locks are per process).
func Prepare(path string) (narrowed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return false, err
	}
	if err := checkLink(path); err != nil {
		return false, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, iofs.ErrNotExist) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, iofs.ErrExist) {
			return false, checkLink(path) // another process was first
		}
		if err != nil {
			return false, err
		}
		return false, f.Close()
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file", path)
	}
	if info.Mode().Perm()&^0o600 == 0 {
		return false, nil
	}
	if err := os.Chmod(path, info.Mode().Perm()&0o600); err != nil {
		return false, fmt.Errorf("keep others from reading it: %w", err)
	}
	return true, nil
}

// checkLink refuses a link that leads to nothing: SQLite would make the file where it
// leads, wherever that is, and readable by others.
func checkLink(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != iofs.ModeSymlink {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, iofs.ErrNotExist) {
		return fmt.Errorf("%s is a link to something that does not exist: remove the link, or name the file itself", path)
	}
	return nil
}
