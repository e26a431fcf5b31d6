package sqlstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

var _ rendezvous.State = (*State)(nil)

// durable says which buckets are on disk before a write returns; see the package's
// comment for the reason.
var durable = map[rendezvous.Bucket]bool{
	rendezvous.BucketTokens:  true,
	rendezvous.BucketSecrets: true,
}

// Get returns an entry, or rendezvous.ErrNotFound.
func (s *State) Get(ctx context.Context, bucket rendezvous.Bucket, key string) (rendezvous.Entry, error) {
	e := rendezvous.Entry{Key: key}
	err := s.read.QueryRowContext(ctx, "SELECT value, revision FROM entries WHERE bucket = ? AND key = ?", string(bucket), key).
		Scan(&e.Value, &e.Revision)
	if errors.Is(err, sql.ErrNoRows) {
		return rendezvous.Entry{}, fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrNotFound)
	}
	if err != nil {
		return rendezvous.Entry{}, s.explain("read", err)
	}
	return e, nil
}

// List returns the entries of a bucket by their keys' order, as they were at one moment.
func (s *State) List(ctx context.Context, bucket rendezvous.Bucket) ([]rendezvous.Entry, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT key, value, revision FROM entries WHERE bucket = ? ORDER BY key", string(bucket))
	if err != nil {
		return nil, s.explain("read", err)
	}
	defer rows.Close()
	var list []rendezvous.Entry
	for rows.Next() {
		var e rendezvous.Entry
		if err := rows.Scan(&e.Key, &e.Value, &e.Revision); err != nil {
			return nil, s.explain("read", err)
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain("read", err)
	}
	return list, nil
}

// Put writes an entry and returns its new revision. revision is the one that the entry
// must have, 0 when there must be none, or rendezvous.AnyRevision; otherwise
// rendezvous.ErrConflict.
func (s *State) Put(ctx context.Context, bucket rendezvous.Bucket, key string, value []byte, revision uint64) (uint64, error) {
	if value == nil {
		value = []byte{} // nil would be NULL
	}
	var given uint64
	err := s.update(ctx, bucket, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "UPDATE revisions SET last = last + 1 RETURNING last").Scan(&given); err != nil {
			return err
		}
		var done sql.Result
		var err error
		switch revision {
		case rendezvous.AnyRevision:
			_, err = tx.ExecContext(ctx, `INSERT INTO entries (bucket, key, value, revision) VALUES (?, ?, ?, ?)
				ON CONFLICT (bucket, key) DO UPDATE SET value = excluded.value, revision = excluded.revision`,
				string(bucket), key, value, given)
			return err
		case 0:
			done, err = tx.ExecContext(ctx, `INSERT INTO entries (bucket, key, value, revision) VALUES (?, ?, ?, ?)
				ON CONFLICT (bucket, key) DO NOTHING`, string(bucket), key, value, given)
		default:
			done, err = tx.ExecContext(ctx, "UPDATE entries SET value = ?, revision = ? WHERE bucket = ? AND key = ? AND revision = ?",
				value, given, string(bucket), key, int64(revision))
		}
		return one(done, err, bucket, key)
	})
	if err != nil {
		return 0, err
	}
	return given, nil
}

// Delete removes an entry that has the revision, or whatever it has with
// rendezvous.AnyRevision. Of several that delete one revision a single one succeeds; the
// others get rendezvous.ErrConflict or rendezvous.ErrNotFound.
func (s *State) Delete(ctx context.Context, bucket rendezvous.Bucket, key string, revision uint64) error {
	return s.update(ctx, bucket, func(tx *sql.Tx) error {
		var has uint64
		err := tx.QueryRowContext(ctx, "SELECT revision FROM entries WHERE bucket = ? AND key = ?", string(bucket), key).Scan(&has)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrNotFound)
		case err != nil:
			return err
		case revision != rendezvous.AnyRevision && revision != has:
			return fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrConflict)
		}
		// The transaction has the write lock since it began: nothing comes in between.
		_, err = tx.ExecContext(ctx, "DELETE FROM entries WHERE bucket = ? AND key = ?", string(bucket), key)
		return err
	})
}

// one returns ErrConflict when a statement changed nothing.
func one(done sql.Result, err error, bucket rendezvous.Bucket, key string) error {
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrConflict)
}

// update runs change in a transaction that holds the write lock, as durable as the
// bucket wants it.
func (s *State) update(ctx context.Context, bucket rendezvous.Bucket, change func(*sql.Tx) error) error {
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return s.explain("write", err)
	}
	defer conn.Close() // gives it back
	level := "NORMAL"
	if durable[bucket] {
		level = "FULL"
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA synchronous = "+level); err != nil {
		return s.explain("write", err)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return s.explain("write", err)
	}
	defer tx.Rollback() //nolint:errcheck // After a commit it has nothing to do.
	err = change(tx)
	if errors.Is(err, rendezvous.ErrConflict) || errors.Is(err, rendezvous.ErrNotFound) {
		return err
	}
	if err == nil {
		err = tx.Commit()
	}
	return s.explain("write", err)
}
