package objects

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// Adopt moves the file called name in an open directory here, and returns its number. The
// file itself is not changed. Adopt fails with unix.EXDEV when the directory is on another
// file system, and with io/fs.ErrInvalid when name is not a regular file; nothing is moved
// then.
func (d *Dir) Adopt(dir int, name string) (int64, error) {
	if err := d.use(); err != nil {
		return 0, err
	}
	defer d.done()
	for {
		file, err := d.number()
		if err != nil {
			return 0, err
		}
		err = dirfd.RenameNew(dir, name, d.fd, nameOf(file))
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err != nil {
			return 0, d.errorOf("move "+name+" to", file, err)
		}
		st, err := dirfd.StatAt(d.fd, nameOf(file), unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
			err = errors.Join(fmt.Errorf("it is not a file: %w", iofs.ErrInvalid), dirfd.RenameNew(d.fd, nameOf(file), dir, name))
		}
		if err != nil {
			return 0, d.errorOf("move "+name+" to", file, err)
		}
		d.written(file)
		return file, nil
	}
}

// Named calls fn with the open objects directory and the name of an object file in it, which may be
// anything by now: fn must not follow a link there. fn must not call d.
func (d *Dir) Named(file int64, fn func(dir int, name string) error) error {
	if err := d.use(); err != nil {
		return err
	}
	defer d.done()
	return d.errorOf("use", file, fn(d.fd, nameOf(file)))
}

// Take moves an object file to a name in an open directory. The name must be free, else
// the error is unix.EEXIST. The caller has looked at the file just before, through Handle or
// Named: it is a regular file of exactly size bytes with no other link to it. For one that a
// Writer has open with other bytes the error is io/fs.ErrInvalid. It is io/fs.ErrNotExist if there is
// no such file, or if the directory is gone, and unix.EXDEV if the directory is on another
// file system. After an error the file is where it was. A Writer that has the file open
// goes on in a new one, and so does Pack.
func (d *Dir) Take(file, size int64, dir int, name string) error {
	err := d.release(file, func(now int64) error {
		if now != size {
			return d.errorOf("take", file, fmt.Errorf("it has %d bytes by now, not %d: %w", now, size, iofs.ErrInvalid))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.use(); err != nil {
		return err
	}
	defer d.done()
	return d.errorOf("move to "+name, file, dirfd.RenameNew(d.fd, nameOf(file), dir, name))
}

// Return moves an object file back that Take has moved to a name in an open directory.
func (d *Dir) Return(file int64, dir int, name string) error {
	if err := d.use(); err != nil {
		return err
	}
	defer d.done()
	return d.errorOf("move back from "+name, file, dirfd.RenameNew(dir, name, d.fd, nameOf(file)))
}
