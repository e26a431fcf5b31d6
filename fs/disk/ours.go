package disk

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/tree"
)

// What is ours is read whatever its mode: that lets us in for as long as it takes to open it.

// lettingIn is held by whoever has changed a mode for that, and shared by those who take the modes
// and rights that they find for somebody else's.
var lettingIn sync.RWMutex

// openOurs opens a file in an open directory, one of ours also when its mode keeps us out. A mode
// that somebody has set meanwhile stays.
func openOurs(dir int, name string) (int, error) {
	fd, err := openFileAt(dir, name)
	if !denied(err) {
		return fd, err
	}
	lettingIn.Lock()
	defer lettingIn.Unlock()
	st, serr := statAt(dir, name)
	if serr != nil || st.kind != tree.KindFile || st.mode&0o400 != 0 || chmodAt(dir, name, uint32(st.mode)|0o400) != nil {
		return -1, err
	}
	fd, err = openFileAt(dir, name)
	look, chmod := func() (stat, error) { return statAt(dir, name) }, func() error { return chmodAt(dir, name, uint32(st.mode)) }
	if err == nil {
		look, chmod = func() (stat, error) { return statFD(fd) }, func() error { return unix.Fchmod(fd, uint32(st.mode)) }
	}
	if now, serr := look(); serr == nil && now.sameFile(&stat{kind: st.kind, ino: st.ino, btime: st.btime, size: now.size, mode: st.mode | 0o400}) {
		_ = retry(chmod) // it is still as we have left it
	}
	return fd, err
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
