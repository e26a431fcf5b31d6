package sqlstate

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
)

// applicationID is "wsdS" in the header of the file.
const applicationID = 0x77736453

//go:embed migrations/*.sql
var migrations embed.FS

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
// Errors: those of package sqlitefile.
func Open(ctx context.Context, cfg Config) (*State, error) {
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	narrowed, err := sqlitefile.Prepare(path)
	if err != nil {
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	if narrowed { // the secret that signs URLs is in it
		logger.Info("others could read the relay's state; its mode was changed", "path", path)
	}
	s := &State{path: path}
	// sql.Open only fails for an unknown driver.
	if s.write, err = sql.Open("sqlite", sqlitefile.DSN(path, BusyTimeout, "_txlock=immediate", "_synchronous=NORMAL")); err != nil {
		return nil, fmt.Errorf("open the relay's state: %w", err)
	}
	s.write.SetMaxOpenConns(1)
	if err := migrate(ctx, s.write); err != nil {
		s.write.Close()
		return nil, s.explain("open", err)
	}
	if s.read, err = sql.Open("sqlite", sqlitefile.DSN(path, BusyTimeout, "_query_only=1")); err != nil {
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

// migrate brings the schema of a file up to date.
func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := iofs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	f := sqlitefile.Format{ApplicationID: applicationID, Migrations: dir}
	return f.Migrate(ctx, db)
}

// explain says which file an error is about, and what it means where that is known.
func (s *State) explain(doing string, err error) error {
	err = sqlitefile.Explain(doing, "the relay's state "+s.path, err)
	if errors.Is(err, sqlitefile.ErrDamaged) {
		return fmt.Errorf("%w; without it executors register anew by themselves, and tokens must be made again", err)
	}
	return err
}
