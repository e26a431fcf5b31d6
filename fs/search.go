package fs

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/ignore"
	"github.com/wsd-dev/wsd/fs/pattern"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// searcher walks a tree for fs/glob and fs/grep, in the bytewise order of the paths,
// without following links.
type searcher struct {
	root      string
	depth     int // of the deepest entries visited, -1 for no limit
	hidden    bool
	gitignore bool
	exclude   pattern.Set
	visit     func(rel string, kind uint32) error
	fail      func(path string, err error) error // a directory cannot be read
}

// errStop ends a search early.
var errStop = errors.New("stop searching")

// run walks below the directory dir, which is rel below the root.
func (s *searcher) run(ctx context.Context, rel string) error {
	dir := slashpath.Join(s.root, rel)
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	var rules *ignore.Rules
	if s.gitignore {
		rules = ignore.ForTree(dir)
	}
	depth := 0
	if rel != "" {
		depth = strings.Count(rel, "/") + 1
	}
	return s.enter(ctx, d, rel, depth, rules)
}

// step is a child of a directory. As the path of a directory's child begins with the
// directory's and a slash, a directory has two places in the order: its own and that
// of its children.
type step struct {
	dirent
	key   string
	enter bool
}

// enter visits the children of d and closes it.
func (s *searcher) enter(ctx context.Context, d *directory, rel string, depth int, rules *ignore.Rules) error {
	defer d.close()
	listed := &listing{ctx: ctx}
	defer listed.release()
	entries, err := d.list(listed)
	if rpc.IsBusy(err) {
		return err // what is missing would not be missed
	}
	if err != nil {
		return s.fail(d.path, err)
	}
	steps := make([]step, 0, len(entries)+8)
	for _, e := range entries {
		if !s.hidden && strings.HasPrefix(e.name, ".") {
			continue
		}
		if e.kind, err = d.kindOf(e, false); err != nil {
			continue // it has gone
		}
		isDir := e.kind == unix.S_IFDIR
		if s.gitignore && rules.Match(d.path, e.name, isDir) || s.exclude.Match(slashpath.Join(rel, e.name)) || isTemporary(e.name) {
			continue
		}
		steps = append(steps, step{dirent: e, key: e.name})
		if isDir && (s.depth < 0 || depth+1 < s.depth) {
			steps = append(steps, step{dirent: e, key: e.name + "/", enter: true})
		}
	}
	slices.SortFunc(steps, func(a, b step) int { return strings.Compare(a.key, b.key) })
	for _, st := range steps {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		child := slashpath.Join(rel, st.name)
		if !st.enter {
			err = s.visit(child, st.kind)
		} else {
			err = s.enterChild(ctx, d, st.name, child, depth+1, rules)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *searcher) enterChild(ctx context.Context, d *directory, name, rel string, depth int, rules *ignore.Rules) error {
	sub, err := d.openSubdir(name)
	switch {
	case err == nil:
	case isGone(err):
		return nil
	default:
		return s.fail(slashpath.Join(d.path, name), err)
	}
	if s.gitignore {
		rules = rules.Enter(sub.path)
	}
	return s.enter(ctx, sub, rel, depth, rules)
}
