package sandbox

import (
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A match is a place that a glob pattern denies.
type match struct {
	path string
	kind os.FileMode // type bits
	// whole: the pattern does not name path, but what is in it could not be searched.
	whole bool
	// foreign: the way to it leads through a link that the policy lets be replaced.
	foreign bool
}

// A globScan looks for what patterns match.
type globScan struct {
	b       *builder
	depth   int // how many levels below a base are searched
	visits  int
	listing int // counts directories, for globPattern.seen
	matches []match
}

// A globState is a pattern of which the segments before next have matched a directory.
type globState struct {
	glob *globPattern
	next int
}

// scanDir is a directory whose entries are to be looked at.
type scanDir struct {
	path   string
	level  int
	states []globState
}

// expand adds what the patterns, which have the same base, match now. A directory that
// matches stands for all below it.
func (s *globScan) expand(base string, globs []*globPattern) error {
	var root scanDir
	s.listing++
	for _, g := range globs {
		if len(g.segments) == 0 {
			return s.expandPath(base) // everything below it is denied as well
		}
		root.states = g.enter(root.states, 0, s.listing)
	}
	f, foreign, err := s.enterBase(base)
	if err != nil || !f.exists || !f.dir || s.excluded(f.real) {
		return err
	}
	first := len(s.matches)
	root.path = f.real
	s.walk(root)
	for i := range s.matches[first:] {
		s.matches[first+i].foreign = foreign
	}
	return nil
}

// expandPath is expand for a pattern that is a path.
func (s *globScan) expandPath(at string) error {
	f, foreign, err := s.enterBase(slashpath.Dir(at))
	if err != nil || !f.exists || !f.dir {
		return err
	}
	at = slashpath.Join(f.real, path.Base(at))
	if info, err := s.b.lstat(at); err == nil {
		s.matches = append(s.matches, match{path: at, kind: info.Mode().Type(), foreign: foreign})
	}
	return nil
}

// enterBase finds the directory at base. foreign is true when a link leads there that
// the policy lets be replaced; the link is then kept from that.
func (s *globScan) enterBase(base string) (f found, foreign bool, err error) {
	f, err = s.b.follow(base)
	if isHopeless(err) {
		return found{}, false, nil
	}
	if err == nil && f.blocked != "" {
		s.deny(scanDir{path: f.blocked})
	}
	return f, s.b.pinLinks(f.through), err
}

// enter adds the states of a glob whose segments before next have matched.
func (g *globPattern) enter(states []globState, next, listing int) []globState {
	for ; g.seen[next] != listing; next++ {
		g.seen[next] = listing
		states = append(states, globState{g, next})
		if g.segments[next].kind != segmentAny || next+1 == len(g.segments) {
			break
		}
	}
	return states
}

// walk searches breadth first, so that a large directory costs those beside it nothing.
func (s *globScan) walk(root scanDir) {
	queue := []scanDir{root}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if dir.level > 0 && s.visits > MaxGlobVisits {
			s.deny(dir)
			continue
		}
		queue = s.list(dir, queue)
	}
}

// deny denies a directory that is not searched.
func (s *globScan) deny(dir scanDir) {
	s.matches = append(s.matches, match{path: dir.path, kind: os.ModeDir, whole: true})
}

// list looks at the entries of dir, and adds to queue the directories to search.
func (s *globScan) list(dir scanDir, queue []scanDir) []scanDir {
	f, err := s.b.openDir(dir.path)
	if err != nil {
		if !isGone(err) && !errors.Is(err, os.ErrPermission) {
			s.deny(dir)
		}
		return queue
	}
	defer f.Close() //nolint:errcheck // only read
	for {
		entries, err := f.ReadDir(4096)
		for _, e := range entries {
			queue = s.visit(dir, e, queue)
		}
		if errors.Is(err, io.EOF) || isGone(err) {
			return queue
		}
		if err != nil {
			s.deny(dir)
			return queue
		}
	}
}

func (s *globScan) visit(dir scanDir, e os.DirEntry, queue []scanDir) []scanDir {
	s.visits += 1 + len(dir.states)/16
	name := e.Name()
	s.listing++
	var next []globState
	for _, st := range dir.states {
		seg := &st.glob.segments[st.next]
		switch {
		case !seg.match(name):
		case seg.kind == segmentAny:
			next = st.glob.enter(next, st.next, s.listing)
		case st.next+1 == len(st.glob.segments):
			s.matches = append(s.matches, match{path: slashpath.Join(dir.path, name), kind: e.Type()})
			return queue
		default:
			next = st.glob.enter(next, st.next+1, s.listing)
		}
	}
	if len(next) == 0 || !e.IsDir() || dir.level+1 >= s.depth {
		return queue
	}
	child := scanDir{path: slashpath.Join(dir.path, name), level: dir.level + 1, states: next}
	switch {
	case s.excluded(child.path):
		return queue
	case len(child.path) > maxScanPath:
		s.deny(child)
		return queue
	}
	return append(queue, child)
}

// excluded reports whether at is not searched: it is of the kernel's making.
func (s *globScan) excluded(at string) bool {
	return at == "/proc" || at == "/sys" || at == "/dev" && accessIn(s.b.rules, at) != Write
}

func isGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// few replaces matches by directories they are in when there are too many to deny one
// by one: first those with the most matches, then those nearest to the root.
func few(matches []match, limit int) []match {
	if len(matches) <= limit {
		return matches
	}
	matches = collapse(matches, limit)
	for len(matches) > limit {
		deepest := 0
		for _, m := range matches {
			deepest = max(deepest, strings.Count(m.path, "/"))
		}
		for i, m := range matches {
			if strings.Count(m.path, "/") == deepest {
				matches[i] = match{path: slashpath.Dir(m.path), kind: os.ModeDir, whole: true, foreign: m.foreign}
			}
		}
		matches = outermost(matches)
	}
	return matches
}

// collapse replaces the matches of the fullest directories by these.
func collapse(matches []match, limit int) []match {
	count := make(map[string]int)
	for _, m := range matches {
		count[slashpath.Dir(m.path)]++
	}
	dirs := make([]string, 0, len(count))
	for dir := range count {
		dirs = append(dirs, dir)
	}
	slices.SortFunc(dirs, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	full := make(map[string]bool)
	for total := len(matches); total > limit && len(dirs) > 0 && count[dirs[0]] > 1; dirs = dirs[1:] {
		full[dirs[0]] = true
		total -= count[dirs[0]] - 1
	}
	for i, m := range matches {
		if dir := slashpath.Dir(m.path); full[dir] {
			matches[i] = match{path: dir, kind: os.ModeDir, whole: true, foreign: m.foreign}
		}
	}
	return outermost(matches)
}

// outermost leaves one match a path.
func outermost(matches []match) []match {
	slices.SortStableFunc(matches, func(a, b match) int { return slashpath.Compare(a.path, b.path) })
	return slices.CompactFunc(matches, func(a, b match) bool { return a.path == b.path })
}
