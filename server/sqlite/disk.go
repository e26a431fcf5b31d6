package sqlite

import (
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/slashpath"
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

const diskRows = "the directory's index"

// diskBlock finds the block that a name in a directory is in, or would be in, and returns its entries; the
// name that it begins with, and the one that the next block begins with, "" if there is none.
func (tx *treeTx) diskBlock(root int64, dir, name string) (first string, b []byte, next string, err error) {
	n := 0
	err = tx.c.each(func(s scanner) error {
		n++
		if n > 1 {
			return s.Scan(&next, new([]byte))
		}
		return s.Scan(&first, &b)
	}, `SELECT first, entries FROM disk_block WHERE root = ?1 AND dir = ?2 AND first >= coalesce(
		(SELECT max(first) FROM disk_block WHERE root = ?1 AND dir = ?2 AND first <= ?3), '') ORDER BY first LIMIT 2`, root, dir, name)
	if first > name { // there is none yet
		first, b, next = "", nil, first
	}
	return first, b, next, of(diskRows, err)
}

func (tx *treeTx) DiskStat(root int64, path string) ([]byte, error) {
	dir, name := slashpath.Split(path)
	var b, stat []byte
	err := tx.c.row("SELECT entries FROM disk_block WHERE root = ? AND dir = ? AND first <= ? ORDER BY first DESC LIMIT 1", root, dir, name).Scan(&b)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, of(diskRows, err)
	}
	return stat, unpack(b, func(e diskEntry) error {
		if e.name == name {
			stat = e.stat
		}
		return nil
	})
}

func (tx *treeTx) DiskStats(root int64, fn func(string, []byte) error) error {
	var dir string
	var b []byte
	return tx.list(diskRows, func(s scanner) error {
		if err := s.Scan(&dir, &b); err != nil {
			return of(diskRows, err)
		}
		return unpack(b, func(e diskEntry) error {
			path := e.name
			if dir != "" {
				path = dir + "/" + path
			}
			return fn(path, e.stat)
		})
	}, "SELECT dir, entries FROM disk_block WHERE root = ? ORDER BY dir, first", root)
}

var putDiskBlocks = newBulk(4, "INSERT OR REPLACE INTO disk_block (root, dir, first, entries)", "")

func (tx *treeTx) PutDiskStats(root int64, rows []disk.Row) error {
	dirs := map[string][]diskEntry{}
	for _, r := range rows {
		dir, name := slashpath.Split(r.Path)
		dirs[dir] = append(dirs[dir], diskEntry{name, r.Stat})
	}
	var values []any
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		var err error
		if values, err = tx.putDiskStats(root, dir, dirs[dir], values); err != nil {
			return err
		}
	}
	return of(diskRows, putDiskBlocks.put(tx.c, values))
}

// putDiskStats appends the rows of the blocks that some entries of a directory are in.
func (tx *treeTx) putDiskStats(root int64, dir string, list []diskEntry, values []any) ([]any, error) {
	slices.Reverse(list) // of several with a name the last one is meant
	slices.SortStableFunc(list, func(a, b diskEntry) int { return strings.Compare(a.name, b.name) })
	list = slices.CompactFunc(list, func(a, b diskEntry) bool { return a.name == b.name })
	for len(list) > 0 {
		first, b, next, err := tx.diskBlock(root, dir, list[0].name)
		if err != nil {
			return nil, err
		}
		n := len(list)
		if next != "" {
			n, _ = slices.BinarySearchFunc(list, next, func(e diskEntry, name string) int { return strings.Compare(e.name, name) })
		}
		old, err := entries(b)
		if err != nil {
			return nil, err
		}
		all, appended := merge(old, list[:n])
		blocks := pack(all, first, maxBlock)
		if len(blocks) > 1 && !appended { // more may come between them: each has room
			blocks = pack(all, first, maxBlock*2/3)
		}
		for i := range blocks {
			values = append(values, root, dir, blocks[i].first, blocks[i].bytes)
		}
		list = list[n:]
	}
	return values, nil
}

// cutDiskStat removes the row of a path, and returns it: nil when there is none.
func (tx *treeTx) cutDiskStat(root int64, path string) (stat []byte, err error) {
	dir, name := slashpath.Split(path)
	first, b, _, err := tx.diskBlock(root, dir, name)
	if err != nil {
		return nil, err
	}
	list, err := entries(b)
	if err != nil {
		return nil, err
	}
	i, is := slices.BinarySearchFunc(list, name, func(e diskEntry, name string) int { return strings.Compare(e.name, name) })
	if !is {
		return nil, nil
	}
	stat = list[i].stat
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		return stat, of(diskRows, tx.c.exec("DELETE FROM disk_block WHERE root = ? AND dir = ? AND first = ?", root, dir, first))
	}
	var values []any
	for _, b := range pack(list, first, maxBlock) { // a name may share less with the one before it now
		values = append(values, root, dir, b.first, b.bytes)
	}
	return stat, of(diskRows, putDiskBlocks.put(tx.c, values))
}

// belowDisk are the directories of a root that are a path or below it, with four parameters. '0' is the character behind '/'.
const belowDisk = "root = ? AND dir >= ? AND dir < ? || '0' AND (length(dir) = length(?) OR dir > ? || '/')"

func (tx *treeTx) DeleteDiskStats(root int64, path string) error {
	if path == "" {
		return of(diskRows, tx.exec("DELETE FROM disk_block WHERE root = ?", root))
	}
	if _, err := tx.cutDiskStat(root, path); err != nil {
		return err
	}
	return of(diskRows, tx.c.exec("DELETE FROM disk_block WHERE "+belowDisk, root, path, path, path, path))
}

func (tx *treeTx) MoveDiskStats(root int64, from, to string) error {
	stat, err := tx.cutDiskStat(root, from)
	if err == nil && stat != nil {
		err = tx.PutDiskStats(root, []disk.Row{{Path: to, Stat: stat}})
	}
	if err == nil {
		err = tx.c.exec("UPDATE disk_block SET dir = ? || substr(dir, length(?) + 1) WHERE "+belowDisk, to, from, root, from, from, from, from)
	}
	return of(diskRows, err)
}

func (tx *treeTx) DiskJournal(root, after int64, fn func(int64, []byte) error) error {
	var id int64
	var paths []byte
	return tx.list("the directory's journal", func(s scanner) error {
		if err := s.Scan(&id, &paths); err != nil {
			return of("the directory's journal", err)
		}
		return fn(id, paths)
	}, "SELECT id, paths FROM disk_journal WHERE root = ? AND id > ? ORDER BY id", root, after)
}

func (tx *treeTx) LastDiskJournal(root int64) (id int64, err error) {
	err = tx.list("the directory's journal", func(s scanner) error {
		return of("the directory's journal", s.Scan(&id))
	}, "SELECT coalesce(max(id), 0) FROM disk_journal WHERE root = ?", root)
	return id, err
}

func (tx *treeTx) AddDiskJournal(root int64, paths []byte) (id int64, err error) {
	err = tx.row("INSERT INTO disk_journal (root, paths) VALUES (?, ?) RETURNING id", root, paths).Scan(&id)
	return id, of("the directory's journal", err)
}

func (tx *treeTx) DeleteDiskJournal(root int64, ids []int64) error {
	for _, id := range ids {
		if err := tx.exec("DELETE FROM disk_journal WHERE root = ? AND id = ?", root, id); err != nil {
			return of("the directory's journal", err)
		}
	}
	return nil
}
