package disk

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

const utimeOmit = unix.UTIME_OMIT

const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// statAt looks at a name in a directory, at a link itself. The device is the real one.
func statAt(dir int, name string) (stat, error) {
	return statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
}

// statFD looks at what is open.
func statFD(fd int) (stat, error) { return statx(fd, "", unix.AT_EMPTY_PATH) }

func statx(dir int, name string, flags int) (stat, error) {
	called("stat", name)
	var s unix.Statx_t
	if err := onName(name, func(raw string) error { return unix.Statx(dir, raw, flags, statMask, &s) }); err != nil {
		return stat{}, pathError("stat", name, err)
	}
	st := stat{
		dev: unix.Mkdev(s.Dev_major, s.Dev_minor), ino: s.Ino, size: int64(s.Size),
		mtime: nanos(s.Mtime), ctime: nanos(s.Ctime), mode: s.Mode & uint16(tree.ModeMask), kind: kindOf(uint32(s.Mode)),
	}
	if s.Mask&unix.STATX_BTIME != 0 {
		st.btime = nanos(s.Btime)
	}
	if s.Nlink > 1 && st.kind == tree.KindFile {
		st.flags = linked
	}
	return st, nil
}

func nanos(t unix.StatxTimestamp) int64 { return tree.Nanos(time.Unix(t.Sec, int64(t.Nsec))) }

// syncAll brings all that was written to the file system of an open directory to the disk.
func syncAll(fd int) error {
	return pathError("sync", ".", dirfd.Retry(func() error { return unix.Syncfs(fd) }))
}

// chmodAt changes the mode of a file or directory that cannot be opened, and of nothing that a link
// leads to.
func chmodAt(dir int, name string, mode uint32) error {
	err := chmodFileAt(dir, name, mode)
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) {
		return pathError("chmod", name, err)
	}
	// Before Linux 6.6.
	fd, err := openAt(dir, name, unix.O_PATH, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	st, err := statFD(fd)
	if err == nil && st.kind != tree.KindDir && st.kind != tree.KindFile {
		err = unix.ELOOP
	}
	if err == nil {
		err = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), mode)
	}
	return pathError("chmod", name, err)
}

// remote are file systems on which others change files without our kernel's knowledge.
var remote = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB",
	unix.V9FS_MAGIC: "9P", unix.FUSE_SUPER_MAGIC: "FUSE", unix.CEPH_SUPER_MAGIC: "Ceph", unix.AFS_SUPER_MAGIC: "AFS",
	unix.CODA_SUPER_MAGIC: "Coda", unix.OCFS2_SUPER_MAGIC: "OCFS2", 0x786f4256: "a host's folder", 0xbacbacbc: "a host's folder",
	0x0bd00bd0: "Lustre", 0x01161970: "GFS2",
}

// trusted refuses to rely on being told of changes in a directory where the system does
// not tell of all.
func trusted(fd int) error {
	var s unix.Statfs_t
	if err := dirfd.Retry(func() error { return unix.Fstatfs(fd, &s) }); err != nil {
		return pathError("statfs", ".", err)
	}
	if name, ok := remote[uint32(s.Type)]; ok {
		return fmt.Errorf("it is on %s, where others may change files", name)
	}
	return nil
}

// renameNew renames to a name that nothing has, else unix.EEXIST.
func renameNew(dir int, old, name string) error {
	return rename2(dir, old, name, unix.RENAME_NOREPLACE)
}

// exchange gives two files each other's name.
func exchange(dir int, a, b string) error { return rename2(dir, a, b, unix.RENAME_EXCHANGE) }

func rename2(dir int, old, name string, flags uint) error {
	oldRaw, err := onDisk(old)
	if err == nil {
		err = onName(name, func(raw string) error { return unix.Renameat2(dir, oldRaw, dir, raw, flags) })
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errNoExchange
	}
	return err
}

// beingWritten reports whether somebody has a file open for writing, or mapped so; also
// when that cannot be told now. The system tells, by a refused lease, of files of our own user;
// as root, of all.
func beingWritten(dir int, name string) bool {
	fd, written := openAsking(dir, name)
	closeIf(fd)
	return written
}

// openAsking is beingWritten, and returns the file open, -1 if it cannot be opened.
func openAsking(dir int, name string) (fd int, written bool) {
	fd, err := openOurs(dir, name)
	if err != nil {
		return -1, !gone(err) && !denied(err) && !errors.Is(err, unix.ENXIO)
	}
	return fd, openForWriting(fd)
}

// openForWriting is beingWritten for an open file.
func openForWriting(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK) // else closing it does
	}
	return errors.Is(err, unix.EAGAIN)
}

// reflink has an empty file share the blocks of all that another one has.
func reflink(dst, src int) error {
	return dirfd.Retry(func() error { return unix.IoctlFileClone(dst, src) })
}

// setTimesFD sets the mtime of what is open.
func setTimesFD(fd int, mtime int64) error {
	ts := []unix.Timespec{{Nsec: utimeOmit}, unix.NsecToTimespec(mtime)}
	err := dirfd.Retry(func() error { return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // before Linux 5.8
		err = dirfd.Retry(func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), ts, 0) })
	}
	return pathError("set times", "", err)
}

// hasDefaultACL reports whether what is made in an open directory gets an access control list.
func hasDefaultACL(fd int) bool {
	_, err := unix.Fgetxattr(fd, "system.posix_acl_default", nil)
	return err == nil || errors.Is(err, unix.ERANGE)
}

// sameMount reports whether two directories are on the same mount, so that files can be renamed
// from one to the other.
func sameMount(a, b string) bool {
	var x, y unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	if unix.Statx(unix.AT_FDCWD, a, 0, mask, &x) != nil || unix.Statx(unix.AT_FDCWD, b, 0, mask, &y) != nil {
		return false
	}
	return x.Dev_major == y.Dev_major && x.Dev_minor == y.Dev_minor && x.Mnt_id == y.Mnt_id
}
