package tree

import (
	"errors"
	iofs "io/fs"
	"time"
)

// A File says what a file is to be.
type File struct {
	// Parts are the content, all of them held (see Forest.PutChunks).
	Parts []Part
	// Mode is used when SetMode is true; else the file keeps its own, or gets 0644.
	Mode    uint32
	SetMode bool
	MTime   time.Time // zero for now
	MIME    string    // "" keeps what there is
}

// PutFile writes a file: makes it, with the directories that are missing above it, or
// replaces its content. Links are followed; one that leads nowhere gets its target.
func (e *Edit) PutFile(path string, f File) error {
	e.begin()
	path, err := Clean(path)
	if err != nil {
		return at("write", path, err)
	}
	return at("write", path, e.putFile(path, f))
}

func (e *Edit) putFile(path string, f File) error {
	size, err := e.held(f.Parts)
	if err != nil {
		return err
	}
	s, err := e.walkGrowing(path, true, e.now)
	if err != nil {
		return err
	}
	mtime := f.MTime
	if mtime.IsZero() {
		mtime = e.now
	}
	if !s.ok {
		n := Node{Kind: KindFile, Mode: 0o644, MTime: Nanos(mtime), BTime: Nanos(e.now), MIME: f.MIME}
		if f.SetMode {
			n.Mode = f.Mode & ModeMask
		}
		return e.create(&s, &n, size, f.Parts)
	}
	if s.node.Kind != KindFile {
		return ErrIsDirectory
	}
	if f.SetMode {
		s.node.Mode = f.Mode & ModeMask
	}
	if f.MIME != "" {
		s.node.MIME = f.MIME
	}
	s.node.MTime = Nanos(mtime)
	return e.replace(&s, size, f.Parts)
}

// create makes a file at a free spot.
func (e *Edit) create(s *spot, n *Node, size int64, parts []Part) error {
	n.Size, n.Manifest = size, ManifestOf(parts)
	_, err := e.attach(s.dir, s.name.Name, n, parts...)
	return err
}

// replace gives a file other content; s.node has what else is to change.
func (e *Edit) replace(s *spot, size int64, parts []Part) error {
	old, err := e.tx.Parts(s.node.Ino)
	if err != nil {
		return err
	}
	if e.atHome() && !s.node.Stub {
		e.leaves(s.path, old, s.node.Manifest, false)
	}
	e.count(&s.node, -1)
	s.node.Size, s.node.Manifest, s.node.Stub = size, ManifestOf(parts), false
	e.count(&s.node, 1)
	if err := e.renew(s); err != nil {
		return err
	}
	return e.tx.PutFile(&s.node, old, parts)
}

// held checks that parts are a file whose chunks are all here, and returns its size. A
// chunk that was found dead lives again.
func (e *Edit) held(parts []Part) (int64, error) {
	size, err := sizeOf(parts)
	if err != nil {
		return 0, err
	}
	for i, p := range parts {
		if i > 0 && p == parts[i-1] {
			continue
		}
		c, err := e.tx.Chunk(p.Hash)
		if errors.Is(err, ErrNoRow) && e.located {
			continue
		}
		if errors.Is(err, ErrNoRow) && e.tree.forest.home != nil {
			c, err = e.secure(p.Hash)
		}
		if err := missing(p.Hash, err); err != nil {
			return 0, err
		}
		if c.Where == 0 {
			return 0, &MissingError{p.Hash}
		}
		if c.Size != p.Size {
			return 0, wrongSize(p, c.Size)
		}
		if c.Dead != 0 {
			if err := e.tx.MarkChunk(p.Hash, c.Seen, 0); err != nil {
				return 0, err
			}
		}
	}
	return size, nil
}

// Mkdir makes a directory. Its parent must be there unless parents is true; then a
// directory that is there already is no error, and changes nothing.
func (e *Edit) Mkdir(path string, mode uint32, parents bool) error {
	e.begin()
	path, err := Clean(path)
	if err != nil {
		return at("mkdir", path, err)
	}
	var s spot
	if parents {
		s, err = e.walkGrowing(path, false, e.now)
		if err == nil && s.ok && s.node.Kind == KindSymlink {
			s, err = e.res.existing(path, true)
		}
	} else {
		s, err = e.res.walk(path, false)
	}
	switch {
	case err != nil:
	case !s.ok:
		n := Node{Kind: KindDir, Mode: mode & ModeMask, MTime: Nanos(e.now), BTime: Nanos(e.now)}
		_, err = e.attach(s.dir, s.name.Name, &n)
	case !parents && path != "/" || s.node.Kind != KindDir:
		err = iofs.ErrExist
	}
	return at("mkdir", path, err)
}

// walkGrowing is walk, and makes the directories that are missing on the way.
func (e *Edit) walkGrowing(path string, follow bool, mtime time.Time) (spot, error) {
	e.res.grow = func(d *dir, name string) (Child, error) {
		n := Node{Kind: KindDir, Mode: 0o755, MTime: Nanos(mtime), BTime: Nanos(e.now)}
		return e.attach(d, name, &n)
	}
	defer func() { e.res.grow = nil }()
	return e.res.walk(path, follow)
}

// Symlink makes a link, with the directories that are missing above it.
func (e *Edit) Symlink(target, path string) error {
	e.begin()
	path, err := Clean(path)
	if err == nil {
		err = checkTarget(target)
	}
	if err != nil {
		return at("symlink", path, err)
	}
	if path == "/" {
		return at("symlink", path, iofs.ErrPermission)
	}
	s, err := e.walkGrowing(path, false, e.now)
	switch {
	case err != nil:
	case s.ok:
		err = iofs.ErrExist
	default:
		n := Node{Kind: KindSymlink, Mode: LinkMode, MTime: Nanos(e.now), BTime: Nanos(e.now), Target: target}
		_, err = e.attach(s.dir, s.name.Name, &n)
	}
	return at("symlink", path, err)
}

// Link gives a file or link one more name.
func (e *Edit) Link(old, path string) error {
	e.begin()
	old, err := Clean(old)
	if err != nil {
		return at("link", old, err)
	}
	if path, err = Clean(path); err != nil {
		return at("link", path, err)
	}
	from, err := e.res.existing(old, false)
	if err != nil {
		return at("link", old, err)
	}
	if from.node.Kind == KindDir {
		return at("link", old, iofs.ErrPermission)
	}
	s, err := e.res.walk(path, false)
	if err == nil && s.ok {
		err = iofs.ErrExist
	}
	if err == nil {
		err = checkLengths(s.path)
	}
	if err == nil {
		err = e.disturb(s.dir, nil)
	}
	if err != nil {
		return at("link", path, err)
	}
	rev, err := e.mint()
	if err != nil {
		return err
	}
	// The node itself stays as it is for its old name.
	from.node.Links++
	if err := e.tx.PutNode(&from.node); err != nil {
		return err
	}
	return e.putName(Name{Parent: s.dir.ino, Name: s.name.Name, Child: from.node.Ino, Namespace: e.ns.ID, Rev: rev})
}

// Chmod sets the permission bits of what a path leads to.
func (e *Edit) Chmod(path string, mode uint32) error {
	return e.change("chmod", path, func(n *Node) { n.Mode = mode & ModeMask })
}

// Chtimes sets the modification time of what a path leads to.
func (e *Edit) Chtimes(path string, mtime time.Time) error {
	return e.change("chtimes", path, func(n *Node) { n.MTime = Nanos(mtime) })
}

func (e *Edit) change(op, path string, set func(*Node)) error {
	e.begin()
	path, err := Clean(path)
	if err != nil {
		return at(op, path, err)
	}
	s, err := e.res.existing(path, true)
	if err != nil {
		return at(op, path, err)
	}
	set(&s.node)
	return at(op, path, e.stamp(&s))
}
