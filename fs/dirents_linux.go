package fs

import (
	"bytes"
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
)

// direntBuffers hold what the kernel tells at once; large, so that a listing is short
// against changes that happen meanwhile.
var direntBuffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// Offsets in struct linux_dirent64: d_ino, d_off, d_reclen, d_type, d_name.
const (
	direntLen  = 16
	direntType = 18
	direntName = 19
)

// list lists the directory, without "." and "..", unsorted. l is charged for it.
func (d *directory) list(l *listing) ([]dirent, error) {
	buf := direntBuffers.Get().(*[128 << 10]byte)
	defer direntBuffers.Put(buf)
	var entries []dirent
	for {
		var n int
		err := dirfd.Retry(func() (err error) {
			n, err = unix.Getdents(d.fd, buf[:])
			return err
		})
		if err != nil {
			return entries, err
		}
		if n == 0 {
			return entries, nil
		}
		for rest := buf[:n]; len(rest) > direntName; {
			size := int(binary.NativeEndian.Uint16(rest[direntLen:]))
			name := cString(rest[direntName:size])
			if name != "." && name != ".." {
				if err := l.add(len(name)); err != nil {
					return nil, err
				}
				entries = append(entries, dirent{name: name, kind: uint32(rest[direntType]) << 12}) // DT_* are S_IF* shifted
			}
			rest = rest[size:]
		}
	}
}

// cString is b up to its first NUL.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
