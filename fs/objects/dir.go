package objects

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// A Place is where content begins.
type Place struct {
	File   int64 // the number of the object file, from 1
	Offset int64 // in bytes
}

// A Dir is an open directory of object files. It is safe for concurrent use. Errors name
// the file; those of the system are wrapped as they are: a full disk is unix.ENOSPC, and
// calls after Close return io/fs.ErrClosed.
//
// Locks are taken in this order: output.mu, then life, then mu.
type Dir struct {
	path   string
	fd     int
	made   bool         // by Open
	last   atomic.Int64 // the last number that was given
	pwrite func(fd int, p []byte, offset int64) (int, error)

	life   sync.RWMutex // held for reading while fd is used, for writing by Close
	closed bool

	pack     output
	packSize int64 // bytes after which a pack is full

	mu   sync.Mutex
	open map[int64]*output // by the file that it appends to
	// unsynced is a number that no file written since the last Sync is below.
	unsynced int64

	syncMu sync.Mutex // held while files are synced one by one
}

// Open opens the directory at path, and makes it (0700) when it is not there; the
// directory above it has to be there. Open refuses a symbolic link, and a directory that
// other users may write to. It closes the directory to other users' eyes.
func Open(path string) (*Dir, error) {
	path = filepath.Clean(path)
	made := dirfd.Retry(func() error { return unix.Mkdir(path, 0o700) })
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return nil, &iofs.PathError{Op: "make the objects directory", Path: path, Err: made}
	}
	fd, err := openAt(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		if info, e := os.Lstat(path); e == nil && info.Mode().Type() == iofs.ModeSymlink {
			return nil, fmt.Errorf("objects directory %s is a symbolic link: put a directory in its place: %w", path, err)
		}
		return nil, &iofs.PathError{Op: "open the objects directory", Path: path, Err: err}
	}
	d := &Dir{path: path, fd: fd, made: made == nil, pwrite: unix.Pwrite, packSize: packSize, pack: output{mode: 0o600}, open: map[int64]*output{}, unsynced: math.MaxInt64}
	if err = d.guard(); err == nil {
		err = d.count()
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return d, nil
}

// guard refuses a directory that another user, other than root, may write to.
func (d *Dir) guard() error {
	st, err := dirfd.Stat(d.fd)
	if err != nil {
		return &iofs.PathError{Op: "stat", Path: d.path, Err: err}
	}
	if st.Mode&0o022 != 0 {
		return fmt.Errorf("objects directory %s may be written to by others: remove that right (chmod go-w): %w", d.path, iofs.ErrPermission)
	}
	if user := os.Geteuid(); user != 0 && st.Uid != 0 && int(st.Uid) != user {
		return fmt.Errorf("objects directory %s belongs to another user (%d): change its owner: %w", d.path, st.Uid, iofs.ErrPermission)
	}
	if st.Mode&0o055 != 0 {
		// A file that is adopted can be readable by all. Some file systems have no modes.
		_ = dirfd.Retry(func() error { return unix.Fchmod(d.fd, uint32(st.Mode)&0o700) })
	}
	return nil
}

// count finds a number that no file ever had one above: the clock is ahead of the numbers
// that files had before.
func (d *Dir) count() error {
	files, err := d.list()
	if err != nil {
		return err
	}
	last := time.Now().UnixMicro() - 1
	if n := len(files); n > 0 {
		last = max(last, files[n-1])
	}
	d.last.Store(last)
	return nil
}

// Close closes the directory and the pack. Each Writer is to be closed by itself. A second
// Close does nothing.
func (d *Dir) Close() error {
	d.pack.mu.Lock()
	defer d.pack.mu.Unlock()
	err := d.end(&d.pack)
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	return errors.Join(err, unix.Close(d.fd))
}

// Made reports whether Open made the directory, since there was none.
func (d *Dir) Made() bool { return d.made }

// Path returns the path that was given to Open.
func (d *Dir) Path() string { return d.path }

// use keeps the directory open until done, or returns io/fs.ErrClosed.
func (d *Dir) use() error {
	d.life.RLock()
	if d.closed {
		d.life.RUnlock()
		return &iofs.PathError{Op: "use", Path: d.path, Err: iofs.ErrClosed}
	}
	return nil
}

func (d *Dir) done() { d.life.RUnlock() }

// nameOf is the name of an object file. For what is no number it is empty, and no file has
// that name.
func nameOf(file int64) string {
	if file < 1 {
		return ""
	}
	return fmt.Sprintf("%016x", file)
}

// numberOf is the number in the name of an object file; 0 is a stranger.
func numberOf(name string) int64 {
	file, err := strconv.ParseInt(name, 16, 64)
	if err != nil || file < 1 || nameOf(file) != name {
		return 0
	}
	return file
}

func (d *Dir) errorOf(op string, file int64, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: filepath.Join(d.path, nameOf(file)), Err: err}
}

// number returns a number that was never used.
func (d *Dir) number() (int64, error) {
	for last := d.last.Load(); last < math.MaxInt64; last = d.last.Load() {
		if d.last.CompareAndSwap(last, last+1) {
			return last + 1, nil
		}
	}
	return 0, fmt.Errorf("objects directory %s has used the last number: move the file with the greatest name away and start again", d.path)
}

// list returns the numbers of the files in ascending order.
func (d *Dir) list() ([]int64, error) {
	if err := d.use(); err != nil {
		return nil, err
	}
	fd, err := openAt(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	d.done()
	if err != nil {
		return nil, &iofs.PathError{Op: "list", Path: d.path, Err: err}
	}
	dir := os.NewFile(uintptr(fd), d.path)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	files := make([]int64, 0, len(names))
	for _, name := range names {
		if file := numberOf(name); file != 0 {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	return files, nil
}

// stat looks at an object file.
func (d *Dir) stat(file int64) (st unix.Stat_t, err error) {
	if err := d.use(); err != nil {
		return st, err
	}
	defer d.done()
	st, err = dirfd.StatAt(d.fd, nameOf(file), unix.AT_SYMLINK_NOFOLLOW)
	return st, d.errorOf("stat", file, err)
}

// Has reports whether an object file is there and has size bytes at least.
func (d *Dir) Has(file, size int64) (bool, error) {
	st, err := d.stat(file)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Size >= size, err
}

// Each calls fn with each object file and its size in bytes, in ascending order of their
// numbers, until fn returns an error, which Each returns. fn may call the Dir. Each
// includes the files that are being written; those that come or go meanwhile it may miss.
func (d *Dir) Each(fn func(file, size int64) error) error {
	files, err := d.list()
	if err != nil {
		return err
	}
	for _, file := range files {
		st, err := d.stat(file)
		if errors.Is(err, iofs.ErrNotExist) || err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if err == nil {
			err = fn(file, st.Size)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove removes an object file. It is no error when there is none. A Writer that has the
// file open goes on in a new one, and so does Pack.
func (d *Dir) Remove(file int64) error {
	err := d.release(file, func(int64) error { return nil })
	return errors.Join(err, d.unlink(file))
}

func (d *Dir) unlink(file int64) error {
	if err := d.use(); err != nil {
		return err
	}
	defer d.done()
	err := dirfd.Retry(func() error { return unix.Unlinkat(d.fd, nameOf(file), 0) })
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return d.errorOf("remove", file, err)
}
