package disk

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/tree"
)

// What is ours is read whatever its mode, and those of the directories that it is in: that lets us
// in for as long as it takes to open it.

// A goroutine that has changed a mode for that holds lettingIn. Others share it while they take the modes
// and rights that they find for somebody else's.
var lettingIn sync.RWMutex

// openOurs opens a file in an open directory, one of ours also when its mode keeps us out. A mode
// that somebody has set meanwhile stays.
func openOurs(dir int, name string) (int, error) {
	fd, err := openFileAt(dir, name)
	if !denied(err) {
		return fd, err
	}
	return openOursBelow(dir, name)
}

// openOursBelow is openOurs for a path below an open directory, also when the modes of directories
// on the way keep us out. It follows no link.
func openOursBelow(root int, path string) (int, error) {
	lettingIn.Lock()
	defer lettingIn.Unlock()
	var leave []func()
	defer func() {
		for _, fn := range slices.Backward(leave) {
			fn()
		}
	}()
	for up := root; ; {
		name, rest, above := strings.Cut(path, "/")
		fd, putBack, err := letIn(up, name, above)
		if err != nil {
			return -1, err
		}
		if !above {
			putBack()
			return fd, nil
		}
		leave = append(leave, func() {
			putBack()
			closeFD(fd)
		})
		up, path = fd, rest
	}
}

// letIn opens a directory to go into, or a file to read, with a mode that allows it. putBack puts the
// one that it had back, if it is still as we have left it. The caller has lettingIn.
func letIn(up int, name string, dir bool) (fd int, putBack func(), err error) {
	open, kind, rights := openFileAt, tree.KindFile, uint16(0o400)
	if dir {
		open, kind, rights = openDirAt, tree.KindDir, 0o500
	}
	putBack = func() {}
	st, err := statAt(up, name)
	if err != nil || st.kind != kind || st.mode&rights == rights {
		fd, err = open(up, name)
		return fd, putBack, err
	}
	if err := chmodAt(up, name, uint32(st.mode|rights)); err != nil {
		return -1, nil, pathError("open", name, unix.EACCES)
	}
	if fd, err = open(up, name); err != nil {
		if now, e := statAt(up, name); e == nil && now.ino == st.ino && now.mode == st.mode|rights {
			_ = chmodAt(up, name, uint32(st.mode)) // as it was
		}
		return -1, nil, err
	}
	return fd, func() {
		if now, e := statFD(fd); e == nil && now.ino == st.ino && now.mode == st.mode|rights {
			_ = dirfd.Retry(func() error { return unix.Fchmod(fd, uint32(st.mode)) })
		}
	}, nil
}

// isOurs reports whether what has a name in an open directory is ours.
func isOurs(dir int, name string) bool {
	var st unix.Stat_t
	err := onName(name, func(raw string) error { return unix.Fstatat(dir, raw, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return err == nil && int(st.Uid) == unix.Geteuid()
}

// readable fails for a file of somebody else's that we may not read.
func readable(dir int, name string) error {
	fd, err := openWithRights(dir, name)
	if err == nil {
		closeFD(fd)
	}
	if !forbidden(err) || isOurs(dir, name) {
		return nil
	}
	return err
}

// openWithRights opens a file that we may read without that.
func openWithRights(dir int, name string) (int, error) {
	lettingIn.RLock()
	defer lettingIn.RUnlock()
	return openFileAt(dir, name)
}

// statOthers is statAt, without a mode that lets us in for a moment.
func statOthers(dir int, name string) (stat, error) {
	lettingIn.RLock()
	defer lettingIn.RUnlock()
	return statAt(dir, name)
}

// statOut is statOthers for a name that is open as fd, unless that is -1.
func statOut(dir int, name string, fd int) (stat, error) {
	if fd < 0 {
		return statOthers(dir, name)
	}
	lettingIn.RLock()
	defer lettingIn.RUnlock()
	return statFD(fd)
}
