package fs

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/protocol"
)

// statMetadata describes name in dir, or with follow what it leads to, and returns
// its kind too.
func statMetadata(dir int, name string, follow bool) (*protocol.Metadata, uint32, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	var st unix.Statx_t
	err := dirfd.Retry(func() error {
		return unix.Statx(dir, name, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // an old kernel, or a filter that does not know it
		return oldMetadata(dir, name, flags)
	}
	if err != nil {
		return nil, 0, err
	}
	created := int64(0)
	if st.Mask&unix.STATX_BTIME != 0 {
		created = milliseconds(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	mode := uint32(st.Mode)
	return newMetadata(mode, st.Size, created, milliseconds(st.Mtime.Sec, int64(st.Mtime.Nsec))), mode & unix.S_IFMT, nil
}
