package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// maxBlock is how many bytes of entries a row of disk_block has, unless one entry has more. With names
// and paths of some length such a row does not overflow a page.
const maxBlock = 700

// A diskEntry is a name in a directory, and the stat of it.
type diskEntry struct {
	name string
	stat []byte
}

// A block is the entries of a row of disk_block: of each the number of bytes that its name shares with
// the one before, that of the others, these, and its stat as in a disk.Squeezed.
type block struct {
	first string
	bytes []byte
	last  string
	stats disk.Squeezed
}

func (b *block) add(e *diskEntry) {
	n := 0
	for n < len(e.name) && n < len(b.last) && e.name[n] == b.last[n] {
		n++
	}
	b.bytes = binary.AppendUvarint(b.bytes, uint64(n))
	b.bytes = binary.AppendUvarint(b.bytes, uint64(len(e.name)-n))
	b.bytes = append(b.bytes, e.name[n:]...)
	b.bytes = b.stats.Append(b.bytes, e.stat)
	b.last = e.name
}

// pack makes blocks of entries, the first of which is called first. No block becomes larger than limit
// with its second entry.
func pack(list []diskEntry, first string, limit int) []block {
	all := []block{{first: first}}
	for i := range list {
		b := &all[len(all)-1]
		before := *b
		if b.add(&list[i]); len(b.bytes) > limit && len(before.bytes) > 0 {
			b.bytes = b.bytes[:len(before.bytes)]
			all = append(all, block{first: list[i].name})
			all[len(all)-1].add(&list[i])
		}
	}
	return all
}

var errBlock = fmt.Errorf("%w: a block of the directory's index is cut", tree.ErrDamaged)

// unpack calls fn for the entries of a block.
func unpack(b []byte, fn func(diskEntry) error) error {
	var stats disk.Squeezed
	var name []byte
	for len(b) > 0 {
		same, n := binary.Uvarint(b)
		if n <= 0 || same > uint64(len(name)) {
			return errBlock
		}
		b = b[n:]
		more, n := binary.Uvarint(b)
		if n <= 0 || more > uint64(len(b)-n) {
			return errBlock
		}
		name = append(name[:same], b[n:n+int(more)]...) //nolint:gosec // It is no more than there are bytes.
		stat, rest, err := stats.Next(b[n+int(more):])  //nolint:gosec // So it is.
		if err != nil {
			return err
		}
		if err := fn(diskEntry{string(name), stat}); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// entries are those of a block, in a slice.
func entries(b []byte) ([]diskEntry, error) {
	var list []diskEntry
	err := unpack(b, func(e diskEntry) error {
		list = append(list, e)
		return nil
	})
	return list, err
}

// merge puts entries in the place of those with their names, or between them. Both are in the order of
// their names. It reports whether the last one is a new one.
func merge(old, entries []diskEntry) (all []diskEntry, appended bool) {
	all = make([]diskEntry, 0, len(old)+len(entries))
	for len(old) > 0 && len(entries) > 0 {
		switch {
		case old[0].name < entries[0].name:
			all, old = append(all, old[0]), old[1:]
			continue
		case old[0].name == entries[0].name:
			old = old[1:]
		}
		all, entries = append(all, entries[0]), entries[1:]
	}
	return append(append(all, old...), entries...), len(entries) > 0
}

// oldPage is how many rows of disk_entry are read at once.
const oldPage = 1000

// toBlocks is migration 0010: it has the entries of disk_dir and disk_entry in blocks, and drops the two.
func toBlocks(ctx context.Context, tx *sql.Tx) error {
	put, err := tx.PrepareContext(ctx, "INSERT INTO disk_block (root, dir, first, entries) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	defer put.Close()
	dirs, err := tx.QueryContext(ctx, "SELECT id, root, path FROM disk_dir ORDER BY root, path")
	if err != nil {
		return err
	}
	defer dirs.Close()
	read, err := tx.PrepareContext(ctx, "SELECT name, stat FROM disk_entry WHERE dir = ? AND name >= ? ORDER BY name LIMIT ?")
	if err != nil {
		return err
	}
	defer read.Close()
	for dirs.Next() {
		var id, root int64
		var dir string
		if err := dirs.Scan(&id, &root, &dir); err != nil {
			return err
		}
		for from, first := "", ""; ; {
			list, err := oldEntries(ctx, read, id, from)
			if err != nil {
				return err
			}
			if len(list) == 0 {
				break
			}
			full := len(list) == oldPage
			blocks := pack(list, first, maxBlock)
			if full { // the last block goes on with what comes next
				last := &blocks[len(blocks)-1]
				from, first = last.first, last.first
				blocks = blocks[:len(blocks)-1]
			}
			for i := range blocks {
				if _, err := put.ExecContext(ctx, root, dir, blocks[i].first, blocks[i].bytes); err != nil {
					return err
				}
			}
			if !full {
				break
			}
		}
	}
	if err := errors.Join(dirs.Err(), dirs.Close()); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DROP TABLE disk_entry; DROP TABLE disk_dir")
	return err
}

// oldEntries are entries of a directory of disk_entry, from a name on.
func oldEntries(ctx context.Context, read *sql.Stmt, dir int64, from string) ([]diskEntry, error) {
	rows, err := read.QueryContext(ctx, dir, from, oldPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []diskEntry
	for rows.Next() {
		var e diskEntry
		if err := rows.Scan(&e.name, &e.stat); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, rows.Err()
}
