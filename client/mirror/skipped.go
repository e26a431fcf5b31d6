package mirror

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/fs/changes"
)

// watermarks asks the remote how far it is, and notes what it leaves out.
func (m *Mirror) watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	wm, err := m.cfg.Remote.Watermarks(ctx, settle)
	if err != nil {
		return wm, err
	}
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

// looksAt reports whether a path here is one that is synchronised.
func (m *Mirror) looksAt(path string) bool {
	_, ok := m.roots.toRemote(path)
	return ok && !hidden(path, m.cfg.Ignore)
}

// here is what this side leaves out.
func (m *Mirror) here() []changes.Skipped { return m.cfg.Local.Skipped(m.looksAt) }

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
