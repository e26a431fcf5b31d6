package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A toCopy is a version from here that an entry of the remote takes the place of.
type toCopy struct{ version, by tree.Entry }

// copied says where a version was copied to.
type copied struct{ print, path string }

// copyAside keeps versions beside their paths. The copies are changes from here like
// others, and are sent. A version that has changed again in between, or does not fit, is left for another attempt.
func (m *Mirror) copyAside(ctx context.Context, list []toCopy, kept map[string]copied, failed unkeepable) error {
	made := map[string]copied{}
	_, err := m.cfg.Local.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		clear(made)
		entries, err := copies(e, list, made)
		return func(yield func(tree.Entry, error) bool) {
			for _, c := range entries {
				if !yield(c, nil) {
					return
				}
			}
			if err != nil {
				yield(tree.Entry{}, err)
			}
		}
	}, tree.SkipSame|tree.RealParents, nil)
	if err = partly(err); err != nil {
		if failed.copying(err, made) {
			return nil
		}
		return err
	}
	for path, c := range made {
		kept[path] = c
	}
	return nil
}

func copies(e *tree.Edit, list []toCopy, made map[string]copied) ([]tree.Entry, error) {
	d := decision{edit: e}
	taken := names{}
	var out []tree.Entry
	for i := range list {
		c := &list[i]
		if _, ok := made[c.version.Path]; ok {
			continue
		}
		now, err := d.at(c.version.Path)
		if err != nil {
			return nil, err
		}
		if !same(now, &c.version) {
			continue
		}
		path, err := d.freeName(c, taken)
		if err != nil {
			return nil, err
		}
		taken.add(path)
		made[c.version.Path] = copied{printOf(&c.version), path}
		entry := c.version
		entry.Path = path
		out = append(out, entry)
	}
	return out, nil
}

// errNames says that there are copies under all the names that there can be.
var errNames = errors.New("there are too many copies of it")

// names are paths of copies, and with false those of the directories that they are in.
type names map[string]bool

func (n names) add(path string) {
	n[path] = true
	for p := above(path); p != "/"; p = above(p) {
		if _, known := n[p]; known {
			return
		}
		n[p] = false
	}
}

// has reports whether there is no room for another path.
func (n names) has(path string) bool {
	if _, ok := n[path]; ok {
		return true
	}
	for p := above(path); p != "/"; p = above(p) {
		if n[p] {
			return true
		}
	}
	return false
}

// freeName finds a path for a copy: one that nothing has, or the same version, and above
// which there are only directories.
func (d *decision) freeName(c *toCopy, taken names) (string, error) {
	base, rest := c.version.Path, ""
	mark := ".conflict-" + printOf(&c.version)[:8]
	if r, ok := strings.CutPrefix(c.version.Path, c.by.Path+"/"); ok {
		// It was in a directory that makes room: so it is in one again.
		base, rest = c.by.Path, "/"+r
		mark = ".conflict-" + printOf(&c.by)[:8]
	}
	for n := 1; n <= 100; n++ {
		suffix := mark
		if n > 1 {
			suffix = fmt.Sprintf("%s-%d", mark, n)
		}
		path := tree.Shorten(base, len(suffix)) + suffix + rest
		if taken.has(path) {
			continue
		}
		at, err := d.at(path)
		if err != nil {
			return "", err
		}
		way, err := d.inTheWay(path, at)
		if err != nil {
			return "", err
		}
		if way == nil || same(at, &c.version) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", c.version.Path, errNames)
}
