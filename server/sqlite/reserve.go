package sqlite

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
)

// reserveBytes is the size of the file beside the database that is removed when the disk is
// full: to open a store, and to delete from it, takes some room.
const reserveBytes = 4 << 20

// Files are the database of a path and all that may stand beside it.
func Files(path string) []string {
	var list []string
	for _, suffix := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
		list = append(list, path+suffix)
	}
	return append(list, reservePath(path))
}

// ObjectsPath is the directory of content that stands beside the database of a path (package
// objects).
func ObjectsPath(path string) string { return path + ".objects" }

// spareReserves is how many times the reserve must be free for it to be made.
const spareReserves = 4

// tightPages is how long the log may become, in pages, while the reserve is in use, and how
// many pages Shrink gives back at a time.
const tightPages = 32

func reservePath(path string) string { return path + ".reserve" }

// KeepReserve makes the reserve, unless there is one or the disk has no room to spare. What
// is left of one that was used is kept, as much as there is room for.
func (db *DB) KeepReserve() {
	if !db.reserves {
		return
	}
	db.reserving.Lock()
	defer db.reserving.Unlock()
	name := reservePath(db.path)
	if info, err := os.Lstat(name); err == nil && info.Size() == reserveBytes {
		db.tight.Store(false)
		return
	}
	_, free := Room(filepath.Dir(db.path))
	least := int64(reserveBytes)
	if free < spareReserves*reserveBytes {
		if !db.Tight() {
			return
		}
		least = reserveBytes / 8
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	size := int64(reserveBytes)
	for err = allocate(f, size); err != nil && size > least; err = allocate(f, size) {
		size /= 2
	}
	if closed := f.Close(); err != nil || closed != nil {
		_ = os.Remove(name)
		return
	}
	db.tight.Store(size < reserveBytes)
}

// UseReserve removes the reserve, and has little written at a time from then on, until
// KeepReserve has made a whole one again. It is false when there was none.
func (db *DB) UseReserve() bool {
	db.reserving.Lock()
	defer db.reserving.Unlock()
	if os.Remove(reservePath(db.path)) != nil {
		return false
	}
	db.tight.Store(true)
	return true
}

// mayGrow refuses content and output while the room that the reserve left is in use: it is
// for making the store smaller.
func (db *DB) mayGrow() error {
	if !db.Tight() {
		return nil
	}
	db.KeepReserve()
	if db.Tight() {
		return fmt.Errorf("%w: what is left of it is for collecting garbage", sqlitefile.ErrFull)
	}
	return nil
}

// Tight reports whether there is little room: what is written at a time should be little.
func (db *DB) Tight() bool { return db.tight.Load() }

// Room is the size of a directory's file system and what is free of it, 0 if it does not say.
func Room(dir string) (size, free int64) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0
	}
	const most = 1 << 62
	block := int64(s.Bsize)                                                 //nolint:gosec,unconvert,nolintlint // of some other type on some systems
	if block <= 0 || int64(s.Blocks) <= 0 || int64(s.Blocks) > most/block { //nolint:gosec // not that large
		return 0, 0
	}
	return int64(s.Blocks) * block, max(int64(s.Bavail), 0) * block //nolint:gosec,unconvert,nolintlint // signed on some systems
}
