package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// has reports whether a version of a path waits.
func (w waits) has(path string) bool {
	for _, p := range w {
		if p == path {
			return true
		}
	}
	return false
}

// errLostOrder says that a remote contradicts itself.
var errLostOrder = &InvariantError{"the versions that it has lost are not in order"}

// waitingThere lists the versions at the remote that wait for room here, but for those that were tried a moment ago. gone are
// the numbers of versions that the remote keeps no more.
func (m *Mirror) waitingThere(ctx context.Context) (list []lost.Version, gone []int64, err error) {
	due := map[int64]bool{}
	for n, path := range m.s.notes.Waits {
		if !m.fullHere.has(path) {
			due[n] = true
		}
	}
	if len(due) == 0 {
		return nil, nil, nil
	}
	numbers := slices.Sorted(maps.Keys(due))
	for after, more := numbers[0]-1, true; more && after < numbers[len(numbers)-1]; {
		some, any, err := m.remote().Lost(ctx, after, 0)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil, nil, nil // another connection has them
		}
		if err != nil {
			return nil, nil, fmt.Errorf("list what the remote has lost: %w", err)
		}
		for i := range some {
			if some[i].ID <= after {
				return nil, nil, errLostOrder
			}
			if after = some[i].ID; due[after] {
				list = append(list, some[i])
				delete(due, after)
			}
		}
		more = any && len(some) > 0
	}
	for n := range due {
		m.log.Warn("the remote does not keep a version any more for which there was no room here", "path", m.s.notes.Waits[n], "version", n)
	}
	return list, slices.Collect(maps.Keys(due)), nil
}

// storeReturned stores next with what has become of versions that were overtaken at the remote, has some local paths sent
// once more, and reports the versions that stay.
func (m *Mirror) storeReturned(ctx context.Context, next state, back *returned, again []string, r *Result) error {
	next.notes.TheirLost = back.next
	before := next.notes.Waits
	var told []Conflict
	err := m.keepTheirs(ctx, back.stay, r, func(e *tree.Edit, all []Conflict) error {
		told, next.notes.Waits = nil, maps.Clone(before)
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
	r.Conflicts += len(told)
	m.report(told)
	return nil
}

// keepTheirs keeps versions of the remote's here in one transaction with what also does. also gets the conflicts that
// they are in, in their order. Those with Waits are not kept: there is no room for them.
func (m *Mirror) keepTheirs(ctx context.Context, list []lost.Version, r *Result, also func(*tree.Edit, []Conflict) error) error {
	entries := make([]tree.Entry, len(list))
	for i := range list {
		entries[i] = list[i].Entry
	}
	var all []Conflict
	full := map[tree.Hash]bool{}
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
func (m *Mirror) keepAll(e *tree.Edit, list []lost.Version, gone, full map[tree.Hash]bool) ([]Conflict, error) {
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
		case isGone(&v, full):
			c.Waits = true
		default:
			if err = d.secure(&v); tree.NoRoom(err) {
				c.Waits = true
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
