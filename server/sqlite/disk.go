package sqlite

import (
	"database/sql"
	"errors"

	"github.com/wsd-dev/wsd/fs/disk"
)

var _ disk.Rows = (*treeTx)(nil)

func (tx *treeTx) DiskRoot(tree, mount string) (disk.Root, error) {
	r := disk.Root{Tree: tree, Mount: mount}
	err := tx.row("SELECT id, state FROM disk_root WHERE tree = ? AND mount = ?", tree, mount).Scan(&r.ID, &r.State)
	if errors.Is(err, sql.ErrNoRows) {
		return r, nil
	}
	return r, of("directory", err)
}

func (tx *treeTx) PutDiskRoot(r *disk.Root) error {
	if r.ID != 0 {
		return of("directory", tx.exec("UPDATE disk_root SET tree = ?, mount = ?, state = ? WHERE id = ?", r.Tree, r.Mount, r.State, r.ID))
	}
	res, err := tx.execute("INSERT INTO disk_root (tree, mount, state) VALUES (?, ?, ?)", r.Tree, r.Mount, r.State)
	if err != nil {
		return of("directory", err)
	}
	r.ID, err = res.LastInsertId()
	return of("directory", err)
}

func (tx *treeTx) DiskStat(root int64, path string) ([]byte, error) {
	var stat []byte
	err := tx.row("SELECT stat FROM disk_stat WHERE root = ? AND path = ?", root, path).Scan(&stat)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return stat, of("the directory's index", err)
}

func (tx *treeTx) DiskStats(root int64, fn func(string, []byte) error) error {
	var path string
	var stat []byte
	return tx.list("the directory's index", func(s scanner) error {
		if err := s.Scan(&path, &stat); err != nil {
			return of("the directory's index", err)
		}
		return fn(path, stat)
	}, "SELECT path, stat FROM disk_stat WHERE root = ? ORDER BY path", root)
}

var putDiskStats = newBulk(3, "INSERT OR REPLACE INTO disk_stat (root, path, stat)", "")

func (tx *treeTx) PutDiskStats(root int64, rows []disk.Row) error {
	values := make([]any, 0, putDiskStats.columns*len(rows))
	for _, r := range rows {
		values = append(values, root, r.Path, r.Stat)
	}
	return of("the directory's index", putDiskStats.put(tx.c, values))
}

func (tx *treeTx) DeleteDiskStats(root int64, path string) error {
	if path == "" {
		return of("the directory's index", tx.exec("DELETE FROM disk_stat WHERE root = ?", root))
	}
	if err := tx.exec("DELETE FROM disk_stat WHERE root = ? AND path = ?", root, path); err != nil {
		return of("the directory's index", err)
	}
	// '0' is the character behind '/'.
	return of("the directory's index", tx.exec("DELETE FROM disk_stat WHERE root = ? AND path > ? AND path < ?", root, path+"/", path+"0"))
}

func (tx *treeTx) MoveDiskStats(root int64, from, to string) error {
	// Not in one statement: with OR it looks at each row of the root.
	err := tx.exec("UPDATE disk_stat SET path = ? WHERE root = ? AND path = ?", to, root, from)
	if err == nil {
		err = tx.exec("UPDATE disk_stat SET path = ? || substr(path, length(?) + 1) WHERE root = ? AND path > ? AND path < ?",
			to, from, root, from+"/", from+"0")
	}
	return of("the directory's index", err)
}

func (tx *treeTx) DiskJournal(root int64, fn func(int64, []byte) error) error {
	var id int64
	var paths []byte
	return tx.list("the directory's journal", func(s scanner) error {
		if err := s.Scan(&id, &paths); err != nil {
			return of("the directory's journal", err)
		}
		return fn(id, paths)
	}, "SELECT id, paths FROM disk_journal WHERE root = ? ORDER BY id", root)
}

func (tx *treeTx) AddDiskJournal(root int64, paths []byte) error {
	return of("the directory's journal", tx.exec("INSERT INTO disk_journal (root, paths) VALUES (?, ?)", root, paths))
}

func (tx *treeTx) DeleteDiskJournal(root int64, ids []int64) error {
	for _, id := range ids {
		if err := tx.exec("DELETE FROM disk_journal WHERE root = ? AND id = ?", root, id); err != nil {
			return of("the directory's journal", err)
		}
	}
	return nil
}
