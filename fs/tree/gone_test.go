package tree_test

import (
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// An edit that has removed a directory finds nothing in it until the directory is made again.
func TestDeletesBelowARemovedDirectory(t *testing.T) {
	put := func(path string) tree.Entry {
		return tree.Entry{Kind: tree.KindSymlink, Path: path, Target: "to"}
	}
	gone := func(path string) tree.Entry { return tree.Entry{Kind: tree.KindDelete, Path: path} }
	for name, c := range map[string]struct {
		entries []tree.Entry
		again   func(e *tree.Edit) error
		last    string // removed in the end
	}{
		"a name beside":     {entries: []tree.Entry{gone("/d"), gone("/d/f")}, last: "/d2"},
		"another below":     {entries: []tree.Entry{gone("/d/e"), gone("/d/e/g")}, last: "/d/f"},
		"an entry":          {entries: []tree.Entry{gone("/d"), put("/d/f")}, last: "/d/f"},
		"another directory": {entries: []tree.Entry{gone("/d"), put("/d/e/h"), gone("/d/f")}, last: "/d/e/h"},
		"a link":            {entries: []tree.Entry{gone("/d")}, again: func(e *tree.Edit) error { return e.Link("/d2", "/d") }, last: "/d"},
		"a rename":          {entries: []tree.Entry{gone("/d")}, again: func(e *tree.Edit) error { return e.Rename("/x", "/d") }, last: "/d/f"},
		"made":              {entries: []tree.Entry{gone("/d")}, again: func(e *tree.Edit) error { return e.Mkdir("/d/f", 0o755, true) }, last: "/d/f"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHome(t)
			b.update(b.tree, func(e *tree.Edit) error {
				for _, path := range []string{"/d/f", "/d/e/g", "/x/f"} {
					entry := put(path)
					if _, err := e.Apply(&entry, tree.WriteTombs); err != nil {
						return err
					}
				}
				_, err := e.Apply(&tree.Entry{Kind: tree.KindFile, Path: "/d2", Mode: 0o644}, tree.WriteTombs)
				return err
			})
			b.update(b.tree, func(e *tree.Edit) error {
				for i := range c.entries {
					if _, err := e.Apply(&c.entries[i], tree.WriteTombs); err != nil {
						return err
					}
				}
				if c.again != nil {
					if err := c.again(e); err != nil {
						return err
					}
				}
				if _, err := e.Lstat(c.last); err != nil {
					t.Fatalf("before it is removed: %v", err)
				}
				entry := gone(c.last)
				changed, err := e.Apply(&entry, tree.WriteTombs)
				if !changed {
					t.Errorf("%s is not removed", c.last)
				}
				if _, e := e.Lstat(c.last); e == nil {
					t.Errorf("%s is there", c.last)
				}
				return err
			})
		})
	}
}
