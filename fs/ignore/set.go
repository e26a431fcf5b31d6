package ignore

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

const (
	// MaxPattern bounds a pattern. A longer one matches nothing, and Check refuses it.
	MaxPattern = 4096
	// maxDirs bounds the directories whose verdict is remembered; then all are found anew.
	maxDirs = 8192
)

// A Set is rules of a whole tree, as texts.
type Set struct {
	// Files are the texts of files with rules by the directories that they are in: "" for the
	// top of the tree, else a path such as "a/b". They count below it, and after those above.
	Files map[string]string `json:"files,omitempty"`
	// All are texts of rules for the whole tree. They count after the files, each after the
	// one before it.
	All []string `json:"all,omitempty"`
}

// A Matcher tells which paths a Set leaves out. It is safe for concurrent use. A nil
// *Matcher leaves out nothing.
type Matcher struct {
	files map[string][]pattern
	all   [][]pattern // the last one counts first

	mu   sync.Mutex
	dirs map[string]bool // directories that are left out, or not
}

// NewMatcher returns the matcher of a set. Files that are below a directory that is left
// out do not count.
func NewMatcher(s *Set) *Matcher {
	m := &Matcher{files: map[string][]pattern{}, dirs: map[string]bool{}}
	for _, text := range slices.Backward(s.All) {
		m.all = append(m.all, parse(text))
	}
	for _, dir := range slices.Sorted(maps.Keys(s.Files)) {
		// Those above it have come before.
		if !m.Hides(dir, true) {
			m.Add(dir, s.Files[dir])
		}
	}
	return m
}

// Add adds the text of a file with rules in a directory. What is below the directory must
// not have been asked about.
func (m *Matcher) Add(dir, text string) { m.files[dir] = parse(text) }

// Hides reports whether a path such as "a/b" is left out, or one of the directories above
// it.
func (m *Matcher) Hides(path string, isDir bool) bool {
	if m == nil || path == "" {
		return false
	}
	if isDir {
		return m.hidesDir(path)
	}
	return m.hidesDir(slashpath.Dir(path)) || m.decide(path, false)
}

func (m *Matcher) hidesDir(dir string) bool {
	if dir == "" {
		return false
	}
	m.mu.Lock()
	hidden, known := m.dirs[dir]
	m.mu.Unlock()
	if known {
		return hidden
	}
	hidden = m.hidesDir(slashpath.Dir(dir)) || m.decide(dir, true)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.dirs) >= maxDirs {
		clear(m.dirs)
	}
	m.dirs[dir] = hidden
	return hidden
}

// decide is the word of the last rule that matches.
func (m *Matcher) decide(path string, isDir bool) bool {
	name := slashpath.Base(path)
	for _, list := range m.all {
		if p := last(list, path, name, isDir); p != nil {
			return !p.negate
		}
	}
	for dir := slashpath.Dir(path); ; dir = slashpath.Dir(dir) {
		rel := strings.TrimPrefix(path[len(dir):], "/")
		if p := last(m.files[dir], rel, name, isDir); p != nil {
			return !p.negate
		}
		if dir == "" {
			return false
		}
	}
}

// last is the last pattern of a list that matches, nil for none.
func last(list []pattern, path, name string, isDir bool) *pattern {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].match(path, name, isDir) {
			return &list[i]
		}
	}
	return nil
}

// Names returns the names that are left out wherever they are and whatever they are of, up
// to a number, in the order of their rules, and whether they are all that is left out.
func (m *Matcher) Names(limit int) (names []string, all bool) {
	var lists [][]pattern
	for _, dir := range slices.Sorted(maps.Keys(m.files)) {
		lists = append(lists, m.files[dir])
	}
	below := len(lists)
	for _, list := range slices.Backward(m.all) {
		lists = append(lists, list)
	}
	var negated []*pattern
	for _, list := range lists {
		for i := range list {
			if list[i].negate {
				negated = append(negated, &list[i])
			}
		}
	}
	all = true
	for n, list := range lists {
		for i := range list {
			p := &list[i]
			switch {
			case p.negate:
			case n < below || !p.everywhere(negated):
				all = false
			case slices.Contains(names, p.glob):
			case len(names) == limit:
				all = false
			default:
				names = append(names, p.glob)
			}
		}
	}
	return names, all
}

// everywhere reports whether a pattern is a name that none of some others brings back.
func (p *pattern) everywhere(negated []*pattern) bool {
	if p.dirOnly || !p.baseName || p.plain < len(p.glob) {
		return false
	}
	for _, n := range negated {
		end := n.glob[strings.LastIndexByte(n.glob, '/')+1:]
		if end == "**" || compile(end).match(p.glob) {
			return false
		}
	}
	return true
}
