package disk

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A leftOut says why a path of the directory is not in step.
type leftOut struct {
	why  changes.SkipReason
	text string // what the system said
	stat stat   // of what cannot be read and may not be what the tree has; zero for all else
}

// skips are the paths that are not in step. They are safe for concurrent use.
type skips struct {
	mu        sync.Mutex
	left      map[string]leftOut // of the directory
	unwritten map[string]leftOut // of the journal
	raw       []string           // paths that are not UTF-8, or of links to what is not
}

// Skipped implements changes.Workspace.
func (w *Workspace) Skipped(keep func(path string) bool) []changes.Skipped {
	w.skips.mu.Lock()
	defer w.skips.mu.Unlock()
	paths := map[changes.SkipReason][]changes.SkippedPath{}
	for i, list := range []map[string]leftOut{w.skips.unwritten, w.skips.left} {
		for path, l := range list {
			if i > 0 && w.skips.waits(path, &l) {
				continue
			}
			if full := w.treePath(path); keep == nil || keep(full) {
				paths[l.why] = append(paths[l.why], changes.SkippedPath{Path: full, Error: l.text})
			}
		}
	}
	var out []changes.Skipped
	for _, why := range []changes.SkipReason{changes.Unwritten, changes.Unreadable, changes.Special, changes.BadName} {
		list := paths[why]
		if len(list) == 0 {
			continue
		}
		slices.SortFunc(list, func(a, b changes.SkippedPath) int { return strings.Compare(a.Path, b.Path) })
		out = append(out, changes.Skipped{Why: why, Count: len(list), Paths: slices.Clone(list[:min(len(list), changes.MaxSkipped)])})
	}
	return out
}

// Unread implements changes.Workspace.
func (w *Workspace) Unread() (out []tree.Entry) {
	w.skips.mu.Lock()
	defer w.skips.mu.Unlock()
	for path, l := range w.skips.left {
		if l.why == changes.Unreadable && l.stat.kind == 0 || w.skips.waits(path, &l) {
			continue
		}
		e := tree.Entry{Path: w.treePath(path), Kind: l.stat.kind, Mode: uint32(l.stat.mode)}
		if e.Kind == tree.KindFile && l.stat.ino != 0 {
			e.Size, e.MTime = l.stat.size, time.Unix(0, l.stat.mtime)
		}
		out = append(out, e)
	}
	return out
}

// waits reports whether a path that no tree can have is one that an entry waits for.
func (k *skips) waits(path string, l *leftOut) bool {
	_, unwritten := k.unwritten[path]
	return unwritten && l.why != changes.Unreadable
}

// NotUTF8 implements changes.Workspace.
func (w *Workspace) NotUTF8(keep func(path string) bool) (changes.Skipped, bool) {
	w.skips.mu.Lock()
	list := w.skips.raw
	w.skips.mu.Unlock()
	s := changes.Skipped{Why: changes.BadName}
	for _, path := range list {
		full := w.treePath(path)
		if keep != nil && !keep(full) {
			continue
		}
		if s.Count++; len(s.Paths) < changes.MaxSkipped {
			s.Paths = append(s.Paths, changes.SkippedPath{Path: full, Error: changes.NotUTF8})
		}
	}
	return s, true
}

// takeRaw takes over which paths of an index are not UTF-8.
func (k *skips) takeRaw(x *index) {
	if !x.rawMoved || len(x.raw) == 0 && k.raw == nil {
		return
	}
	list := x.rawPaths()
	x.rawMoved = false
	k.mu.Lock()
	defer k.mu.Unlock()
	k.raw = list
}

// leftOutFor is what an error says of a path that cannot be taken into the tree.
func leftOutFor(err error) leftOut {
	switch {
	case errors.Is(err, errSpecial):
		return leftOut{why: changes.Special}
	case errors.Is(err, errLong), errors.Is(err, errTarget):
		return leftOut{why: changes.BadName, text: err.Error()}
	}
	return leftOut{why: changes.Unreadable, text: systemText(err)}
}

// systemText is what the system said, without the names that we have for files.
func systemText(err error) string {
	if errors.Is(err, errInTheWay) {
		return "a pipe, socket or device is in its place"
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}

// skip notes that a scan leaves a path out.
func (s *scan) skip(err error, path string) { s.skipUnread(err, path, stat{}) }

// skipUnread is skip. A stat with a kind says what there is that may not be what the tree has.
func (s *scan) skipUnread(err error, path string, st stat) {
	if gone(err) {
		return
	}
	s.w.skipped(err, path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left = map[string]leftOut{}
	}
	left := leftOutFor(err)
	left.stat = st
	s.left[path] = left
}

// skipDir is skipUnread for a directory that cannot be listed since a name in an open one, it or a directory above it,
// cannot be opened. One that a bringer opens up is looked at then.
func (s *scan) skipDir(err error, path string, fd int, name string) {
	there := stat{kind: tree.KindDir}
	if canOpenUp(fd, name) {
		there = stat{}
	}
	s.skipUnread(err, path, there)
}

// visited notes that a scan has looked at a path, or at all that is in a directory.
func (s *scan) visited(set *map[string]struct{}, path string) {
	if s.all || s.w.skips.none() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if *set == nil {
		*set = map[string]struct{}{}
	}
	(*set)[path] = struct{}{}
}

func (k *skips) none() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.left) == 0
}

// update takes over what a scan has left out. What a scan of some paths has not come to is
// left out as before, if it is still there.
func (k *skips) update(root int, s *scan) {
	if s.all {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.left = s.left
		return
	}
	if k.none() && len(s.left) == 0 {
		return
	}
	walk := newWalker(root)
	defer walk.forget()
	k.mu.Lock()
	defer k.mu.Unlock()
	for path, l := range k.left {
		dir, name := slashpath.Split(path)
		_, looked := s.looked[path]
		_, entered := s.entered[dir]
		if looked || entered {
			continue
		}
		fd, err := walk.open(dir)
		if err == nil {
			_, err = statAt(fd, name)
		}
		if gone(err) {
			continue
		}
		if s.left == nil {
			s.left = map[string]leftOut{}
		}
		if _, ok := s.left[path]; !ok {
			s.left[path] = l
		}
	}
	k.left = s.left
}

// stuck takes over which paths cannot be brought.
func (k *skips) stuck(paths map[string]stuckPath) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unwritten = nil
	for path, p := range paths {
		if k.unwritten == nil {
			k.unwritten = map[string]leftOut{}
		}
		k.unwritten[path] = leftOut{why: changes.Unwritten, text: systemText(p.err)}
	}
}
