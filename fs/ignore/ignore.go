package ignore

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// FileName is the name of the files with rules.
const FileName = ".gitignore"

// maxFileBytes bounds a file with rules; what is beyond does not count.
const maxFileBytes = 1 << 20

// Rules are those that apply in one directory, its parents' included. They are
// immutable. A nil *Rules ignores nothing.
type Rules struct {
	parent *Rules
	dir    string // absolute
	rules  []pattern
}

// ForTree returns the rules for the directory root: its own, and if it lies in a git
// work tree those of the directories above it up to the top of that tree, with the
// tree's info/exclude.
func ForTree(root string) *Rules {
	var above []string // from root up
	for dir := root; ; dir = filepath.Dir(dir) {
		above = append(above, dir)
		if isWorkTree(dir) {
			rules := (*Rules)(nil).with(dir, filepath.Join(dir, ".git", "info", "exclude"))
			for _, dir := range slices.Backward(above) {
				rules = rules.Enter(dir)
			}
			return rules
		}
		if dir == filepath.Dir(dir) {
			return (*Rules)(nil).Enter(root)
		}
	}
}

// isWorkTree reports whether dir is the top of a git work tree. An empty directory that
// nobody can write is not git's: a sandbox keeps .git from being made with one.
func isWorkTree(dir string) bool {
	git := filepath.Join(dir, ".git")
	info, err := os.Lstat(git)
	if err != nil {
		return false
	}
	if !info.IsDir() || info.Mode().Perm()&0o222 != 0 {
		return true
	}
	f, err := os.Open(git)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return err == nil
}

// Enter returns the rules for dir, which is below the directory r is for, with those
// of a file in it.
func (r *Rules) Enter(dir string) *Rules { return r.with(dir, filepath.Join(dir, FileName)) }

func (r *Rules) with(dir, file string) *Rules {
	rules := load(file)
	if len(rules) == 0 {
		return r
	}
	return &Rules{parent: r, dir: dir, rules: rules}
}

// load reads a file with rules; none when it cannot be read.
func load(file string) []pattern {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	data := make([]byte, min(info.Size(), maxFileBytes))
	n, _ := f.Read(data)
	return parse(string(data[:n]))
}

// Match reports whether the entry name of the directory dir is left out. dir is the
// one r is for or below it.
func (r *Rules) Match(dir, name string, isDir bool) bool {
	if isDir && name == ".git" {
		return true // it is git's own, rules or not
	}
	for ; r != nil; r = r.parent {
		rel := name
		if dir != r.dir {
			rel = path.Join(strings.TrimPrefix(strings.TrimPrefix(dir, r.dir), "/"), name)
		}
		if p := last(r.rules, rel, name, isDir); p != nil {
			return !p.negate
		}
	}
	return false
}
