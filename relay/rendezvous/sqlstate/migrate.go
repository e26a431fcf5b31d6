package sqlstate

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	iofs "io/fs"
	"strconv"
	"strings"
)

// applicationID is written into the header of the file ("wsdS"), so that the database
// of another program is not taken for ours.
const applicationID = 0x77736453

// The steps of the schema, in the order of their names. The number of the last one
// that was taken is in the file's user_version. A step is never changed once it is
// released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// A step is one migration.
type step struct {
	number int
	sql    string
}

// steps returns the migrations in their order, which is 1, 2, 3 and so on.
func steps(dir iofs.FS) ([]step, error) {
	names, err := iofs.Glob(dir, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]step, 0, len(names))
	for i, name := range names {
		digits, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != i+1 {
			return nil, fmt.Errorf("%s is not number %d of the migrations", name, i+1)
		}
		text, err := iofs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		list = append(list, step{number, string(text)})
	}
	return list, nil
}

// prepareSchema switches the file to WAL and takes the steps that it lacks, each in a
// transaction of its own. Several processes may do so at once: each looks again at
// the version once it holds the write lock.
func prepareSchema(ctx context.Context, db *sql.DB) error {
	list, err := steps(migrations)
	if err != nil {
		return err
	}
	version, err := currentVersion(ctx, db)
	if err != nil {
		return err
	}
	if version > len(list) {
		return fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, version, len(list))
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file system does not allow a write-ahead log (journal mode is %q); use a local disk", mode)
	}
	for _, s := range list[version:] {
		if err := s.take(ctx, db); err != nil {
			return fmt.Errorf("migration %d: %w", s.number, err)
		}
	}
	return nil
}

// take takes the step unless somebody else just did.
func (s step) take(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // After a commit it has nothing to do.
	version, err := schemaVersion(ctx, tx)
	if err != nil {
		return err
	}
	if version >= s.number {
		return nil
	}
	// A pragma takes no parameters; these are numbers of ours.
	for _, text := range []string{
		s.sql,
		"PRAGMA user_version = " + strconv.Itoa(s.number),
		"PRAGMA application_id = " + strconv.Itoa(applicationID),
	} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// currentVersion is schemaVersion in a transaction of its own: another process may be
// taking a step.
func currentVersion(ctx context.Context, db *sql.DB) (int, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // It has only read.
	return schemaVersion(ctx, tx)
}

// schemaVersion is 0 for an empty file. A file that something else has written is
// refused with ErrForeign.
func schemaVersion(ctx context.Context, q *sql.Tx) (int, error) {
	var id, version, objects int
	err := errors.Join(
		q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id),
		q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
		q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&objects),
	)
	if err != nil {
		return 0, err
	}
	if id != applicationID && (objects > 0 || version != 0 || id != 0) {
		return 0, ErrForeign
	}
	return version, nil
}
