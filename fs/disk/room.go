package disk

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/dirfd"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// fits refuses, with ENOSPC, a batch for which the directory's file system has no room now. The error
// names all files that do not fit beside the others.
// Once it is in the tree it would have to come to the directory before anything else can,
// and a file that never fits would keep the workspace from ever being in step again, and a
// server from starting.
//
// What is refused cannot be written in the order that bring has. What is let through may
// still meet a full disk, when others write meanwhile; then room can be made for it.
func (p *plan) fits(e *tree.Edit, root int) error {
	room, known := p.w.room(root)
	if !known || p.written <= room {
		return nil
	}
	room += p.w.held() // which makes room when it is needed
	if p.written <= room {
		return nil
	}
	// What goes, goes first. A file that is replaced goes once the new one is there.
	order := slices.Clone(p.order)
	slices.SortFunc(order, slashpath.Compare)
	type file struct {
		path      string
		size, old int64
	}
	var files []file
	cleared, any := "", false
	for _, path := range order {
		size, err := p.sizeOf(e, path)
		if err != nil {
			return err
		}
		f := file{path: path, size: max(size, 0)}
		n := p.w.index.find(path)
		if n != nil && !(any && slashpath.Within(path, cleared)) {
			switch _, gone := p.purged[path]; {
			case size >= 0 && n.stat.kind == tree.KindFile:
				f.old = n.stat.size
			case gone:
				room += sizeBelow(n)
				cleared, any = path, true
			}
		}
		if size > 0 {
			files = append(files, f)
		}
	}
	var refused []string
	for _, f := range files {
		if f.size > room {
			refused = append(refused, p.w.treePath(f.path))
			continue
		}
		room += f.old - f.size
	}
	if len(refused) == 0 {
		return nil
	}
	return &changes.Error{Code: changes.CodeNoRoom, Path: refused[0], More: refused[1:], Err: pathError("apply", refused[0], unix.ENOSPC)}
}

// sizeOf is how much is to be written for a path: nothing for a file that has its content
// already, or may have; -1 for what is no file.
func (p *plan) sizeOf(e *tree.Edit, path string) (int64, error) {
	if it := p.items[path]; it != nil {
		switch {
		case it.kind != tree.KindFile:
			return -1, nil
		case it.meta, it.object != nil && it.object.files == 1 && !p.w.apart.Load():
			return 0, nil
		}
		var size int64
		for _, part := range it.parts {
			size += part.Size
		}
		return size, nil
	}
	info, err := e.Lstat(p.w.treePath(path))
	switch {
	case err != nil && tree.Code(err) == "":
		return 0, err
	case err != nil || info.Kind != tree.KindFile:
		return -1, nil
	}
	if n := p.w.index.find(path); n != nil && n.stat.kind == tree.KindFile && n.stat.size == info.Size {
		return 0, nil
	}
	return info.Size, nil
}

// sizeBelow is what the files of a node have, as of the last settle.
func sizeBelow(n *node) int64 {
	if n.stat.kind == tree.KindFile {
		return n.stat.size
	}
	var size int64
	n.each(func(k *node) {
		if k.stat.kind == tree.KindFile {
			size += k.stat.size
		}
	})
	return size
}

// noFiles reports whether the file system of an open directory has room for no more files, whatever their
// size.
func noFiles(fd int) bool {
	var s unix.Statfs_t
	err := dirfd.Retry(func() error { return unix.Fstatfs(fd, &s) })
	return err == nil && s.Files > 0 && s.Ffree == 0 // those that have no table of files say 0
}

// freeBytes is how much we may still write to the file system of an open directory. Not
// every one knows.
func freeBytes(fd int) (int64, bool) {
	var s unix.Statfs_t
	if err := dirfd.Retry(func() error { return unix.Fstatfs(fd, &s) }); err != nil || s.Blocks == 0 {
		return 0, false
	}
	blocks := int64(s.Bavail) //nolint:gosec,unconvert,nolintlint // signed on some systems
	if os.Geteuid() == 0 {    // which has what is kept back for it
		blocks = int64(s.Bfree) //nolint:gosec // not that large
	}
	blocks = max(blocks, 0) // less than nothing is left to others but root
	const most = 1 << 62
	if size := int64(s.Bsize); size > 0 && blocks < most/size { //nolint:gosec,unconvert,nolintlint // of some other type on some systems
		return blocks * size, true
	}
	return 0, false
}
