package disk

import (
	"context"
	"errors"
	"sync"

	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A change is a path that no longer looks as the index says.
//
// A first look has one for each path: they are small.
type change struct {
	path   string
	old    *stat // a copy of what the index says; &none for a path that is new
	stat   stat  // kind 0 for one that is gone
	parts  []tree.Part
	target string
	// unread is why the content could not be read; it is taken to be what it was. ours: the file is ours.
	unread error
	ours   bool
	// known: parts are the content, which need not be read.
	known bool
	// read: the content is to be read, whatever the times say.
	read bool
	// keep: what is read is stored, since it was asked for before and the file had changed.
	keep bool
	// vanished: there was nothing to read any more. The next look will tell.
	vanished bool
}

// none is the stat of a path that is not there. Nobody changes it.
var none stat

// copied returns a copy of a stat, and &none as it is.
func copied(s *stat) *stat {
	if s == &none {
		return s
	}
	own := *s
	return &own
}

// A scan looks at the directory, or at some of it, and lists what has changed. It only
// reads: the directory, and the index, which nobody changes meanwhile.
type scan struct {
	w       *Workspace
	ctx     context.Context // of the call that it lives as long as
	rootDev uint64
	clean   bool          // what a crash has left is removed
	helpers chan struct{} // a token for each goroutine
	wg      sync.WaitGroup

	mu      sync.Mutex
	changes []*change
	again   []string // what could not be looked at
	temps   []string // what a crash has left
	// oddDirs are directories, new ones, that have what no tree can have.
	oddDirs map[string]struct{}
	err     error

	left map[string]leftOut // what a tree cannot have, and what could not be read
	// entered are the directories of which all names were looked at, looked single paths. They
	// are not noted when the scan is of all.
	all             bool
	entered, looked map[string]struct{}
	// deep are directories that are gone into, with all that is below them, in a scan of some names.
	deep map[string]struct{}
}

func (w *Workspace) newScan(ctx context.Context, rootDev uint64) *scan {
	return &scan{w: w, ctx: ctx, rootDev: rootDev, helpers: make(chan struct{}, w.cfg.Parallel)}
}

// add notes a change, but for what is stuck: the tree has something newer. A directory that
// is gone is made again for what could not be brought to it.
func (s *scan) add(c *change) {
	if s.w.isStuck(c.path) {
		return
	}
	if _, wanted := s.w.stuckDirs[c.path]; wanted && c.stat.kind != tree.KindDir {
		s.later(c.path)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes = append(s.changes, c)
}

func (s *scan) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

func (s *scan) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}

func (s *scan) isOdd(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.oddDirs == nil {
		s.oddDirs = map[string]struct{}{}
	}
	s.oddDirs[dir] = struct{}{}
}

// odd leaves out what no tree can have, and reports whether the tree keeps what it has there, which is kid: that is
// removed only once nothing is in its place.
func (s *scan) odd(err error, path string, kid *node) (keeps bool) {
	s.skip(err, path)
	if kid != nil {
		s.later(path)
	}
	return kid != nil
}

// later notes that a path is to be looked at again.
func (s *scan) later(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.again = append(s.again, path)
}

// A sub is a directory to go into.
type sub struct {
	name string
	node *node // nil if all in it is new
}

// dir looks at all that is in an open directory, which it closes, and below. n is nil for
// a directory that is new.
func (s *scan) dir(fd int, n *node, path string) {
	defer closeFD(fd)
	s.w.watchDir(fd, path)
	s.visited(&s.entered, path)
	var subs []sub
	known := 0
	err := s.w.fault("list", path)
	if err != nil {
		s.fail(err)
		return
	}
	err = names(fd, func(name string) error {
		var kid *node
		if n != nil {
			kid = n.kids.get(name)
		}
		there, err := s.entry(fd, path, name, kid, whyDeep, &subs)
		if there && kid != nil {
			known++
		}
		if !there && n == nil && !temporary(name) {
			s.isOdd(path)
		}
		return err
	})
	if err == nil && n != nil && known < n.kids.len() {
		err = s.missing(fd, path, n)
	}
	if gone(err) && path != "" { // it was removed since it was opened
		s.later(path)
		return
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.below(fd, path, subs)
}

// missing finds the names of a directory that are gone from it.
func (s *scan) missing(fd int, path string, n *node) error {
	for kid := range n.kids.all() {
		name := kid.name
		_, err := statAt(fd, name)
		switch {
		case gone(err):
			s.add(&change{path: slashpath.Join(path, name), old: copied(&kid.stat)})
		case err != nil && !denied(err):
			return err
		}
	}
	return nil
}

// goesInto notes that all below some directories is looked at.
func (s *scan) goesInto(dir string, subs []sub) {
	for _, sub := range subs {
		if s.deep == nil {
			s.deep = map[string]struct{}{}
		}
		s.deep[slashpath.Join(dir, sub.name)] = struct{}{}
	}
}

// covers reports whether a directory is one of those of goesInto, or is below one.
func (s *scan) covers(dir string) bool {
	for ; dir != "" && len(s.deep) > 0; dir = slashpath.Dir(dir) {
		if _, is := s.deep[dir]; is {
			return true
		}
	}
	return false
}

// below goes into directories of an open one.
func (s *scan) below(fd int, path string, subs []sub) {
	for _, sub := range subs {
		if s.failed() {
			return
		}
		if err := s.ctx.Err(); err != nil {
			s.fail(err)
			return
		}
		path := slashpath.Join(path, sub.name)
		kid, err := -1, s.w.fault("enter", path)
		if err == nil {
			kid, err = openDirAt(fd, sub.name)
		}
		switch {
		case gone(err) || denied(err):
			s.skipDir(err, path, fd, sub.name)
			s.later(path)
			continue
		case err != nil:
			s.fail(err)
			return
		}
		select {
		case s.helpers <- struct{}{}:
			// Whoever called for the scan waits for it.
			s.wg.Go(func() {
				defer func() { <-s.helpers }()
				s.dir(kid, sub.node, path)
			})
		default:
			s.dir(kid, sub.node, path)
		}
	}
}

// entry looks at one name in an open directory, and reports whether a tree can have what
// is there. It adds a directory that is to be gone into to subs: one that is new, or any
// if the look is to be deep.
func (s *scan) entry(fd int, dir, name string, kid *node, look why, subs *[]sub) (bool, error) {
	if temporary(name) {
		if s.clean {
			s.mu.Lock()
			s.temps = append(s.temps, slashpath.Join(dir, name))
			s.mu.Unlock()
		}
		return false, nil
	}
	st, err := statAt(fd, name)
	if err == nil && kid != nil && st.mode != kid.stat.mode {
		st, err = statOthers(fd, name)
	}
	if err == nil {
		switch {
		case s.w.tooLong(dir, name):
			err = errLong
		case st.kind == 0:
			err = errSpecial
		}
	}
	switch {
	case gone(err):
		return false, nil
	case denied(err):
		there := stat{kind: tree.KindFile} // or anything else
		if kid != nil {
			there.kind = kid.stat.kind
		}
		if canOpenUp(fd, name) {
			there = stat{}
		}
		s.skipUnread(err, slashpath.Join(dir, name), there)
		s.later(slashpath.Join(dir, name))
		return true, nil
	case errors.Is(err, errLong), errors.Is(err, errSpecial):
		return s.odd(err, slashpath.Join(dir, name), kid), nil
	case err != nil:
		return false, err
	}
	st.dev = s.device(st.dev)
	old := &none
	if kid != nil {
		old = &kid.stat
	}
	if st.kind == tree.KindDir {
		moved := !old.sameDir(&st) || old.dev != st.dev
		if moved || old.mode != st.mode {
			s.add(&change{path: slashpath.Join(dir, name), old: copied(old), stat: st})
		}
		switch {
		case old.kind != tree.KindDir:
			*subs = append(*subs, sub{name, nil})
		case moved || look&whyDeep != 0 || shut(fd, name):
			*subs = append(*subs, sub{name, kid})
		}
		return true, nil
	}
	if st.same(old) && old.flags&again == 0 && (look&whyRead == 0 || st.kind != tree.KindFile) {
		return true, nil
	}
	path := slashpath.Join(dir, name)
	c := &change{path: path, old: copied(old), stat: st}
	if st.kind == tree.KindSymlink {
		c.target, err = readlinkAt(fd, name)
		switch {
		case gone(err) || errIsInvalid(err): // not a link any more
			s.later(path)
			return true, nil
		case err != nil:
			return false, err
		case tree.CheckTarget(c.target) != nil:
			return s.odd(errTarget, path, kid), nil
		}
		if _, plain := rawname.Plain(c.target); !plain {
			c.stat.flags |= rawTarget
		}
	}
	s.add(c)
	return true, nil
}

// tooLong reports whether a tree cannot have a name in a directory.
func (w *Workspace) tooLong(dir, name string) bool {
	if long := len(w.cfg.Mount) + len(dir) + len(name) + 2; len(name) <= tree.MaxSegment && long <= tree.MaxPath {
		return false
	}
	return rawname.Len(name) > tree.MaxSegment || len(w.cfg.Mount)+rawname.Len(dir)+rawname.Len(name)+2 > tree.MaxPath
}

// device is 0 for the root's, whose number is another one after the next start.
func (s *scan) device(dev uint64) uint64 {
	if dev == s.rootDev {
		return 0
	}
	return dev
}

// some looks at some names of a directory that the index has.
func (s *scan) some(walk *walker, dir string, list map[string]why) error {
	n := s.w.index.find(dir)
	if n == nil || n.stat.kind != tree.KindDir {
		return nil // the directory that it is in has been told to be another one
	}
	fd, err := walk.open(dir)
	switch {
	case gone(err):
		return nil
	case denied(err):
		up, name := walk.closed(dir)
		s.skipDir(err, dir, up, name)
		s.later(dir)
		return nil
	case err != nil:
		return err
	}
	var subs []sub
	for name, look := range list {
		kid := n.kids.get(name)
		s.visited(&s.looked, slashpath.Join(dir, name))
		there, err := s.entry(fd, dir, name, kid, look, &subs)
		if err != nil {
			return err
		}
		if !there && kid != nil {
			s.add(&change{path: slashpath.Join(dir, name), old: copied(&kid.stat)})
		}
	}
	s.goesInto(dir, subs)
	s.below(fd, dir, subs)
	return nil
}
