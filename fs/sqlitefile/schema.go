package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	iofs "io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// A Format is a kind of file: how it is told from others, and its schema.
type Format struct {
	// ApplicationID is in the header of the file.
	ApplicationID int32
	// Migrations has files NNNN_name.sql, 1, 2, 3 and so on, at its root. The number of
	// the last one that was taken is in the file's user_version. One that has been
	// released is never changed.
	Migrations iofs.FS
	// Code is what some of the migrations do, by their numbers, that SQL does not say: behind their
	// text, in the same transaction.
	Code map[int]func(context.Context, *sql.Tx) error
	// Fresh are pragmas that matter for a file that is still empty, such as page_size.
	Fresh []string
}

// A step is one migration.
type step struct {
	number int
	sql    string
}

// Steps returns how many migrations there are, or what is wrong with their names.
func (f *Format) Steps() (int, error) {
	list, err := f.steps()
	return len(list), err
}

func (f *Format) steps() ([]step, error) {
	names, err := iofs.Glob(f.Migrations, "*.sql")
	if err != nil {
		return nil, err
	}
	list := make([]step, 0, len(names))
	for i, name := range names {
		digits, _, _ := strings.Cut(path.Base(name), "_")
		number, err := strconv.Atoi(digits)
		if err != nil || number != i+1 {
			return nil, fmt.Errorf("%s is not number %d of the migrations", name, i+1)
		}
		text, err := iofs.ReadFile(f.Migrations, name)
		if err != nil {
			return nil, err
		}
		list = append(list, step{number, string(text)})
	}
	return list, nil
}

// Migrate switches a file to WAL and takes the steps that it lacks, each in a transaction
// of its own, for which db must begin with the write lock (_txlock=immediate). Several
// processes may do so at once: each looks again at the version once it has the lock.
// Errors: ErrNewer, ErrForeign.
func (f *Format) Migrate(ctx context.Context, db *sql.DB) error {
	list, conn, err := f.begin(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	// On a file that is not empty they change nothing, and may want room; after a transaction has
	// begun, nor on one that is.
	var pages int
	if err := conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return err
	}
	if pages == 0 {
		for _, text := range f.Fresh {
			if _, err := conn.ExecContext(ctx, text); err != nil {
				return err
			}
		}
	}
	version, err := f.known(ctx, conn, list)
	if err != nil {
		return err
	}
	if err := toWAL(ctx, conn); err != nil {
		return err
	}
	for _, s := range list[version:] {
		if err := f.take(ctx, conn, s); err != nil {
			return fmt.Errorf("migration %d: %w", s.number, err)
		}
	}
	return nil
}

// begin returns the migrations and a connection, which the caller closes.
func (f *Format) begin(ctx context.Context, db *sql.DB) ([]step, *sql.Conn, error) {
	list, err := f.steps()
	if err != nil {
		return nil, nil, err
	}
	conn, err := db.Conn(ctx)
	return list, conn, err
}

// walRetry is how often it is tried to switch to WAL.
const walRetry = 5 * time.Millisecond

// toWAL switches a file to WAL. The lock that this takes is not one that SQLite waits for
// (https://sqlite.org/c3ref/busy_handler.html), so it is waited for here, as long as for the
// others.
func toWAL(ctx context.Context, conn *sql.Conn) error {
	var busy int64 // milliseconds
	if err := conn.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&busy); err != nil {
		return err
	}
	patience := time.NewTimer(time.Duration(busy) * time.Millisecond)
	defer patience.Stop()
	for {
		var mode string
		err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if err == nil && mode != "wal" {
			return fmt.Errorf("the file system does not allow a write-ahead log (journal mode is %q); use a local disk", mode)
		}
		if !isBusy(err) {
			return err
		}
		select {
		case <-patience.C:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(walRetry):
		}
	}
}

// take takes a step unless somebody else just did.
func (f *Format) take(ctx context.Context, conn *sql.Conn, s step) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // After a commit it has nothing to do.
	version, err := f.version(ctx, tx)
	if err != nil {
		return err
	}
	if version >= s.number {
		return nil
	}
	if _, err := tx.ExecContext(ctx, s.sql); err != nil {
		return err
	}
	if code := f.Code[s.number]; code != nil {
		if err := code(ctx, tx); err != nil {
			return err
		}
	}
	// A pragma takes no parameters; these are numbers of ours.
	for _, text := range []string{
		"PRAGMA user_version = " + strconv.Itoa(s.number),
		"PRAGMA application_id = " + strconv.Itoa(int(f.ApplicationID)),
	} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// current is version in a transaction of its own: another process may be taking a step.
func (f *Format) current(ctx context.Context, conn *sql.Conn) (int, error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // It has only read.
	return f.version(ctx, tx)
}

// Check finds out whether a file is one of the format, of this version or an earlier one. It changes nothing.
// Errors: ErrNewer, ErrForeign.
func (f *Format) Check(ctx context.Context, db *sql.DB) error {
	list, conn, err := f.begin(ctx, db)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = f.known(ctx, conn, list)
	return err
}

// known is the version of a file, which must not be greater than the last of some steps.
func (f *Format) known(ctx context.Context, conn *sql.Conn, list []step) (int, error) {
	version, err := f.current(ctx, conn)
	if err == nil && version > len(list) {
		err = fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, version, len(list))
	}
	return version, err
}

// version is 0 for an empty file. A file that something else has written is refused.
func (f *Format) version(ctx context.Context, q *sql.Tx) (int, error) {
	var id, version, objects int
	err := errors.Join(
		q.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id),
		q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version),
		q.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&objects),
	)
	if err != nil {
		return 0, err
	}
	if id != int(f.ApplicationID) && (objects > 0 || version != 0 || id != 0) {
		return 0, ErrForeign
	}
	return version, nil
}

// IntegrityCheck has SQLite read the whole file. What it finds is an ErrDamaged.
func IntegrityCheck(ctx context.Context, db *sql.DB) error {
	var found []error
	for _, pragma := range []string{"PRAGMA integrity_check", "PRAGMA foreign_key_check"} {
		lines, err := listAll(ctx, db, pragma)
		if err != nil {
			return err
		}
		for _, line := range lines {
			if line != "ok" {
				found = append(found, fmt.Errorf("%s: %s", strings.TrimPrefix(pragma, "PRAGMA "), line))
			}
		}
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: %w", ErrDamaged, errors.Join(found...))
	}
	return nil
}

// listAll returns the first column of a query.
func listAll(ctx context.Context, db *sql.DB, query string) ([]string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var out []string
	for rows.Next() {
		values := make([]any, len(columns))
		first := new(string)
		values[0] = first
		for i := range values[1:] {
			values[i+1] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			return nil, err
		}
		out = append(out, *first)
	}
	return out, rows.Err()
}
