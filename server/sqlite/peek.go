package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// PeekPeer reads what a tree knows of a peer from a database that is there, and changes nothing but the index of the
// log, which SQLite makes where a process that was killed has left a log: the database is not brought up to date, and
// may be open in another process. A peer that is not known is the zero Peer.
// Errors: [InUseError] when the other process keeps even readers out, and those of package sqlitefile.
func PeekPeer(ctx context.Context, path, name, id string) (p tree.Peer, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return p, fmt.Errorf("look into the workspace's store: %w", err)
	}
	alone, release, err := holdStill(path)
	if err == nil {
		p, err = peekPeer(ctx, path, name, id, alone)
		release()
	}
	if errors.Is(err, sqlitefile.ErrBusy) {
		err = &InUseError{Path: path}
	}
	return p, err
}

func peekPeer(ctx context.Context, path, name, id string, alone bool) (p tree.Peer, err error) {
	explain := func(err error) error { return sqlitefile.Explain("look into", "the workspace's store "+path, err) }
	options := []string{"mode=ro"}
	if log, err := os.Stat(path + "-wal"); alone && (errors.Is(err, iofs.ErrNotExist) || err == nil && log.Size() == 0) {
		options = append(options, "immutable=1") // else SQLite makes the index of the log
	}
	pool, err := sql.Open("sqlite", sqlitefile.DSN(path, busyTimeout, options...))
	if err != nil {
		return p, explain(err)
	}
	defer pool.Close()
	f, err := format()
	if err != nil {
		return p, err
	}
	if err := f.Check(ctx, pool); err != nil {
		return p, explain(err)
	}
	p, err = scanPeer(pool.QueryRowContext(ctx, "SELECT "+peerColumns+" FROM peer WHERE ns = (SELECT id FROM ns WHERE name = ?) AND id = ?", name, id))
	if errors.Is(err, sql.ErrNoRows) {
		return tree.Peer{}, nil
	}
	return p, explain(err)
}

// holdStill keeps other processes from opening a database until release is called. alone is false if one has
// it open. A database without a lock is of nobody: to open it makes one.
func holdStill(path string) (alone bool, release func(), err error) {
	file, err := os.Open(path + ".lock")
	if errors.Is(err, iofs.ErrNotExist) {
		return true, func() {}, nil
	}
	if err != nil {
		return false, nil, fmt.Errorf("look into the workspace's store: %w", err)
	}
	if alone, err = shareLock(file); err != nil {
		file.Close()
		return false, nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return alone, func() { file.Close() }, nil
}
