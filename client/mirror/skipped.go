package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// watermarks asks the remote how far it is, and notes what it leaves out.
func (m *Mirror) watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	m.heard = nil
	wm, err := m.cfg.Remote.Watermarks(ctx, settle)
	if err != nil {
		return wm, fmt.Errorf("read the remote's watermarks: %w", err)
	}
	m.heard = &heard{wm: wm, unused: settle}
	m.takeNames(&wm)
	m.checksBase, m.setsTimes, m.checksAlone, m.theirLost = wm.ChecksBase, wm.SetsTimes, wm.ChecksAlone, min(wm.Lost, tree.MaxRev)
	m.there = nil
	for _, s := range wm.Skipped {
		paths := s.Paths
		s.Paths = nil
		for _, p := range paths {
			local, ok := m.roots.toLocal(p.Path)
			if !ok || !m.looksAt(local) {
				s.Count--
				continue
			}
			s.Paths = append(s.Paths, changes.SkippedPath{Path: local, Error: p.Error})
		}
		if s.Count > 0 {
			m.there = append(m.there, s)
		}
	}
	return wm, nil
}

// A heard is what the remote has said last of how far it is. Nothing was pushed to it since.
type heard struct {
	wm changes.Watermarks
	// unused: it was settled, and no pull has gone by what it said.
	unused bool
}

// settled returns what the remote says of how far it is once it has settled. It is asked unless
// connect has just done so.
func (m *Mirror) settled(ctx context.Context) (changes.Watermarks, error) {
	if m.heard == nil || !m.heard.unused {
		if _, err := m.watermarks(ctx, true); err != nil {
			return changes.Watermarks{}, err
		}
	}
	m.heard.unused = false
	return m.heard.wm, nil
}

// looksAt reports whether a path here is one that is synchronised.
func (m *Mirror) looksAt(path string) bool { return m.looksAtBy(m.filter, path) }

// looksAtBy is looksAt by a filter.
func (m *Mirror) looksAtBy(f *filter, path string) bool {
	_, ok := m.roots.toRemote(path)
	if !ok {
		return false
	}
	hidden := f.hides(path, false)
	if f.hides(path, true) != hidden { // a directory that cannot be read may be one that is ignored
		hidden = m.hidesKind(f, path)
	}
	return !hidden
}

// hidesKind reports whether a path that is left out is ignored by a filter, being of the kind that
// it is on either side. Of one that is not known it is not.
func (m *Mirror) hidesKind(f *filter, path string) bool {
	if m.s.ignored.has(path) || m.cfg.Dir == "" {
		return m.s.ignored.has(path)
	}
	info, err := os.Lstat(filepath.Join(m.cfg.Dir, filepath.FromSlash(rawname.Raw(m.relative(path)))))
	return err == nil && f.hides(path, info.IsDir())
}

// left is what the remote leaves out, and whose content it cannot read.
func (m *Mirror) left() []changes.Skipped {
	special := map[string]bool{} // what a pipe is in the place of is named by that
	for _, s := range m.there {
		if s.Why == changes.Special {
			special = setOf(paths(&s))
		}
	}
	lacking := slices.DeleteFunc(m.s.held.lacking(), func(path string) bool {
		return !m.looksAt(path) || m.fullHere.has(path) || covers(special, path)
	})
	there := slices.Concat(m.there, withoutRoom(m.full.list(), &m.full))
	if len(lacking) == 0 {
		return there
	}
	s := changes.Skipped{Why: changes.Unreadable, Count: len(lacking)}
	for _, path := range lacking[:min(len(lacking), changes.MaxSkipped)] {
		why := "its content cannot be read there"
		if h, _ := m.s.held.at(path); h.Apart {
			why += "; the change here is not sent"
		}
		s.Paths = append(s.Paths, changes.SkippedPath{Path: path, Error: why})
	}
	return append(there, s)
}

// here is what this side leaves out.
func (m *Mirror) here() []changes.Skipped {
	named := map[string]bool{}
	list := m.cfg.Local.Skipped(func(path string) bool {
		if !m.looksAt(path) {
			return false
		}
		if !m.unread.none() {
			named[path] = true
		}
		return true
	})
	list = changes.WithSkipped(list, m.unreadBeside(named))
	waits := slices.Collect(maps.Values(m.s.notes.Waits))
	waitsThere := setOf(waits)
	full := append(m.fullHere.list(), waits...)
	slices.Sort(full)
	full = slices.DeleteFunc(slices.Compact(full), func(path string) bool {
		_, known := m.s.held.at(path)
		_, _, held := m.s.held.conflictAt(path)
		return !m.comes(path) && !m.looksAt(path) || !known && !held && !waitsThere[path]
	})
	return slices.Concat(changes.WithSkipped(list, m.notSent()), withoutRoom(full, &m.fullHere))
}

// disowned notes files that lost their owner as they were replaced, as a side calls them.
func (m *Mirror) disowned(paths []string, more int, remote bool, r *Result) {
	of := &r.DisownedHere
	if remote {
		of = &r.DisownedThere
		local := make([]string, 0, len(paths))
		for _, p := range paths {
			if p, ok := m.roots.toLocal(p); ok {
				local = append(local, p)
			}
		}
		paths = local
	}
	addSkipped(of, changes.DisownedOf(paths, more))
}

// addSkipped adds paths that are left out for the same reason.
func addSkipped(to *changes.Skipped, s changes.Skipped) {
	if s.Count == 0 {
		return
	}
	to.Why = s.Why
	to.Count += s.Count
	to.Paths = append(to.Paths, s.Paths[:min(len(s.Paths), changes.MaxSkipped-len(to.Paths))]...)
}

// partly takes an error of Apply for none if nothing is missing but what here names.
func partly(err error) error {
	if pending, ok := errors.AsType[*changes.PendingError](err); ok && pending.Partly {
		return nil
	}
	return err
}
