package tree

import (
	"context"
	iofs "io/fs"
	"time"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// FileInfo is what is known of a path.
type FileInfo struct {
	Path     string // without links
	Kind     Kind
	Mode     uint32
	Size     int64
	Links    int64
	MTime    time.Time
	BTime    time.Time
	Rev      int64 // of the path: its node's, or that of a name on the way to it
	Ino      int64
	MIME     string
	Target   string
	Manifest Hash // files; zero for a stub
	Stub     bool
}

// Name is the last segment of the path, "/" for the root.
func (i *FileInfo) Name() string {
	if i.Path == "/" {
		return "/"
	}
	return slashpath.Base(i.Path)
}

func infoOf(n *Node, path string, rev int64) FileInfo {
	return FileInfo{
		Path: path, Kind: n.Kind, Mode: n.Mode, Size: n.Size, Links: n.Links,
		MTime: time.Unix(0, n.MTime), BTime: time.Unix(0, n.BTime), Rev: rev, Ino: n.Ino,
		MIME: n.MIME, Target: n.Target, Manifest: n.Manifest, Stub: n.Stub,
	}
}

func (s *spot) info() FileInfo { return infoOf(&s.node, s.path, s.rev()) }

// Stat describes what a path leads to.
func (t *Tree) Stat(ctx context.Context, path string) (FileInfo, error) {
	return t.stat(ctx, path, true)
}

// Lstat is Stat for a link itself.
func (t *Tree) Lstat(ctx context.Context, path string) (FileInfo, error) {
	return t.stat(ctx, path, false)
}

func (t *Tree) stat(ctx context.Context, path string, follow bool) (FileInfo, error) {
	var info FileInfo
	path, err := Clean(path)
	if err == nil {
		err = t.view(ctx, func(tx Tx, ns *Namespace) error {
			s, err := newResolver(tx, ns).existing(path, follow)
			info = s.info()
			return err
		})
	}
	if err != nil {
		return FileInfo{}, at("stat", path, err)
	}
	return info, nil
}

// Stat describes what a path leads to as the edit has it so far.
func (e *Edit) Stat(path string) (FileInfo, error) { return e.stat(path, true) }

// Lstat is Stat for a link itself.
func (e *Edit) Lstat(path string) (FileInfo, error) { return e.stat(path, false) }

func (e *Edit) stat(path string, follow bool) (FileInfo, error) {
	path, err := Clean(path)
	if err != nil {
		return FileInfo{}, at("stat", path, err)
	}
	s, err := e.res.existing(path, follow)
	if err != nil {
		return FileInfo{}, at("stat", path, err)
	}
	return s.info(), nil
}

// Readlink is the text of a link.
func (t *Tree) Readlink(ctx context.Context, path string) (string, error) {
	info, err := t.Lstat(ctx, path)
	if err == nil && info.Kind != KindSymlink {
		err = at("readlink", path, ErrInvalid)
	}
	return info.Target, err
}

// ReadDir returns up to limit entries of a directory in the order of their bytes, those
// whose names come after a given one. Links are not followed.
func (t *Tree) ReadDir(ctx context.Context, path, after string, limit int) ([]FileInfo, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, at("readdir", path, err)
	}
	var out []FileInfo
	err = t.view(ctx, func(tx Tx, ns *Namespace) error {
		s, err := newResolver(tx, ns).existing(path, true)
		if err != nil {
			return err
		}
		if s.node.Kind != KindDir {
			return ErrNotDirectory
		}
		d := s.asDir()
		list, err := tx.Children(d.ino, after, limit)
		out = make([]FileInfo, len(list))
		for i := range list {
			out[i] = d.info(&list[i])
		}
		return err
	})
	return out, at("readdir", path, err)
}

// info describes an entry of the directory.
func (d *dir) info(c *Child) FileInfo {
	return infoOf(&c.Node, slashpath.Join(d.path, c.Name.Name), max(c.Node.Rev, c.Name.Rev, d.nameRev))
}

// Walk calls fn for a path and all that is below it, each directory before its content
// and names in the order of their bytes, as they all were at one moment. Links are not
// followed. fn must not use the tree. It may return io/fs.SkipDir for a directory to
// leave out what is in it.
func (t *Tree) Walk(ctx context.Context, path string, fn func(*FileInfo) error) error {
	path, err := Clean(path)
	if err != nil {
		return at("walk", path, err)
	}
	err = t.view(ctx, func(tx Tx, ns *Namespace) error {
		s, err := newResolver(tx, ns).existing(path, true)
		if err != nil {
			return err
		}
		info := s.info()
		if err := fn(&info); err != nil || s.node.Kind != KindDir {
			return skipped(err)
		}
		return walk(ctx, tx, s.asDir(), fn)
	})
	return at("walk", path, err)
}

func skipped(err error) error {
	if err == iofs.SkipDir { //nolint:errorlint // It is returned as it is, as in io/fs.
		return nil
	}
	return err
}

func walk(ctx context.Context, tx Tx, d *dir, fn func(*FileInfo) error) error {
	for after := ""; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, err := tx.Children(d.ino, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			c := &list[i]
			info := d.info(c)
			if err := fn(&info); err != nil {
				if skipped(err) == nil && c.Node.Kind == KindDir {
					continue
				}
				return err
			}
			if c.Node.Kind != KindDir {
				continue
			}
			in := &dir{ino: c.Child, parent: d, path: info.Path, nameRev: max(d.nameRev, c.Name.Rev)}
			if err := walk(ctx, tx, in, fn); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].Name.Name
	}
}
