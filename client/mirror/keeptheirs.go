package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// waits are versions that were overtaken at the remote and are kept there, since there was no room for them here: their
// local paths by their numbers. They were reported. A waits is not changed.
type waits map[int64]string

// without returns waits without some numbers.
func (w waits) without(numbers []int64) waits {
	if len(numbers) == 0 {
		return w
	}
	out := maps.Clone(w)
	for _, n := range numbers {
		delete(out, n)
	}
	return out
}

// errLostOrder says that a remote contradicts itself.
var errLostOrder = &InvariantError{"the versions that it has lost are not in order"}

// A lostPass is how far versions that were overtaken at the remote are dealt with, once they are more than are dealt with
// at once. It may be known no longer then which changes overtook the others: each that was overtaken counts as
// overtaken from here. It is not changed once it is stored.
type lostPass struct {
	Dealt map[int64]bool `json:"dealt,omitempty"` // numbers of versions that are dealt with before their turn
}

// from returns a copy of a pass that goes on from a number; of nil a new one.
func (p *lostPass) from(number int64) *lostPass {
	out := &lostPass{Dealt: map[int64]bool{}}
	if p != nil {
		maps.Copy(out.Dealt, p.Dealt)
	}
	maps.DeleteFunc(out.Dealt, func(n int64, _ bool) bool { return n < number })
	return out
}

// lostPath returns the local path of a version that the remote says to have lost; false if there can be no such version,
// or it is of nothing that is synchronised.
func (m *Mirror) lostPath(v *lost.Version) (string, bool) {
	path, inside := m.roots.toLocal(v.Path)
	is := inside && isNumber(v.ID) && isPath(v.Path) && !m.roots.isRoot(path) &&
		(v.Entry.Kind == tree.KindFile || v.Entry.Kind == tree.KindSymlink)
	return path, is
}

// isNumber reports whether a number can be that of a version.
func isNumber(n int64) bool { return n > 0 && n < tree.MaxRev }

// isPath reports whether a path can be one of a tree.
func isPath(path string) bool { return tree.CheckPath(path) == nil && tree.CheckForm(path) == nil }

// checked returns waits without what cannot be.
func (m *Mirror) checked(all waits) waits {
	var drop []int64
	for n, path := range all {
		if _, inside := m.roots.toRemote(path); !inside || !isNumber(n) || !isPath(path) {
			m.log.Warn("forgot a version that was to wait at the remote: there can be none with this number and path", "path", path, "version", n)
			drop = append(drop, n)
		}
	}
	return all.without(drop)
}

// waitingThere lists the versions at the remote that wait for room here, but for those that were tried a moment ago. gone are
// the numbers of versions that the remote keeps no more.
func (m *Mirror) waitingThere(ctx context.Context) (list []lost.Version, gone []int64, err error) {
	var due []int64
	for n, path := range m.s.notes.Waits {
		if !m.fullHere.has(path) {
			due = append(due, n)
		}
	}
	slices.Sort(due)
	for len(due) > 0 {
		first := due[0]
		end := sort.Search(len(due), func(i int) bool { return due[i] >= first+page })
		some, more, err := m.remote().Lost(ctx, first-1, int(due[end-1]-first+1))
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil, nil // another connection has them
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list what the remote has lost: %w", err)
		}
		upTo, there := first-1, map[int64]bool{} // all up to it are known, and those that are there
		for i := range some {
			v := &some[i]
			if v.ID <= upTo || !isNumber(v.ID) {
				return nil, nil, errLostOrder
			}
			upTo = v.ID
			if _, is := slices.BinarySearch(due, v.ID); !is {
				continue
			}
			if path, is := m.lostPath(v); is && path == m.s.notes.Waits[v.ID] {
				list, there[v.ID] = append(list, *v), true
			}
		}
		if !more || len(some) == 0 {
			upTo = due[len(due)-1]
		}
		for ; len(due) > 0 && due[0] <= upTo; due = due[1:] {
			if !there[due[0]] {
				m.log.Warn("the remote does not keep a version any more for which there was no room here", "path", m.s.notes.Waits[due[0]], "version", due[0])
				gone = append(gone, due[0])
			}
		}
	}
	return list, gone, nil
}

// storeReturned stores next with what has become of versions that were overtaken at the remote, has some local paths sent
// once more, and reports the versions that stay, or are gone.
func (m *Mirror) storeReturned(ctx context.Context, next state, back *returned, again []string, r *Result) error {
	next.notes.TheirLost, next.notes.Pass, next.notes.Gone = back.next, back.pass, nil
	before := next.notes.Waits
	var told []Conflict
	err := m.keepTheirs(ctx, back.stay, r, func(e *tree.Edit, all []Conflict) error {
		var err error
		if told, err = m.goneThere(e, back.gone); err != nil {
			return err
		}
		next.notes.Waits = maps.Clone(before)
		for i := range all {
			number := back.stay[i].ID
			if _, known := before[number]; !known || !all[i].Waits {
				told = append(told, all[i])
			}
			delete(next.notes.Waits, number)
			if all[i].Waits {
				if next.notes.Waits == nil {
					next.notes.Waits = waits{}
				}
				next.notes.Waits[number] = all[i].Path
			}
		}
		for _, path := range slices.Concat(again, back.paths) {
			if err := touch(e, path); err != nil {
				return err
			}
		}
		return m.store(e, &next)
	})
	if err != nil {
		m.loaded = false
		return err
	}
	m.s = next
	for _, path := range next.notes.Waits {
		if !m.fullHere.has(path) {
			m.fullHere.add(path, "")
		}
	}
	if n := len(next.notes.Waits); n >= maxWaits && len(before) < maxWaits {
		m.log.Warn("so many versions wait at the remote for room here that no others are looked at until some have come", "waits", n)
	}
	r.Conflicts += len(told)
	m.report(told)
	return nil
}

// goneThere returns the conflicts of local paths with versions that the remote keeps no more, and for which there was no
// room here.
func (m *Mirror) goneThere(e *tree.Edit, paths []string) ([]Conflict, error) {
	var all []Conflict
	d := decision{m: m, edit: e}
	for _, path := range paths {
		cur, err := d.at(path)
		if err != nil {
			return nil, err
		}
		none := &tree.Entry{Kind: tree.KindDelete, Path: path}
		if cur == nil {
			cur = none
		}
		all = append(all, Conflict{Path: path, Local: versionOf(cur), Remote: versionOf(none), Kept: KeptLocal, Gone: true})
	}
	return all, nil
}

// keepTheirs keeps versions of the remote's here in one transaction with what also does. also gets the conflicts that
// they are in, in their order. Those with Waits are not kept: there is no room for them.
func (m *Mirror) keepTheirs(ctx context.Context, list []lost.Version, r *Result, also func(*tree.Edit, []Conflict) error) error {
	entries := make([]tree.Entry, len(list))
	for i := range list {
		entries[i] = list[i].Entry
	}
	var all []Conflict
	full := noRoom{}
	err := m.withContent(ctx, entries, full, r, func(gone map[tree.Hash]bool) error {
		_, err := m.tree.Update(ctx, func(e *tree.Edit) (err error) {
			if all, err = m.keepAll(e, list, gone, full); err != nil {
				return err
			}
			return also(e, all)
		})
		return err
	})
	if err != nil && len(list) > 0 {
		return fmt.Errorf("keep what was overtaken at the remote: %w", err)
	}
	if err != nil {
		return fmt.Errorf("store the cursors: %w", err)
	}
	return nil
}

// keepAll keeps those of some versions whose content is neither gone nor does not fit here, and returns the conflicts
// that all of them are in.
func (m *Mirror) keepAll(e *tree.Edit, list []lost.Version, gone map[tree.Hash]bool, full noRoom) ([]Conflict, error) {
	var all []Conflict
	d := decision{m: m, edit: e, keep: true}
	for i := range list {
		path, _ := m.roots.toLocal(list[i].Path)
		cur, err := d.at(path)
		if err != nil {
			return nil, err
		}
		if cur == nil {
			cur = &tree.Entry{Kind: tree.KindDelete, Path: path}
		}
		v := list[i].Entry
		v.Path = path
		c := Conflict{Path: path, Local: versionOf(cur), Remote: versionOf(&v), Kept: KeptLocal}
		switch {
		case isGone(&v, gone):
			c.Gone = true
		case full.of(&v) != nil:
			c.Waits = true
			m.fullHere.explain(path, full.of(&v))
		default:
			if err = d.secure(&v); tree.NoRoom(err) {
				c.Waits = true
				m.fullHere.explain(path, err)
			} else if err == nil {
				c.Lost, err = d.keepLost(&v, cur)
			}
			if err != nil && !c.Waits {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}
