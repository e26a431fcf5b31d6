package sqlstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// BusyTimeout is how long a call waits for the write lock that another process holds.
const BusyTimeout = 5 * time.Second

// readers is how many connections of a process read at once.
const readers = 4

// Config says where the state is.
type Config struct {
	// Path of the database file. Missing directories are made, with mode 0700.
	Path string
	// Logger, nil for none.
	Logger *slog.Logger
}

// A State is a rendezvous.State in a file. Use [Open].
type State struct {
	path  string
	write *sql.DB // one connection, which writes
	read  *sql.DB
}

// Open opens the file, makes it when it is missing, and brings its schema up to date.
// Errors: [ErrDamaged], [ErrReadOnly], [ErrFull], [ErrBusy], [ErrNewer], [ErrForeign].
func Open(ctx context.Context, cfg Config) (*State, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := prepareFile(path, logger); err != nil {
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	s := &State{path: path}
	// sql.Open only fails for an unknown driver.
	if s.write, err = sql.Open("sqlite", dsn(path, "_txlock=immediate", "_synchronous=NORMAL")); err != nil {
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	s.write.SetMaxOpenConns(1)
	if err := prepareSchema(ctx, s.write); err != nil {
		s.write.Close()
		return nil, s.explain("open", err)
	}
	if s.read, err = sql.Open("sqlite", dsn(path, "_query_only=1")); err != nil {
		s.write.Close()
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	s.read.SetMaxOpenConns(readers)
	s.read.SetMaxIdleConns(readers)
	return s, nil
}

// Close closes the file. It waits for calls that are under way.
func (s *State) Close() error {
	return s.explain("close", errors.Join(s.read.Close(), s.write.Close()))
}

// dsn names the file for the driver. The path is escaped, so that a ? or # in it is
// not read as the beginning of options.
func dsn(path string, options ...string) string {
	u := "file:" + (&url.URL{Path: path}).EscapedPath() +
		"?_defensive=1&_dqs=0&_foreign_keys=1&_busy_timeout=" + strconv.FormatInt(BusyTimeout.Milliseconds(), 10)
	for _, o := range options {
		u += "&" + o
	}
	return u
}

// prepareFile makes the file when it is missing, so that nobody else can read it from
// its first moment on; SQLite gives the files it puts beside it the same mode. A file
// that others may read is closed to them: the secret that signs URLs is in it.
//
// An existing file is looked at but not opened here: closing it would give up the
// locks that another State of this process holds on it (POSIX locks are per process).
func prepareFile(path string, logger *slog.Logger) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if errors.Is(err, iofs.ErrNotExist) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, iofs.ErrExist) {
			return nil // another process was first
		}
		if err != nil {
			return err
		}
		return f.Close()
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	if wide := info.Mode().Perm() &^ 0o600; wide != 0 {
		if err := os.Chmod(path, info.Mode().Perm()&0o600); err != nil {
			return fmt.Errorf("keep others from reading it: %w", err)
		}
		logger.Info("others could read the relay's state; its mode was changed", "path", path)
	}
	return nil
}
