package objects

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Read appends the size bytes at p to dst and returns the result. The error is
// io/fs.ErrNotExist if the file is not there or ends before; dst is returned as it was.
func (d *Dir) Read(p Place, size int64, dst []byte) ([]byte, error) {
	if p.Offset < 0 || size < 0 {
		return dst, d.errorOf("read", p.File, fmt.Errorf("%d bytes at %d: %w", size, p.Offset, iofs.ErrInvalid))
	}
	fd, err := d.Handle(p.File)
	if err != nil {
		return dst, err
	}
	defer func() { _ = closeFile(fd) }()
	if size > tree.ChunkSize { // a size that is wrong asks for no memory
		st, err := dirfd.Stat(fd)
		if err != nil {
			return dst, d.errorOf("stat", p.File, err)
		}
		if size > st.Size-p.Offset {
			return dst, d.tooShort(p, size)
		}
	}
	before := len(dst)
	grown := slices.Grow(dst, int(size))[:before+int(size)]
	for at := before; at < len(grown); {
		var n int
		err := dirfd.Retry(func() (err error) {
			n, err = unix.Pread(fd, grown[at:], p.Offset+int64(at-before))
			return err
		})
		if err != nil {
			return dst, d.errorOf("read", p.File, err)
		}
		if n <= 0 {
			return dst, d.tooShort(p, size)
		}
		at += n
	}
	return grown, nil
}

func (d *Dir) tooShort(p Place, size int64) error {
	return d.errorOf("read", p.File, fmt.Errorf("it ends before the %d bytes at %d do: %w", size, p.Offset, iofs.ErrNotExist))
}

// Handle opens an object file for reading; what changes its mode or its attributes by the
// descriptor works as well. The caller closes it. The error is io/fs.ErrNotExist if the
// file is not there.
func (d *Dir) Handle(file int64) (int, error) {
	if err := d.use(); err != nil {
		return -1, err
	}
	defer d.done()
	fd, err := openAt(d.fd, nameOf(file), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.EACCES) {
		fd, err = d.openUnreadable(file)
	}
	return fd, d.errorOf("open", file, err)
}

// openUnreadable opens a file of ours that its mode keeps us from reading, as one that was
// adopted can have. The mode is the same afterwards.
func (d *Dir) openUnreadable(file int64) (int, error) {
	st, err := dirfd.StatAt(d.fd, nameOf(file), unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return -1, unix.EACCES
	}
	mode := uint32(st.Mode) & 0o7777
	if err := dirfd.Retry(func() error { return unix.Fchmodat(d.fd, nameOf(file), mode|0o400, 0) }); err != nil {
		return -1, err
	}
	fd, err := openAt(d.fd, nameOf(file), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	back := dirfd.Retry(func() error { return unix.Fchmodat(d.fd, nameOf(file), mode, 0) })
	if err == nil && back != nil {
		_ = closeFile(fd)
		return -1, back
	}
	return fd, err
}
