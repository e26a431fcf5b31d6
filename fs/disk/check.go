package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// ErrDiffers says that directory and tree are not the same.
var ErrDiffers = errors.New("directory and tree differ")

// Check settles, and then compares all that is below the mount with the directory:
// paths, kinds, modes, targets and content. What is found is an ErrDiffers that names
// each difference, up to a hundred of them.
func (w *Workspace) Check(ctx context.Context) error {
	fd, st, err := w.begin(ctx)
	if err == nil {
		defer w.release()
		defer closeFD(fd)
		w.full = true // what nobody told of shall be found, too
		if err = w.settle(ctx, fd, st); err == nil {
			err = w.check(ctx, fd)
		}
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", w.cfg.Dir, err)
	}
	return nil
}

// A checker compares, and collects what differs.
type checker struct {
	w     *Workspace
	ctx   context.Context // of the call that it lives as long as
	found []error
	walk  *walker
	buf   []byte
}

func (c *checker) differs(path, how string, args ...any) {
	if len(c.found) < maxReported {
		c.found = append(c.found, fmt.Errorf("%w: %q: %s", ErrDiffers, path, fmt.Sprintf(how, args...)))
	}
}

func (w *Workspace) check(ctx context.Context, root int) error {
	c := &checker{w: w, ctx: ctx, walk: newWalker(root), buf: make([]byte, tree.ChunkSize)}
	defer c.walk.forget()
	dirs := []string{""}
	for len(dirs) > 0 {
		path := dirs[len(dirs)-1]
		subs, err := c.dir(path)
		if err != nil {
			return err
		}
		dirs = append(dirs[:len(dirs)-1], subs...)
	}
	return errors.Join(c.found...)
}

// dir compares one directory and returns those in it.
func (c *checker) dir(path string) ([]string, error) {
	n := c.w.index.find(path)
	left := make(map[string]*node, n.kids.len())
	for kid := range n.kids.all() {
		left[kid.name] = kid
	}
	var subs []string
	for after := ""; ; {
		list, err := c.w.cfg.Tree.ReadDir(c.ctx, c.w.treePath(path), after, batchPaths)
		if err != nil {
			return nil, err
		}
		for i := range list {
			info := &list[i]
			after = info.Name()
			if temporary(after) {
				continue
			}
			kid := left[after]
			delete(left, after)
			if kid == nil {
				c.differs(slashpath.Join(path, after), "only the tree has it")
				continue
			}
			if err := c.node(path, info, kid); err != nil {
				return nil, err
			}
			if info.Kind == tree.KindDir && kid.stat.kind == tree.KindDir {
				subs = append(subs, kid.path())
			}
		}
		if len(list) < batchPaths {
			break
		}
	}
	for name := range left {
		c.differs(slashpath.Join(path, name), "only the index has it")
	}
	return subs, nil
}

// node compares a path. What somebody has changed since the settle is not compared.
func (c *checker) node(dir string, info *tree.FileInfo, n *node) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	path := slashpath.Join(dir, n.name)
	fd, err := c.walk.open(dir)
	if err != nil {
		return ignore(err)
	}
	st, err := statAt(fd, n.name)
	if err != nil {
		return ignore(err)
	}
	switch {
	case st.kind == tree.KindDir && n.stat.kind == tree.KindDir:
		if st.mode != n.stat.mode {
			return nil
		}
	case st.kind != n.stat.kind || st.ino != n.stat.ino || st.size != n.stat.size || st.mtime != n.stat.mtime || st.ctime != n.stat.ctime:
		return nil
	}
	switch {
	case info.Kind != st.kind:
		c.differs(path, "the tree has a %v", info.Kind)
		return nil
	case info.Mode != uint32(st.mode) && st.kind != tree.KindSymlink:
		c.differs(path, "mode %04o, in the tree %04o", st.mode, info.Mode)
	}
	switch st.kind {
	case tree.KindSymlink:
		target, err := readlinkAt(fd, n.name)
		if err == nil && target != info.Target {
			c.differs(path, "it leads to %q, in the tree to %q", target, info.Target)
		}
	case tree.KindFile:
		if st.size != info.Size {
			c.differs(path, "%d bytes, in the tree %d", st.size, info.Size)
			return nil
		}
		parts, err := c.hash(fd, n.name, st.size)
		if err != nil {
			return ignore(err)
		}
		if tree.ManifestOf(parts) != info.Manifest {
			if now, err := statAt(fd, n.name); err == nil && now.mtime == st.mtime && now.ctime == st.ctime && now.ino == st.ino {
				c.differs(path, "the content is not the tree's")
			}
		}
	default:
	}
	return nil
}

// ignore leaves out what is gone by now, or cannot be looked at.
func ignore(err error) error {
	if gone(err) || denied(err) {
		return nil
	}
	return err
}

func (c *checker) hash(dir int, name string, size int64) ([]tree.Part, error) {
	fd, err := openFileAt(dir, name)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	var parts []tree.Part
	for at := int64(0); at < size; {
		n, err := preadFull(fd, c.buf, at)
		if err != nil {
			return nil, pathError("read", name, err)
		}
		if n == 0 {
			break
		}
		parts = append(parts, tree.Part{Hash: tree.Sum(c.buf[:n]), Size: int64(n)})
		at += int64(n)
	}
	return parts, nil
}
