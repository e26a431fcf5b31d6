package disk

import (
	"errors"
	iofs "io/fs"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// Everything below the workspace's directory is reached from a descriptor of it, a name
// at a time and never through a link: whatever is put in the place of a directory
// meanwhile, nothing outside is read or changed.

// Names here are as a tree calls them (package rawname). They become bytes where they are given
// to the system, and what the system gives becomes names, in this file and those of each system.

// onDisk is the bytes of a name, or a path, of a tree. Nothing is ever called what has none.
func onDisk(name string) (string, error) {
	if !rawname.Has(name) {
		return name, nil
	}
	raw, err := rawname.Decode(name)
	if err != nil {
		return "", unix.ENOENT
	}
	return raw, nil
}

// onCall, if a test has set it, gets each look at a name, or at what is open ("stat", without a name),
// and each opening of one ("open").
var onCall atomic.Pointer[func(call, name string)]

func called(call, name string) {
	if fn := onCall.Load(); fn != nil {
		(*fn)(call, name)
	}
}

// onName calls fn with the bytes of a name, again when a signal has interrupted it.
func onName(name string, fn func(raw string) error) error {
	raw, err := onDisk(name)
	if err != nil {
		return err
	}
	return dirfd.Retry(func() error { return fn(raw) })
}

func openAt(dir int, name string, flags int, perm uint32) (int, error) {
	called("open", name)
	fd := -1
	err := onName(name, func(raw string) (err error) {
		fd, err = unix.Openat(dir, raw, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NOCTTY, perm)
		return err
	})
	return fd, pathError("open", name, err)
}

// openDirAt opens a directory, and nothing else.
func openDirAt(dir int, name string) (int, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openBelow opens what a path below an open directory leads to without a link. "." is the directory itself.
func openBelow(root int, path string, flags int) (int, error) {
	called("open", path)
	fd := -1
	raw, err := onDisk(path)
	if err == nil {
		fd, err = dirfd.OpenNoLinks(root, raw, flags)
	}
	return fd, pathError("open", path, err)
}

// openFileAt opens what should be a file. Were it something else by now, it would not
// wait for anybody.
func openFileAt(dir int, name string) (int, error) {
	return openAt(dir, name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
}

// rename gives a name in an open directory another one there.
func rename(dir int, old, name string) error { return renameTo(dir, old, dir, name) }

// renameTo gives a name in an open directory another one in another one.
func renameTo(dir int, old string, to int, name string) error {
	oldRaw, err := onDisk(old)
	if err != nil {
		return err
	}
	return onName(name, func(raw string) error { return unix.Renameat(dir, oldRaw, to, raw) })
}

// unlinkAt removes a name that is none of a directory, rmdirAt an empty directory.
func unlinkAt(dir int, name string) error {
	return onName(name, func(raw string) error { return unix.Unlinkat(dir, raw, 0) })
}

func rmdirAt(dir int, name string) error {
	return onName(name, func(raw string) error { return unix.Unlinkat(dir, raw, unix.AT_REMOVEDIR) })
}

func mkdirAt(dir int, name string) error {
	return onName(name, func(raw string) error { return unix.Mkdirat(dir, raw, 0o700) })
}

// symlinkAt makes a link.
func symlinkAt(target string, dir int, name string) error {
	to, err := onDisk(target)
	if err != nil {
		return err
	}
	return onName(name, func(raw string) error { return unix.Symlinkat(to, dir, raw) })
}

// chmodFileAt changes the mode of a file of ours, and never through a link.
func chmodFileAt(dir int, name string, mode uint32) error {
	return onName(name, func(raw string) error { return unix.Fchmodat(dir, raw, mode, unix.AT_SYMLINK_NOFOLLOW) })
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &iofs.PathError{Op: op, Path: rawname.Show(path), Err: err}
}

func closeFD(fd int) { _ = unix.Close(fd) } // nothing that was written is in it any more

// closeIf closes what is open, nothing for -1.
func closeIf(fd int) {
	if fd >= 0 {
		closeFD(fd)
	}
}

// gone reports whether err says that a path is not there (any more), or not as what it was.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// denied reports whether err says that we may not look at something that is there.
func denied(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENAMETOOLONG)
}

// shut reports whether a directory may not be looked into.
func shut(dir int, name string) bool {
	return denied(onName(name, func(raw string) error { return unix.Faccessat(dir, raw, unix.R_OK|unix.X_OK, unix.AT_EACCESS) }))
}

// canOpenUp reports whether a name in an open directory cannot be reached because of the mode of a directory of ours:
// of the one that has the name, or of the open one. unlock changes such a mode.
func canOpenUp(dir int, name string) bool {
	lettingIn.RLock()
	defer lettingIn.RUnlock()
	var st unix.Stat_t
	err := onName(name, func(raw string) error { return unix.Fstatat(dir, raw, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if forbidden(err) {
		st, err = dirfd.Stat(dir)
	}
	kind := kindOf(uint32(st.Mode)) //nolint:unconvert,nolintlint // of another type on some systems
	return err == nil && kind == tree.KindDir && st.Mode&0o700 != 0o700 && int(st.Uid) == unix.Geteuid()
}

// kindOf is 0 for what a tree has no node for.
func kindOf(mode uint32) tree.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return tree.KindFile
	case unix.S_IFDIR:
		return tree.KindDir
	case unix.S_IFLNK:
		return tree.KindSymlink
	default:
		return 0
	}
}

var direntBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// allNames lists an open directory from its beginning.
func allNames(fd int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return nil, pathError("list", ".", err)
	}
	var list []string
	err := names(fd, func(name string) error { list = append(list, name); return nil })
	return list, err
}

// names calls fn for each name in a directory that was just opened but "." and "..".
func names(fd int, fn func(name string) error) error {
	buf, _ := direntBuffers.Get().(*[]byte)
	defer direntBuffers.Put(buf)
	var list []string
	for {
		var n int
		err := dirfd.Retry(func() (err error) {
			n, err = unix.ReadDirent(fd, *buf)
			return err
		})
		if err != nil {
			return pathError("list", ".", err)
		}
		if n <= 0 {
			return nil
		}
		_, _, list = unix.ParseDirent((*buf)[:n], -1, list[:0])
		for _, name := range list {
			if err := fn(rawname.Encode(name)); err != nil {
				return err
			}
		}
	}
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, tree.MaxTarget+1)
	var n int
	err := onName(name, func(raw string) (err error) {
		n, err = unix.Readlinkat(dir, raw, buf)
		return err
	})
	return rawname.Encode(string(buf[:max(n, 0)])), pathError("read link", name, err)
}

// openRoot opens the workspace's directory itself.
func openRoot(path string) (int, error) {
	fd := -1
	err := dirfd.Retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, pathError("open", path, err)
}

func setTimes(dir int, name string, mtime int64) error {
	t := unix.NsecToTimespec(mtime)
	return pathError("set times", name, onName(name, func(raw string) error {
		return unix.UtimesNanoAt(dir, raw, []unix.Timespec{{Nsec: utimeOmit}, t}, unix.AT_SYMLINK_NOFOLLOW)
	}))
}

// preadFull reads up to len(p) bytes; fewer at the end of the file.
func preadFull(fd int, p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		var n int
		err := dirfd.Retry(func() (err error) {
			n, err = unix.Pread(fd, p[done:], offset+int64(done))
			return err
		})
		if err != nil {
			return done, err
		}
		if n <= 0 {
			break
		}
		done += n
	}
	return done, nil
}

func writeFull(fd int, p []byte) error {
	for len(p) > 0 {
		var n int
		err := dirfd.Retry(func() (err error) {
			n, err = unix.Write(fd, p)
			return err
		})
		if err != nil {
			return err
		}
		if n <= 0 {
			return os.ErrInvalid
		}
		p = p[n:]
	}
	return nil
}
