package sqlite

import (
	"database/sql"
	"errors"
	"strings"

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

const diskRows = "the directory's index"

// A diskDir is a directory of a root.
type diskDir struct {
	root int64
	path string
}

// split returns the directory that a path is in, and its name there.
func split(path string) (dir, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// maxDiskDirs bounds the directories that a transaction knows without looking.
const maxDiskDirs = 10_000

// diskDir returns the number of a directory, which it makes if there is none: 0 without making.
func (tx *treeTx) diskDir(root int64, path string, make bool) (int64, error) {
	key := diskDir{root, path}
	if id, known := tx.dirs[key]; known {
		return id, nil
	}
	var id int64
	err := tx.c.row("SELECT id FROM disk_dir WHERE root = ? AND path = ?", root, path).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		if !make {
			return 0, nil
		}
		err = tx.c.row("INSERT INTO disk_dir (root, path) VALUES (?, ?) RETURNING id", root, path).Scan(&id)
	}
	if err != nil {
		return 0, of(diskRows, err)
	}
	if tx.dirs == nil || len(tx.dirs) >= maxDiskDirs {
		tx.dirs = map[diskDir]int64{}
	}
	tx.dirs[key] = id
	return id, nil
}

func (tx *treeTx) DiskStat(root int64, path string) ([]byte, error) {
	dir, name := split(path)
	var stat []byte
	err := tx.c.row("SELECT e.stat FROM disk_dir d CROSS JOIN disk_entry e ON e.dir = d.id WHERE d.root = ? AND d.path = ? AND e.name = ?",
		root, dir, name).Scan(&stat)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return stat, of(diskRows, err)
}

func (tx *treeTx) DiskStats(root int64, fn func(string, []byte) error) error {
	var dir, name string
	var stat []byte
	return tx.list(diskRows, func(s scanner) error {
		if err := s.Scan(&dir, &name, &stat); err != nil {
			return of(diskRows, err)
		}
		path := name
		if dir != "" {
			path = dir + "/" + name
		}
		return fn(path, stat)
	}, "SELECT d.path, e.name, e.stat FROM disk_dir d CROSS JOIN disk_entry e ON e.dir = d.id WHERE d.root = ? ORDER BY d.path, e.name", root)
}

var putDiskStats = newBulk(3, "INSERT OR REPLACE INTO disk_entry (dir, name, stat)", "")

func (tx *treeTx) PutDiskStats(root int64, rows []disk.Row) error {
	values := make([]any, 0, putDiskStats.columns*len(rows))
	for _, r := range rows {
		dir, name := split(r.Path)
		id, err := tx.diskDir(root, dir, true)
		if err != nil {
			return err
		}
		values = append(values, id, name, r.Stat)
	}
	return of(diskRows, putDiskStats.put(tx.c, values))
}

// belowDisk are the directories of a root that are a path or below it, with four parameters. '0' is the character behind '/'.
const belowDisk = "root = ? AND path >= ? AND path < ? || '0' AND (length(path) = length(?) OR path > ? || '/')"

func (tx *treeTx) DeleteDiskStats(root int64, path string) error {
	if path == "" {
		clear(tx.dirs)
		err := tx.exec("DELETE FROM disk_entry WHERE dir IN (SELECT id FROM disk_dir WHERE root = ?)", root)
		return of(diskRows, errors.Join(err, tx.exec("DELETE FROM disk_dir WHERE root = ?", root)))
	}
	dir, name := split(path)
	id, err := tx.diskDir(root, dir, false)
	if err != nil {
		return err
	}
	if err := tx.c.exec("DELETE FROM disk_entry WHERE dir = ? AND name = ?", id, name); err != nil {
		return of(diskRows, err)
	}
	var is bool // of a file there is none
	err = tx.c.row("SELECT EXISTS (SELECT 1 FROM disk_dir WHERE root = ? AND path >= ? AND path < ? || '0')", root, path, path).Scan(&is)
	if err != nil || !is {
		return of(diskRows, err)
	}
	clear(tx.dirs)
	err = tx.c.exec("DELETE FROM disk_entry WHERE dir IN (SELECT id FROM disk_dir WHERE "+belowDisk+")", root, path, path, path, path)
	if err == nil {
		err = tx.c.exec("DELETE FROM disk_dir WHERE "+belowDisk, root, path, path, path, path)
	}
	return of(diskRows, err)
}

func (tx *treeTx) MoveDiskStats(root int64, from, to string) error {
	fromDir, fromName := split(from)
	toDir, toName := split(to)
	old, err := tx.diskDir(root, fromDir, false)
	if err != nil {
		return err
	}
	into, err := tx.diskDir(root, toDir, true)
	if err == nil {
		err = tx.c.exec("UPDATE disk_entry SET dir = ?, name = ? WHERE dir = ? AND name = ?", into, toName, old, fromName)
	}
	clear(tx.dirs)
	if err == nil { // directories that have nothing in them any more may be there
		err = tx.c.exec("DELETE FROM disk_dir WHERE "+belowDisk+" AND NOT EXISTS (SELECT 1 FROM disk_entry WHERE dir = id)", root, to, to, to, to)
	}
	if err == nil {
		err = tx.c.exec("UPDATE disk_dir SET path = ? || substr(path, length(?) + 1) WHERE "+belowDisk, to, from, root, from, from, from, from)
	}
	return of(diskRows, err)
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
