package fs

import (
	"context"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol"
)

// entryOverhead is what an entry counts for in an answer besides its texts.
const entryOverhead = 64

// walker lists a tree breadth first, within bounds.
type walker struct {
	options protocol.WalkOptions
	result  protocol.WalkResult
	queue   []walkDir
	entered map[fileID]bool // real directories, when links are followed
	dirs    uint64          // entered or in the queue
	counted uint64
	bytes   int
	full    bool // a bound was met that ends the walk
}

type walkDir struct {
	path  string
	depth uint64
}

func (s *Service) walk(ctx context.Context, p *protocol.WalkParams) (*protocol.WalkResult, error) {
	root, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	if err := checkWalk(&p.Options); err != nil {
		return nil, err
	}
	w := &walker{options: p.Options, entered: make(map[fileID]bool)}
	w.result = protocol.WalkResult{Entries: []protocol.WalkEntry{}, Errors: []protocol.WalkError{}}
	st, err := lstat(root)
	if err != nil {
		return nil, err
	}
	if kindOf(&st) == unix.S_IFLNK && p.Options.FollowDirectorySymlinks {
		if st, err = stat(root); err != nil {
			return &w.result, nil // a link to nowhere
		}
	}
	if kindOf(&st) != unix.S_IFDIR {
		return &w.result, nil
	}
	w.enqueue(root, 0, idOf(&st))
	for len(w.queue) > 0 && !w.full {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.visit(ctx, next)
	}
	return &w.result, nil
}

func checkWalk(o *protocol.WalkOptions) error {
	if o.MaxDirectories == 0 || o.MaxEntries == 0 {
		return refused("filesystem walk limits must be greater than zero")
	}
	if o.MaxDepth > protocol.MaxWalkDepth || o.MaxDirectories > protocol.MaxWalkDirectories || o.MaxEntries > protocol.MaxWalkEntries {
		return refused("filesystem walk limits exceed maximums: depth=%d, directories=%d, entries=%d",
			protocol.MaxWalkDepth, protocol.MaxWalkDirectories, protocol.MaxWalkEntries)
	}
	return nil
}

// enqueue has a directory entered later, unless its real directory has been already
// or there are too many.
func (w *walker) enqueue(path string, depth uint64, id fileID) {
	if w.options.FollowDirectorySymlinks {
		if w.entered[id] {
			return
		}
		w.entered[id] = true
	}
	if w.dirs == w.options.MaxDirectories {
		w.result.Truncated = true
		return
	}
	w.dirs++
	w.queue = append(w.queue, walkDir{path, depth})
}

// visit lists the children of dir.
func (w *walker) visit(ctx context.Context, dir walkDir) {
	listed := &listing{ctx: ctx}
	defer listed.release()
	d, entries, err := listDir(dir.path, listed)
	if err != nil {
		w.fail(dir.path, err)
		return
	}
	defer d.close()
	for _, e := range entries {
		w.child(d, dir, e)
		if w.full {
			return
		}
	}
}

func (w *walker) child(d *directory, dir walkDir, e dirent) {
	kind, err := d.kindOf(e, false)
	if err != nil {
		return // it has gone
	}
	isLink := kind == unix.S_IFLNK
	if isLink {
		if kind, err = d.kindOf(e, true); err != nil {
			return // it leads nowhere, and does not count
		}
	}
	if w.counted == w.options.MaxEntries {
		w.stop()
		return
	}
	w.counted++
	path := slashpath.Join(dir.path, e.name)
	switch {
	case kind == unix.S_IFREG && !isLink:
		w.list(path, "file")
	case kind == unix.S_IFDIR && (!isLink || w.options.FollowDirectorySymlinks):
		if !w.list(path, "directory") || dir.depth == w.options.MaxDepth ||
			w.options.PruneHiddenDirectories && strings.HasPrefix(e.name, ".") {
			return
		}
		var id fileID
		if w.options.FollowDirectorySymlinks {
			st, err := d.stat(e.name, true)
			if err != nil {
				return
			}
			id = idOf(&st)
		}
		w.enqueue(path, dir.depth+1, id)
	}
}

// list adds an entry if the answer has room for it.
func (w *walker) list(path, kind string) bool {
	uri := fileuri.Format(path)
	if !w.spend(len(uri) + entryOverhead) {
		return false
	}
	w.result.Entries = append(w.result.Entries, protocol.WalkEntry{Path: uri, Kind: kind})
	return true
}

// fail reports a directory that cannot be read.
func (w *walker) fail(path string, err error) {
	uri, text := fileuri.Format(path), errorText(err)
	if w.spend(len(uri) + len(text) + entryOverhead) {
		w.result.Errors = append(w.result.Errors, protocol.WalkError{Path: uri, Message: text})
	}
}

func (w *walker) spend(n int) bool {
	if w.bytes+n > protocol.MaxWalkBytes {
		w.stop()
		return false
	}
	w.bytes += n
	return true
}

func (w *walker) stop() { w.full, w.result.Truncated = true, true }
