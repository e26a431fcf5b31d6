package objects

import (
	"errors"
	iofs "io/fs"
	"math"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Sync returns when all that was written before is on the disk.
func (d *Dir) Sync() error {
	if err := d.use(); err != nil {
		return err
	}
	err := syncAll(d.fd)
	d.done()
	if errors.Is(err, errors.ErrUnsupported) {
		return d.syncFiles()
	}
	if err != nil {
		return &iofs.PathError{Op: "sync", Path: d.path, Err: err}
	}
	return nil
}

// written records that a file has bytes that a Sync must bring to the disk.
func (d *Dir) written(file int64) {
	d.mu.Lock()
	d.unsynced = min(d.unsynced, file)
	d.mu.Unlock()
}

// syncFiles is Sync where the system cannot sync a whole file system. Numbers ascend: the
// files from the lowest number that was written to since the last call are synced.
func (d *Dir) syncFiles() (err error) {
	d.syncMu.Lock()
	defer d.syncMu.Unlock()
	d.mu.Lock()
	first := d.unsynced
	d.unsynced = math.MaxInt64
	d.mu.Unlock()
	defer func() {
		if err != nil {
			d.written(first)
		}
	}()
	files, err := d.list()
	if err != nil {
		return err
	}
	at, _ := slices.BinarySearch(files, first)
	for _, file := range files[at:] {
		fd, err := d.Handle(file)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = syncFile(fd, d.path)
		}
		if err != nil {
			return d.errorOf("sync", file, err)
		}
	}
	if err := d.use(); err != nil {
		return err
	}
	defer d.done()
	fd, err := openAt(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = syncFile(fd, d.path)
	}
	if err != nil {
		return &iofs.PathError{Op: "sync", Path: d.path, Err: err}
	}
	return nil
}

// syncFile syncs what is open, in the way that the system has for it, and closes it.
func syncFile(fd int, path string) error {
	f := os.NewFile(uintptr(fd), path)
	return errors.Join(f.Sync(), f.Close())
}
