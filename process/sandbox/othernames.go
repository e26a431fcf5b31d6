package sandbox

import (
	"errors"
	"os"
	"slices"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// denyOtherNames denies the other names of denied files where a command can make such:
// a hard link that was made before the file was worth denying.
func (b *builder) denyOtherNames() {
	files := b.inner
	for _, r := range b.rules {
		if r.Access != Deny || b.kinds[r.Path] {
			continue
		}
		if info, err := b.lstat(r.Path); err == nil && info.Mode().IsRegular() && hasOtherNames(info) {
			files = append(files, info)
		}
	}
	if len(files) == 0 {
		return
	}
	s := nameScan{b: b, files: files}
	for _, r := range slices.Clone(b.rules) {
		if r.Access == Write && b.kinds[r.Path] && r.Path != "/" {
			s.walk(r.Path)
		}
	}
	b.addRules(s.found)
}

// noteNames notes the files that have other names in a directory which a pattern matches,
// and which a command may have filled before it gave it that name.
func (b *builder) noteNames(root string) {
	queue := []string{root}
	for len(queue) > 0 && b.looked <= maxInnerVisits {
		dir := queue[0]
		queue = queue[1:]
		f, err := b.openDir(dir)
		if err != nil {
			continue // no command can have filled it
		}
		entries, _ := f.ReadDir(maxInnerVisits) // what cannot be read has no names
		_ = f.Close()
		for _, e := range entries {
			b.looked++
			at := slashpath.Join(dir, e.Name())
			switch {
			case e.IsDir():
				queue = append(queue, at)
			case e.Type().IsRegular():
				if info, err := b.lstat(at); err == nil && hasOtherNames(info) {
					b.inner = append(b.inner, info)
				}
			}
		}
	}
}

// A nameScan looks for names of files. It stops at the limit of what patterns look at:
// more directories than that, none of which is denied, no command makes in passing.
type nameScan struct {
	b      *builder
	files  []os.FileInfo
	visits int
	found  []Rule
}

func (s *nameScan) walk(root string) {
	queue := []string{root}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if dir != root && s.visits > MaxGlobVisits {
			s.deny(dir, true)
			continue
		}
		queue = append(queue, s.list(dir)...)
	}
}

func (s *nameScan) deny(at string, dir bool) {
	s.found = append(s.found, s.b.deny(at, dir))
}

// list looks at the names in dir, and returns the directories to look into.
func (s *nameScan) list(dir string) []string {
	f, err := s.b.openDir(dir)
	if err != nil {
		if !isGone(err) && !errors.Is(err, os.ErrPermission) {
			s.deny(dir, true)
		}
		return nil
	}
	defer f.Close() //nolint:errcheck // only read
	entries, err := f.ReadDir(-1)
	if err != nil && !isGone(err) {
		s.deny(dir, true)
		return nil
	}
	var dirs []string
	for _, e := range entries {
		s.visits++
		at := slashpath.Join(dir, e.Name())
		i, ruled := findRule(s.b.rules, at)
		switch {
		case ruled && s.b.rules[i].Access == Deny:
		case e.IsDir() && len(at) > maxScanPath:
			s.deny(at, true)
		case e.IsDir():
			dirs = append(dirs, at)
		case e.Type().IsRegular():
			switch is, err := s.isOne(at); {
			case err != nil:
				s.deny(dir, true)
				return nil
			case is:
				s.deny(at, false)
			}
		}
	}
	return dirs
}

// isOne reports whether at is a name of one of the files. An error says that this
// cannot be told, though the confined process may find out.
func (s *nameScan) isOne(at string) (bool, error) {
	info, err := s.b.lstat(at)
	if isGone(err) || errors.Is(err, os.ErrPermission) {
		return false, nil
	}
	return err == nil && hasOtherNames(info) &&
		slices.ContainsFunc(s.files, func(f os.FileInfo) bool { return os.SameFile(f, info) }), err
}
