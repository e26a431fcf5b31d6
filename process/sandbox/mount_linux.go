package sandbox

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
)

// An opError is a step of a helper that failed.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

func step(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &opError{op: fmt.Sprintf(format, args...), err: err}
}

const (
	attrRead  = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	attrWrite = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
)

// A mounter builds the view of the disk that a plan describes, in a mount namespace
// that is its own. All sources are taken from the host's view before anything of it is
// changed, as detached trees, and then attached from the root downwards.
type mounter struct {
	plan *plan
	// root is the directory below which the view is built: that of the namespace, or
	// the empty one of a policy that lists what can be read.
	root int
	// store is a file system of our own, with what covers denied and missing places.
	store  int
	covers int
	closed []string // directories that coverClosed has covered
	trees  []int    // by place, -1 for those that are covered
	proc   int
	dev    *devices
	input  int // the null device that is the program's stdin, or -1
	watch  int // an inotify descriptor, or -1
}

// buildView changes the calling thread's view of the disk. It returns an inotify
// descriptor that tells of the end of the sandbox if the plan asks for one, else -1.
func buildView(p *plan) (int, error) {
	m := &mounter{plan: p, root: -1, store: -1, proc: -1, input: -1, watch: -1}
	for _, do := range []func() error{
		m.detach, m.takeInput, m.makeStore, m.takeTrees, m.takeSystem, m.makeRoot, m.attachSystem, m.attachPlaces, m.enter,
		m.replaceInput,
	} {
		if err := do(); err != nil {
			return -1, err
		}
	}
	return m.watch, nil
}

// detach keeps the host from seeing our mounts, and us from seeing its new ones.
func (m *mounter) detach() error {
	return step(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), "make the mounts private")
}

// makeStore mounts the store over the root directory, where it is in nobody's way: who
// has that directory already stays below the mount.
func (m *mounter) makeStore() error {
	store, err := newTmpfs("0755")
	if err != nil {
		return err
	}
	m.store = store
	if err := attach(store, unix.AT_FDCWD, "/"); err != nil {
		return step(err, "mount the covers")
	}
	for _, dir := range []struct {
		name string
		mode uint32
	}{{"denied", 0}, {"mask", 0o555}} {
		if err := makeDir(store, dir.name, dir.mode); err != nil {
			return step(err, "make cover %s", dir.name)
		}
	}
	if err := makeFile(store, "file", 0); err != nil {
		return step(err, "make cover file")
	}
	if m.plan.Watch {
		return m.startWatch()
	}
	return nil
}

// startWatch has the kernel tell when the store's file system ends, which is when the
// last process is gone that has it mounted.
func (m *mounter) startWatch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return step(err, "watch the sandbox")
	}
	m.watch = fd
	if err := unix.Fchdir(m.store); err != nil {
		return step(err, "enter the covers")
	}
	_, err = unix.InotifyAddWatch(fd, "mask", unix.IN_DELETE_SELF)
	return step(err, "watch the sandbox")
}

// takeTrees clones what the plan's places are on the host.
func (m *mounter) takeTrees() error {
	m.trees = make([]int, len(m.plan.Places))
	for i, p := range m.plan.Places {
		m.trees[i] = -1
		if p.Access == Deny || p.Mask {
			continue
		}
		attrs := uint64(attrRead)
		if p.Access == Write {
			attrs = attrWrite
		}
		if slashpath.Within(string(p.Path), "/dev") { // the policy names it
			attrs &^= unix.MOUNT_ATTR_NODEV
			if !p.Dir && isDevice(string(p.Path)) {
				attrs |= unix.MOUNT_ATTR_RDONLY
			}
		}
		tree, err := takeTree(string(p.Path), attrs)
		if p.Fleeting && (hasGone(err) || errors.Is(err, unix.EACCES)) {
			continue // what cannot be reached stays denied
		}
		if err != nil {
			return step(err, "take %s", p.Path)
		}
		m.trees[i] = tree
	}
	return nil
}

// takeTree returns a detached clone of the tree at an absolute path without links,
// other mounts in it included, with attributes added to all of it.
func takeTree(at string, attrs uint64) (int, error) {
	fd, err := dirfd.OpenNoLinks(unix.AT_FDCWD, at, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd) //nolint:errcheck // a path descriptor
	return cloneTree(fd, "", attrs)
}

func cloneTree(dir int, name string, attrs uint64) (int, error) {
	tree, err := unix.OpenTree(dir, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|
		unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: attrs, Propagation: unix.MS_PRIVATE,
	})
	if err != nil {
		_ = unix.Close(tree)
		return -1, err
	}
	return tree, nil
}

// takeSystem clones what every view has.
func (m *mounter) takeSystem() error {
	if m.plan.Base == Hidden {
		proc, err := takeTree("/proc", attrRead|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return step(err, "take /proc")
		}
		m.proc = proc
	}
	if m.rule("/dev") == Hidden || m.rule("/dev") == Read {
		dev, err := takeDevices()
		if err != nil {
			return err
		}
		m.dev = dev
	}
	return nil
}

// rule returns the access of the plan's place at exactly path, Hidden if none.
func (m *mounter) rule(path string) Access {
	for _, p := range m.plan.Places {
		if string(p.Path) == path {
			return p.Access
		}
	}
	return Hidden
}

// makeRoot prepares the directory in which the view is built.
func (m *mounter) makeRoot() error {
	if m.plan.Base == Hidden {
		root, err := newTmpfs("0755")
		if err != nil {
			return err
		}
		m.root = root
		if err := attach(root, unix.AT_FDCWD, "/"); err != nil {
			return step(err, "mount the new root")
		}
		return m.makeLinks()
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return step(err, "open the root")
	}
	m.root = root
	attrs := uint64(attrRead)
	if m.plan.Base == Write {
		attrs = attrWrite
	}
	// The root directory that this process has is below the store.
	err = unix.MountSetattr(root, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attrs})
	if err != nil {
		return step(err, "restrict the root")
	}
	err = unix.MountSetattr(m.store, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	return step(err, "keep the covers writable")
}

// makeLinks makes the links by which the places of the plan are known, unless they
// will be there with the directory that holds them.
func (m *mounter) makeLinks() error {
	for _, l := range m.plan.Links {
		at := string(l.Path)
		if m.covered(slashpath.Dir(at)) {
			continue
		}
		if err := m.makeDirs(slashpath.Dir(at)); err != nil {
			return step(err, "make the directory of %s", at)
		}
		if err := unix.Symlinkat(string(l.Target), m.root, at[1:]); err != nil && !errors.Is(err, unix.EEXIST) {
			return step(err, "make link %s", at)
		}
	}
	return nil
}

// covered reports whether dir will be within a place of the plan.
func (m *mounter) covered(dir string) bool {
	for _, p := range m.plan.Places {
		if slashpath.Within(dir, string(p.Path)) {
			return true
		}
	}
	return slashpath.Within(dir, "/proc") || slashpath.Within(dir, "/dev")
}

// makeDirs makes an absolute directory and those above it in the new root.
func (m *mounter) makeDirs(at string) error {
	if at == "/" {
		return nil
	}
	if err := m.makeDirs(slashpath.Dir(at)); err != nil {
		return err
	}
	err := unix.Mkdirat(m.root, at[1:], 0o755)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

func (m *mounter) attachSystem() error {
	if m.proc >= 0 {
		if err := m.makeDirs("/proc"); err != nil {
			return step(err, "make /proc")
		}
		if err := m.attachAt(m.proc, "/proc"); err != nil {
			return step(err, "mount /proc")
		}
	}
	if m.dev == nil {
		return nil
	}
	if m.plan.Base == Hidden {
		if err := m.makeDirs("/dev"); err != nil {
			return step(err, "make /dev")
		}
	}
	if err := m.attachAt(m.dev.tree, "/dev"); err != nil {
		return step(err, "mount /dev")
	}
	return m.dev.populate()
}

// attachAt attaches a tree at an absolute path of the new view.
func (m *mounter) attachAt(tree int, at string) error {
	target, err := m.open(at)
	if err != nil {
		return err
	}
	defer unix.Close(target) //nolint:errcheck // a path descriptor
	return attach(tree, target, "")
}

// open opens a path of the view that must lead through no link and not out of it.
func (m *mounter) open(at string) (int, error) {
	return dirfd.OpenNoLinks(m.root, path.Clean("./"+at), unix.O_PATH)
}

func attach(tree, dir int, name string) error {
	flags := unix.MOVE_MOUNT_F_EMPTY_PATH
	if name == "" {
		flags |= unix.MOVE_MOUNT_T_EMPTY_PATH
	}
	return unix.MoveMount(tree, "", dir, name, flags)
}

// attachPlaces attaches the plan's places, outer ones first.
func (m *mounter) attachPlaces() error {
	for i, p := range m.plan.Places {
		at := string(p.Path)
		if at == "/dev" && p.Access == Read {
			continue // is what attachSystem made it
		}
		tree := m.trees[i]
		if tree < 0 && p.Access != Deny && !p.Mask {
			continue // it was gone
		}
		if m.isClosed(at) {
			continue
		}
		if tree < 0 {
			cover, err := m.cover(i)
			if err != nil {
				return step(err, "make a cover for %s", at)
			}
			tree = cover
		}
		if err := m.target(at, p.Dir); err != nil {
			return step(err, "make a place for %s", at)
		}
		err := m.attachAt(tree, at)
		_ = unix.Close(tree)
		if errors.Is(err, unix.EACCES) && (p.Access == Deny || p.Mask) {
			err = m.coverClosed(at)
		}
		if err != nil && !(p.Fleeting && hasGone(err)) {
			return step(err, "mount %s", at)
		}
	}
	return nil
}

// isClosed reports whether at is in a directory that coverClosed has covered.
func (m *mounter) isClosed(at string) bool {
	return slices.ContainsFunc(m.closed, func(dir string) bool { return slashpath.Within(at, dir) })
}

// coverClosed covers the directory above at that this process, and so the program, may not
// search since another user has closed it. That user may open it while the program runs.
func (m *mounter) coverClosed(at string) error {
	for i := 1; i < len(at); i++ {
		if at[i] != '/' {
			continue
		}
		dir, err := m.open(at[:i])
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Fstatat(dir, ".", &st, 0)
		isClosed := errors.Is(err, unix.EACCES)
		if isClosed {
			err = m.coverDir(dir)
		}
		_ = unix.Close(dir)
		if err != nil {
			return err
		}
		if isClosed {
			m.closed = append(m.closed, at[:i])
			return nil
		}
	}
	return unix.EACCES
}

func (m *mounter) coverDir(dir int) error {
	cover, err := cloneTree(m.store, "denied", attrRead)
	if err != nil {
		return err
	}
	defer unix.Close(cover) //nolint:errcheck // it is mounted
	return attach(cover, dir, "")
}

// hasGone reports whether err says that a path is gone, or leads through a link now.
func hasGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// target makes what a place is mounted on where that is up to us: in the new root, and
// in our /dev. Elsewhere it is there already, or its parent's cover has it.
func (m *mounter) target(at string, dir bool) error {
	inDev := m.dev != nil && slashpath.Within(at, "/dev")
	if m.plan.Base != Hidden && !inDev || m.inPlace(at) {
		return nil
	}
	if err := m.makeDirs(slashpath.Dir(at)); err != nil {
		return err
	}
	var err error
	if dir {
		err = unix.Mkdirat(m.root, at[1:], 0o755)
	} else {
		err = makeFile(m.root, at[1:], 0o444)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// inPlace reports whether at is below another place of the plan.
func (m *mounter) inPlace(at string) bool {
	for _, p := range m.plan.Places {
		if other := string(p.Path); other != at && slashpath.Within(at, other) && !(other == "/dev" && p.Access == Read) {
			return true
		}
	}
	return false
}

// cover returns a detached tree that covers place i: a directory or file without
// permissions, or the empty directory of a mask.
func (m *mounter) cover(i int) (int, error) {
	p := m.plan.Places[i]
	switch {
	case p.Mask:
		return cloneTree(m.store, "mask", attrRead)
	case !p.Dir:
		return cloneTree(m.store, "file", attrRead)
	}
	var inner []planPlace
	for _, q := range m.plan.Places[i+1:] {
		if !slashpath.Within(string(q.Path), string(p.Path)) {
			break
		}
		inner = append(inner, q)
	}
	if len(inner) == 0 && p.List {
		return cloneTree(m.store, "mask", attrRead)
	}
	if len(inner) == 0 {
		return cloneTree(m.store, "denied", attrRead)
	}
	return m.coverWith(string(p.Path), inner, p.List)
}

// coverWith makes a cover with what inner places are mounted on. It can be listed if
// list is true.
func (m *mounter) coverWith(at string, inner []planPlace, list bool) (int, error) {
	m.covers++
	name := "cover" + strconv.Itoa(m.covers)
	if err := makeDir(m.store, name, 0o711); err != nil {
		return -1, err
	}
	var dirs []string
	for _, q := range inner {
		rel := string(q.Path)[len(at)+1:]
		for i := range len(rel) {
			if rel[i] != '/' {
				continue
			}
			sub := name + "/" + rel[:i]
			if err := makeDir(m.store, sub, 0o711); err == nil {
				dirs = append(dirs, sub)
			} else if !errors.Is(err, unix.EEXIST) {
				return -1, err
			}
		}
		var err error
		if q.Dir {
			err = makeDir(m.store, name+"/"+rel, 0o711)
		} else {
			err = makeFile(m.store, name+"/"+rel, 0)
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
	}
	for _, dir := range append(dirs, name) {
		mode := uint32(0o111)
		if list && dir == name {
			mode = 0o555
		}
		if err := unix.Fchmodat(m.store, dir, mode, 0); err != nil {
			return -1, err
		}
	}
	return cloneTree(m.store, name, attrRead)
}

// enter leaves the store, and the host's root if the view has one of its own.
func (m *mounter) enter() error {
	if m.dev != nil {
		if err := m.dev.seal(); err != nil {
			return err
		}
	}
	if m.plan.Base == Hidden {
		err := unix.MountSetattr(m.root, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: attrRead})
		if err != nil {
			return step(err, "restrict the new root")
		}
	}
	if m.plan.Base != Hidden {
		// Only the store is mounted over the root; the covers are clones of it.
		if err := unix.Fchdir(m.store); err != nil {
			return step(err, "enter the covers")
		}
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return step(err, "unmount the covers")
		}
		return step(unix.Fchdir(m.root), "enter the root")
	}
	if err := unix.Fchdir(m.root); err != nil {
		return step(err, "enter the new root")
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return step(err, "change the root")
	}
	// What was the root is now mounted over it, and the store over that. Each call takes
	// the topmost away.
	for _, what := range []string{"the covers", "the old root"} {
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return step(err, "leave %s", what)
		}
	}
	return step(unix.Chdir("/"), "enter the new root")
}

// newTmpfs returns an empty file system that is mounted nowhere.
func newTmpfs(mode string) (int, error) {
	return newFS("tmpfs", attrWrite, "mode", mode)
}

func newFS(kind string, attrs int, options ...string) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, step(err, "make a %s", kind)
	}
	defer unix.Close(fs) //nolint:errcheck // the mount keeps the file system
	for i := 0; i+1 < len(options); i += 2 {
		if err := unix.FsconfigSetString(fs, options[i], options[i+1]); err != nil {
			return -1, step(err, "set %s of a %s", options[i], kind)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, step(err, "make a %s", kind)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
	return mount, step(err, "mount a %s", kind)
}

// makeDir and makeFile make an empty directory or file with exactly that mode.
func makeDir(dir int, name string, mode uint32) error {
	if err := unix.Mkdirat(dir, name, mode); err != nil {
		return err
	}
	return unix.Fchmodat(dir, name, mode, 0)
}

func makeFile(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return unix.Fchmod(fd, mode)
}
