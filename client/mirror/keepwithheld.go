package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// keepWithheld keeps the remote's versions that did not come over, and that a block takes the place of. It leaves
// entries out of the block for which there is no room to do so: no version is kept for their sake.
func (m *Mirror) keepWithheld(ctx context.Context, b *block, r *Result) error {
	if m.s.held == nil || len(m.s.held.Paths) == 0 {
		return nil
	}
	replaces := m.s.held.replaced()
	waits := map[string]bool{} // local paths of versions for which there is no room here
	for i := range b.entries {
		path, _ := m.roots.toLocal(b.entries[i].Path)
		over := replaces(path, b.entries[i].Kind)
		for p := path; p != "/"; p = above(p) { // also of a removal
			if h, ok := m.s.held.at(p); ok && h.isWithheld() {
				over = append(over, p)
			}
		}
		for _, p := range over {
			waits[p] = waits[p] || m.fullHere.has(p)
		}
	}
	maps.DeleteFunc(waits, func(_ string, is bool) bool { return !is })
	var found map[string]lost.Version
	for {
		over := m.leaveOver(b, waits, replaces)
		if found == nil {
			var err error
			if found, err = m.withheldThere(ctx, over); err != nil {
				return err
			}
		}
		var list []lost.Version
		for _, p := range over {
			if v, ok := found[p]; ok {
				list = append(list, v)
			}
		}
		full, err := m.keepEach(ctx, list, r)
		if err != nil || len(full) == 0 {
			return err
		}
		for _, p := range full {
			waits[p] = true
		}
	}
}

// leaveOver leaves the entries out of a block that take the place of versions for which there is no room here, and
// has those named. It returns the local paths of the versions that the others take the place of.
func (m *Mirror) leaveOver(b *block, waits map[string]bool, replaces func(string, tree.Kind) []string) []string {
	over := map[string]bool{}
	out := b.leaveOut(func(e *tree.Entry) bool {
		path, _ := m.roots.toLocal(e.Path)
		return covers(waits, path) || slices.ContainsFunc(replaces(path, e.Kind), func(p string) bool { return waits[p] })
	})
	for i := range b.entries {
		path, _ := m.roots.toLocal(b.entries[i].Path)
		for _, p := range replaces(path, b.entries[i].Kind) {
			over[p] = true
		}
	}
	for i := range out {
		m.leave(b, &out[i], &m.fullHere)
	}
	for p := range waits {
		if !m.fullHere.has(p) { // else it is an entry of its own
			m.fullHere.add(p, "")
		}
	}
	return slices.Sorted(maps.Keys(over))
}

// withheldThere reads the versions of some local paths at the remote that did not come over, as far as they are still
// there and not kept here.
func (m *Mirror) withheldThere(ctx context.Context, paths []string) (map[string]lost.Version, error) {
	entries := make([]*tree.Entry, len(paths))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxLooks)
	for i, path := range paths {
		group.Go(func() error { // ends with its answer, or with ctx
			h, _ := m.s.held.at(path)
			if kept, err := m.isKept(ctx, path, h.Kept); kept || err != nil {
				return err
			}
			remote, _ := m.roots.toRemote(path)
			e, err := m.remote().ReadEntry(ctx, remote)
			if err != nil {
				return fmt.Errorf("read %s at the remote: %w", remote, err)
			}
			if e != nil && printOf(e) == h.Remote {
				entries[i] = e
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	found := map[string]lost.Version{}
	for i, e := range entries {
		if e != nil {
			found[paths[i]] = lost.Version{Path: e.Path, Entry: *e}
		}
	}
	return found, nil
}

// isKept reports whether a lost version is kept here that has a local path. 0 is none.
func (m *Mirror) isKept(ctx context.Context, path string, number int64) (bool, error) {
	if number == 0 {
		return false, nil
	}
	v, err := lost.Get(ctx, m.forest, number)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the lost version %d: %w", number, err)
	}
	return v.Path == path, nil
}

// errKeepsSome ends a transaction that would keep some of the versions only.
var errKeepsSome = errors.New("there is no room for all versions")

// keepEach keeps versions of the remote's that did not come over, reports them, and remembers that they are kept. If
// there is no room here for some it does nothing, and returns the local paths of those.
func (m *Mirror) keepEach(ctx context.Context, list []lost.Version, r *Result) (full []string, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	var all []Conflict
	next := m.s
	err = m.keepTheirs(ctx, list, r, func(e *tree.Edit, of []Conflict) error {
		all, full = of, nil
		kept := map[string]*held{}
		for i := range of {
			h, known := m.s.held.at(of[i].Path)
			switch {
			case of[i].Waits:
				full = append(full, of[i].Path)
			case known:
				h.Kept = of[i].Lost
				kept[of[i].Path] = &h
			}
		}
		if len(full) > 0 {
			return errKeepsSome
		}
		next.held = m.s.held.with(kept)
		return m.store(e, &next)
	})
	if errors.Is(err, errKeepsSome) {
		return full, nil
	}
	if err != nil {
		m.loaded = false
		return nil, err
	}
	m.s = next
	r.Conflicts += len(all)
	m.report(all)
	return nil, nil
}

// replaced returns a function that lists the local paths whose versions did not come over, and that a change from here
// takes the place of at the remote: its own, one above it, or those below it.
func (s *heldSet) replaced() func(path string, kind tree.Kind) []string {
	dirs := s.above(func(_ string, h held) bool { return h.isWithheld() })
	return func(path string, kind tree.Kind) (out []string) {
		for p := path; p != "/" && (p == path || kind != tree.KindDelete); p = above(p) {
			if h, ok := s.at(p); ok && h.isWithheld() {
				out = append(out, p)
			}
		}
		if !dirs[path] || kind != tree.KindFile && kind != tree.KindSymlink {
			return out
		}
		for p, h := range s.Paths {
			if strings.HasPrefix(p, path+"/") && h.isWithheld() {
				out = append(out, p)
			}
		}
		slices.Sort(out)
		return out
	}
}
