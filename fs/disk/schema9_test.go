package disk_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// toSchema9 makes the closed store one of before migration 0010, and returns it open past us.
func (b *bench) toSchema9(t *testing.T) *sql.DB {
	t.Helper()
	ctx := context.Background()
	var files []tree.Node
	var stats []disk.Row
	b.openStore()
	err := b.db.Tree().View(ctx, func(tx tree.Tx) error {
		rows, _ := tx.(disk.Rows)
		root, err := rows.DiskRoot(tree.DefaultName, "/workspace")
		return errors.Join(err,
			tx.EachNode(func(n tree.Node) error { files = append(files, n); return nil }),
			rows.DiskStats(root.ID, func(path string, stat []byte) error {
				stats = append(stats, disk.Row{Path: path, Stat: append([]byte(nil), stat...)})
				return nil
			}))
	})
	b.must(err)
	b.closeStore()
	db, err := sql.Open("sqlite", b.store)
	b.must(err)
	exec := func(text string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	exec(`DROP TABLE log; ALTER TABLE log_event RENAME TO run_event; DELETE FROM meta WHERE k IN ('last_log', 'last_end');
		CREATE TABLE run (run INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, started_ms INTEGER NOT NULL, evicted INTEGER NOT NULL DEFAULT 0, exited_ms INTEGER, code INTEGER,
			last INTEGER, bytes INTEGER NOT NULL DEFAULT 0, command TEXT NOT NULL DEFAULT '', cwd TEXT NOT NULL DEFAULT '') STRICT;
		CREATE TABLE process_log (log INTEGER PRIMARY KEY, process_id TEXT NOT NULL, session_id TEXT NOT NULL, pid INTEGER NOT NULL, argv TEXT NOT NULL, cwd TEXT NOT NULL,
			tty INTEGER NOT NULL, sandbox TEXT NOT NULL, started_ms INTEGER NOT NULL, next INTEGER NOT NULL, exit TEXT, ended_ms INTEGER, bytes INTEGER NOT NULL DEFAULT 0) STRICT;
		CREATE TABLE process_output (key INTEGER PRIMARY KEY, stream TEXT NOT NULL, data BLOB NOT NULL) STRICT`)
	exec("DROP INDEX name_rev; DROP INDEX node_rev; DROP INDEX node_only; DROP INDEX part_hash")
	exec("INSERT INTO part SELECT ino, 0, only, size FROM node WHERE only IS NOT NULL")
	for i := range files {
		if files[i].Kind == tree.KindFile {
			exec("UPDATE node SET manifest = ? WHERE ino = ?", files[i].Manifest[:], files[i].Ino)
		}
	}
	exec("UPDATE node SET rev = rev + (SELECT base FROM ns WHERE id = node.ns)")
	exec("UPDATE name SET rev = (rev >> 1) + (SELECT base FROM ns WHERE id = name.ns)")
	exec("ALTER TABLE node DROP COLUMN only; ALTER TABLE ns DROP COLUMN base")
	exec("CREATE INDEX name_rev ON name (ns, rev); CREATE INDEX node_rev ON node (ns, rev); CREATE INDEX part_hash ON part (substr(hash, 1, 8))")
	exec(`CREATE TABLE disk_dir (id INTEGER PRIMARY KEY, root INTEGER NOT NULL REFERENCES disk_root (id), path TEXT NOT NULL, UNIQUE (root, path)) STRICT;
		CREATE TABLE disk_entry (dir INTEGER NOT NULL, name TEXT NOT NULL, stat BLOB NOT NULL, PRIMARY KEY (dir, name)) STRICT, WITHOUT ROWID`)
	for _, r := range stats {
		dir, name := "", r.Path
		for i := range r.Path {
			if r.Path[i] == '/' {
				dir, name = r.Path[:i], r.Path[i+1:]
			}
		}
		exec("INSERT OR IGNORE INTO disk_dir (root, path) SELECT id, ? FROM disk_root", dir)
		exec("INSERT INTO disk_entry SELECT id, ?, ? FROM disk_dir WHERE path = ?", name, r.Stat, dir)
	}
	exec("DROP TABLE disk_block")
	return db
}
