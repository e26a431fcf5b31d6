package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A version is overtaken when something that was synchronised came to its place before
// anybody had settled it. One that was overtaken here is a change from here whose path the
// remote has changed as well: bringBack decides it like any conflict. One that was overtaken
// at the remote goes back there as the remote's own change, and comes with the next pull.

// bringBack decides about versions that were overtaken here, also by a pull that was killed.
func (m *Mirror) bringBack(ctx context.Context, r *Result) error {
	failed := ConflictError{Moved: true}
	for range maxTries {
		last, err := lost.Last(ctx, m.forest)
		if err != nil {
			return fmt.Errorf("look for versions that were overtaken: %w", err)
		}
		if last <= m.s.notes.OurLost {
			break
		}
		list, upTo, err := m.lostHere(ctx, last)
		if err != nil {
			return err
		}
		d, err := m.bringBackSome(ctx, list, upTo)
		if d != nil && m.policy == Fail {
			failed.add(d.conflicts)
		} else if d != nil {
			r.Conflicts += len(d.conflicts)
			m.report(d.conflicts)
		}
		if err != nil {
			return fmt.Errorf("bring back what was overtaken: %w", err)
		}
	}
	if len(failed.Conflicts) > 0 {
		return &failed
	}
	return nil
}

// lostHere lists some of the versions that were overtaken here, behind those that are dealt
// with, and up to which number they are all.
func (m *Mirror) lostHere(ctx context.Context, last int64) ([]lost.Version, int64, error) {
	var list []lost.Version
	err := lost.List(ctx, m.forest, m.s.notes.OurLost, func(v *lost.Version) error {
		path, inside := m.roots.toRemote(v.Path)
		if v.ID > last || v.Why != lost.Overtaken || !inside || path == "/" || m.filter.hides(v.Path, v.Entry.Kind == tree.KindDir) {
			return nil
		}
		if len(list) == page {
			last = list[page-1].ID
			return errEnough
		}
		list = append(list, *v)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, 0, fmt.Errorf("list versions that were overtaken: %w", err)
	}
	return list, last, nil
}

// errEnough ends a list.
var errEnough = errors.New("there are enough")

// A comeback is what becomes of versions that were overtaken.
type comeback struct {
	policyAt  func(path string) Policy
	entries   []tree.Entry // what is put into its place, or beside
	drop      []int64      // numbers of versions that are there again
	holds     map[string]*held
	conflicts []Conflict
}

// bringBackSome decides about some of them. It returns what it has decided if that is for
// good, also with an error. Without room for what goes back, all of them stay where they are
// kept.
func (m *Mirror) bringBackSome(ctx context.Context, list []lost.Version, upTo int64) (*comeback, error) {
	if len(list) == 0 {
		next := m.s
		next.notes.OurLost = upTo
		return nil, m.commit(ctx, next)
	}
	c, err := m.tryComeback(ctx, list, upTo, m.policyAt)
	if c == nil && changes.Code(err) == changes.CodeNoRoom {
		c, err = m.tryComeback(ctx, list, upTo, func(string) Policy { return Theirs })
	}
	return c, err
}

// tryComeback is bringBackSome with a policy for each path.
func (m *Mirror) tryComeback(ctx context.Context, list []lost.Version, upTo int64, policyAt func(string) Policy) (*comeback, error) {
	var c *comeback
	var next state
	_, err := m.cfg.Local.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		var err error
		c, err = m.comeback(e, list, policyAt, true)
		return func(yield func(tree.Entry, error) bool) {
			if err != nil {
				yield(tree.Entry{}, err)
				return
			}
			for _, entry := range c.entries {
				if !yield(entry, nil) {
					return
				}
			}
		}
	}, tree.RealParents, func(e *tree.Edit) error {
		for _, id := range c.drop {
			if err := lost.Drop(e, id); err != nil {
				return err
			}
		}
		next = m.s
		next.notes.OurLost = upTo
		next.held = next.held.with(c.holds)
		return m.store(e, &next)
	})
	if err = partly(err); err != nil {
		// It may be for good all the same, and only not be on disk yet.
		stored, loadErr := m.loadState(context.WithoutCancel(ctx))
		if loadErr != nil || stored.notes.OurLost < upTo {
			c = nil
		}
		return c, err
	}
	m.s = next
	return c, nil
}

// comeback decides about versions that were overtaken here. keep has the other versions
// kept that lose.
func (m *Mirror) comeback(e *tree.Edit, list []lost.Version, policyAt func(string) Policy, keep bool) (*comeback, error) {
	c := &comeback{policyAt: policyAt, holds: map[string]*held{}}
	d := decision{m: m, edit: e, keep: keep, unseen: m.unseenHere()}
	taken, last := names{}, map[string]int{}
	for i := range list {
		last[list[i].Path] = i
	}
	for i := range list {
		if err := c.one(&d, &list[i], last[list[i].Path] == i, taken); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// one decides about one of them. last says that none of the others is a later one of its
// path; taken are the paths of copies so far.
func (c *comeback) one(d *decision, v *lost.Version, last bool, taken names) error {
	cur, err := d.at(v.Path)
	if err != nil {
		return err
	}
	by, err := d.inTheWay(v.Path, cur)
	if err != nil {
		return err
	}
	x := tree.Entry{Kind: tree.KindDelete, Path: v.Path}
	if by != nil {
		x = *by
	}
	told := Conflict{Path: v.Path, Local: versionOf(&v.Entry), Remote: versionOf(&x), Kept: KeptRemote, Lost: v.ID}
	if x.Path != v.Path {
		told.By = x.Path
	}
	version := v.Entry
	version.Path = v.Path
	policy := c.policyAt(v.Path)
	// It can go back to its place as long as nothing else has changed there since.
	fits := last && !d.unseen.has(v.Path) && tree.Fingerprint(&x) == v.By && (by == nil || x.Path == v.Path && x.Kind != tree.KindDir)
	switch {
	case policy == Theirs, !fits && policy == Ours && x.Path == v.Path && x.Kind != tree.KindDir:
		// What was written after it stays.
	case fits && (policy == Ours || policy == Both && by == nil):
		told.Kept = KeptLocal
		if told.Lost, err = d.keepLost(&x, &version); err != nil {
			return err
		}
	case fits && !policy.decides():
		told.Kept, told.Held, told.Lost = KeptNone, true, 0
		c.holds[v.Path] = &held{Remote: printOf(&x), Kind: x.Kind, Conflict: true, Apart: true, Since: d.edit.Rev(), Fetched: d.m.s.peer.Fetch.Rev}
	default:
		told.Kept, told.Lost = KeptBoth, 0
		if version.Path, err = d.freeName(&toCopy{version: version, by: x}, taken); err != nil {
			return err
		}
		told.Copy = version.Path
	}
	if told.Kept != KeptRemote {
		taken.add(version.Path)
		c.entries = append(c.entries, version)
		c.drop = append(c.drop, v.ID)
	}
	c.conflicts = append(c.conflicts, told)
	return nil
}

// inTheWay is what there is at a path, or above it and no directory; nil for nothing.
func (d *decision) inTheWay(path string, cur *tree.Entry) (*tree.Entry, error) {
	if live(cur) {
		return cur, nil
	}
	for p := above(path); p != "/"; p = above(p) {
		e, err := d.at(p)
		if err != nil {
			return nil, err
		}
		if live(e) {
			if e.Kind == tree.KindDir {
				return nil, nil
			}
			return e, nil
		}
	}
	return nil, nil
}

// planBack tells what would become of versions that were overtaken here.
func (m *Mirror) planBack(ctx context.Context, p *Plan, after *decided) error {
	last, err := lost.Last(ctx, m.forest)
	if err != nil || last <= m.s.notes.OurLost {
		return err
	}
	list, _, err := m.lostHere(ctx, last)
	if err != nil || len(list) == 0 {
		return err
	}
	var c *comeback
	_, err = m.tree.Update(ctx, func(e *tree.Edit) error {
		if c, err = m.comeback(e, list, m.policyAt, false); err != nil {
			return err
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return err
	}
	if m.policy == Fail {
		return &ConflictError{Conflicts: c.conflicts}
	}
	p.conflicts(c.conflicts)
	after.more = append(after.more, c.entries...)
	return nil
}

// giveBack puts back versions that were overtaken at the remote since the last time: by
// pushes whose answers never came, or whose entries came to its disk late. It also keeps those here that
// have waited for room. It reports whether some went back.
func (m *Mirror) giveBack(ctx context.Context, target tree.Cursor, r *Result) (bool, error) {
	stay, numbers, err := m.waitingThere(ctx)
	if err != nil {
		return false, err
	}
	gone := m.s.notes.Gone
	for _, n := range numbers {
		gone = append(gone[:len(gone):len(gone)], m.s.notes.Waits[n])
	}
	if len(stay)+len(gone) > 0 {
		next := m.s
		next.notes.Waits = next.notes.Waits.without(numbers)
		back := &returned{next: next.notes.TheirLost, pass: next.notes.Pass, stay: stay, gone: gone}
		if err := m.storeReturned(ctx, next, back, nil, r); err != nil {
			return false, err
		}
	}
	moved := false
	for more := m.lostMore(); more; {
		back := &returned{next: m.theirLost + 1} // what was lost before is nothing to us
		if from := m.s.notes.TheirLost; from > 0 {
			if back, err = m.giveBackSince(ctx, from, target); err != nil {
				return moved, err
			}
		}
		if back.next == m.s.notes.TheirLost && back.pass == m.s.notes.Pass {
			break // nothing is new, or there is no room for more
		}
		if err := m.storeReturned(ctx, m.s, back, nil, r); err != nil {
			return moved, err
		}
		moved = moved || len(back.paths) > 0
		if more = back.pass != nil; more && m.lostLists >= m.limits.lost {
			return moved, fmt.Errorf("%w: the %d lists of this call came to version %d", ErrLost, m.lostLists, back.next-1)
		}
	}
	return moved, nil
}

// ErrLost says that the remote lists more versions that it has lost than a call looks at. The next call goes on with the
// others.
var ErrLost = errors.New("the server lists too many versions that were overtaken there; another run goes on with the others")

// lostMore reports whether the remote has lost versions that are not dealt with.
func (m *Mirror) lostMore() bool {
	return m.theirLost >= m.s.notes.TheirLost && (m.s.notes.TheirLost > 0 || m.theirLost > 0)
}

// returned are versions that were overtaken at the remote.
type returned struct {
	paths []string       // local paths of the versions that went back there
	stay  []lost.Version // that could not go back
	gone  []string       // local paths whose versions the remote keeps no more
	next  int64          // from which number on there will be others
	pass  *lostPass      // nil if they are all
	room  int            // how many more it may be about
	later bool           // some that went back have overtaken others that are not dealt with
}

// giveBackSince puts back versions that were overtaken at the remote, from a number on: no more than may wait there
// for room here.
func (m *Mirror) giveBackSince(ctx context.Context, number int64, base tree.Cursor) (*returned, error) {
	out := &returned{next: number, pass: m.s.notes.Pass, room: maxWaits - len(m.s.notes.Waits)}
	all := out.pass != nil        // that were overtaken
	prints := map[string]string{} // of the versions that were overtaken from here, by path: each may have gone back
	if out.room <= 0 && all {
		return out, nil
	}
	out.pass = out.pass.from(number)
	if out.room <= 0 {
		return out, nil
	}
	for more := true; more; {
		if m.lostLists >= m.limits.lost {
			return out, nil
		}
		m.lostLists++
		some, any, err := m.remote().Lost(ctx, out.next-1, 0)
		if errors.Is(err, errors.ErrUnsupported) {
			return &returned{next: number, pass: m.s.notes.Pass}, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list what the remote has lost: %w", err)
		}
		var list []lost.Version
		for i := range some {
			v := &some[i]
			if v.ID < out.next || !isNumber(v.ID) {
				return nil, errLostOrder
			}
			if out.room == 0 {
				break
			}
			out.next = v.ID + 1
			ours, err := m.overtook(ctx, v, all || v.By != "" && prints[v.Path] == v.By)
			if err != nil {
				return nil, err
			}
			if !ours {
				continue
			}
			prints[v.Path] = tree.Fingerprint(&v.Entry)
			if !out.pass.Dealt[v.ID] {
				list = append(list, *v)
				out.room--
			}
		}
		if err := m.giveBackSome(ctx, list, base, out); err != nil {
			return nil, err
		}
		more = any && len(some) > 0
		if out.later || out.room == 0 && len(some) > 0 && (more || out.next <= some[len(some)-1].ID) {
			return out, nil
		}
	}
	out.pass = nil
	return out, nil
}

// overtook reports whether it was a change from here that overtook a version at the remote: one of a push that was not
// answered yet, what both sides have at its path, or any that was overtaken, with may.
func (m *Mirror) overtook(ctx context.Context, v *lost.Version, may bool) (bool, error) {
	path, is := m.lostPath(v)
	if !is {
		m.log.Debug("left alone what the remote says to have lost: it is not here, or cannot be", "path", v.Path, "version", v.ID)
		return false, nil
	}
	if v.Why != lost.Overtaken || m.filter.hides(path, false) {
		return false, nil
	}
	if may || m.wasSent(v.Path) {
		return true, nil
	}
	e, err := m.tree.Entry(ctx, path)
	if errors.Is(err, iofs.ErrNotExist) {
		return false, nil
	}
	return err == nil && tree.Fingerprint(&e) == v.By, err
}

func (m *Mirror) wasSent(path string) bool {
	for p := path; ; p = above(p) {
		if m.s.sent.Prints[p] != "" {
			return true
		}
		if p == "/" {
			return false
		}
	}
}

// giveBackSome makes versions changes of the remote's own again, of whose tree we know a
// place at which they were overtaken. out gets their local paths, and the versions that cannot go
// back, since their paths have changed once more, a directory is there, or the remote has no room.
// It also takes note of the numbers of versions that these overtake.
func (m *Mirror) giveBackSome(ctx context.Context, list []lost.Version, base tree.Cursor, out *returned) error {
	were := map[string]lost.Version{} // what went back
	for range maxTries {
		if len(list) == 0 {
			break
		}
		send, err := m.sortOut(ctx, list, out)
		if err != nil {
			return err
		}
		for i := range send {
			if v, ok := were[send[i].Path]; ok {
				out.stay = append(out.stay, v) // what comes to its place now was not seen by anybody
			}
		}
		list = nil
		if len(send) > 0 {
			res, sent, err := m.pushBack(ctx, base, send, out)
			if err != nil {
				return fmt.Errorf("give back what was overtaken: %w", err)
			}
			for i := range sent {
				if slices.Contains(res.Conflicts, sent[i].Path) {
					out.stay = append(out.stay, sent[i])
					continue
				}
				path, _ := m.roots.toLocal(sent[i].Path)
				out.paths = append(out.paths, path)
				were[sent[i].Path] = sent[i]
			}
			// What was written there in the meantime is newer.
			list = m.overtakenBack(res.Overtaken, out)
			if len(sent) > 0 {
				base = tree.At(res.Rev)
			}
		}
	}
	out.stay = append(out.stay, list...)
	return nil
}

// overtakenBack returns those of some versions that what went back has overtaken that are dealt with before their turn.
// The others are listed later.
func (m *Mirror) overtakenBack(all []lost.Version, out *returned) (list []lost.Version) {
	for i := range all {
		v := &all[i]
		if _, is := m.lostPath(v); !is || v.ID < out.next {
			m.log.Warn("the remote says to have lost what cannot be; it is left out", "path", v.Path, "version", v.ID)
			continue
		}
		switch {
		case out.pass.Dealt[v.ID]:
		case out.room == 0 || len(out.pass.Dealt) >= maxWaits:
			out.later = true
		default:
			out.pass.Dealt[v.ID] = true
			out.room--
			list = append(list, *v)
		}
	}
	return list
}

// pushBack has the remote apply versions, but for those that it has no room for, which stay. It returns those that it
// has been sent.
func (m *Mirror) pushBack(ctx context.Context, base tree.Cursor, send []lost.Version, out *returned) (changes.PushResult, []lost.Version, error) {
	for len(send) > 0 {
		entries := make([]tree.Entry, len(send))
		for i := range send {
			entries[i] = send[i].Entry
			entries[i].Path = send[i].Path
		}
		m.heard = nil
		res, err := m.remote().Push(ctx, changes.PushInput{Base: &base, Partly: true}, changes.FromSlice(entries))
		if changes.Code(err) != changes.CodeNoRoom {
			return res, send, err
		}
		full, n := changes.Path(err), len(send)
		send = slices.DeleteFunc(send, func(v lost.Version) bool {
			if v.Path == full {
				out.stay = append(out.stay, v)
			}
			return v.Path == full
		})
		if len(send) == n { // it does not say which
			out.stay = append(out.stay, send...)
			send = nil
		}
	}
	return changes.PushResult{}, nil, nil
}

// sortOut says which versions can go back to their places at the remote: the last one of
// each path, if there still is what has overtaken it. out gets the others, and the paths of versions that
// have gone back and were not pulled since.
func (m *Mirror) sortOut(ctx context.Context, list []lost.Version, out *returned) (send []lost.Version, err error) {
	last := map[string]int{}
	for i := range list {
		last[list[i].Path] = i
	}
	for i := range list {
		v := &list[i]
		if last[v.Path] != i {
			out.stay = append(out.stay, *v)
			continue
		}
		at, err := m.remote().ReadEntry(ctx, v.Path)
		fits := false
		if err == nil && live(at) && tree.Fingerprint(at) == tree.Fingerprint(&v.Entry) { // it is back
			if path, _ := m.roots.toLocal(v.Path); after(at).Compare(m.s.peer.Fetch) > 0 {
				out.paths = append(out.paths, path)
			}
			continue
		}
		if err == nil {
			fits, err = m.fitsThere(ctx, v, at)
		}
		if err != nil {
			return nil, fmt.Errorf("read what has overtaken %s: %w", v.Path, err)
		}
		if fits {
			send = append(send, *v)
		} else {
			out.stay = append(out.stay, *v)
		}
	}
	return send, nil
}

// fitsThere reports whether a version can go back to its place at the remote, where there is
// something now: what has overtaken it, and nothing else would have to make room.
func (m *Mirror) fitsThere(ctx context.Context, v *lost.Version, at *tree.Entry) (bool, error) {
	if live(at) {
		return at.Kind != tree.KindDir && tree.Fingerprint(at) == v.By, nil
	}
	for p := above(v.Path); v.By == "" && p != "/"; p = above(p) {
		at, err := m.remote().ReadEntry(ctx, p)
		if err != nil || live(at) {
			return err == nil && at.Kind == tree.KindDir, err
		}
	}
	return v.By == "", nil
}

// keepLost keeps a version that loses to another one, and returns its number: 0 if it is
// neither file nor link, or nothing is to be kept.
func (d *decision) keepLost(e, by *tree.Entry) (int64, error) {
	if !d.keep || e.Kind != tree.KindFile && e.Kind != tree.KindSymlink {
		return 0, nil
	}
	v := lost.Version{Path: e.Path, At: d.edit.Now(), Why: lost.Conflict, By: tree.Fingerprint(by), Entry: *e}
	err := lost.Keep(d.edit, &v)
	return v.ID, err
}

// touch makes a path a change once more.
func touch(e *tree.Edit, path string) error {
	_, err := e.Touch(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil
	}
	return err
}

// touchAll makes a path a change once more, and what is below it, as far as it is wanted: nil for
// all. It returns what that is.
func touchAll(e *tree.Edit, path string, wanted func(*tree.Entry) bool) ([]tree.Entry, error) {
	at, err := e.Entry(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []tree.Entry
	if wanted == nil || wanted(&at) {
		if at, err = e.Touch(path); err != nil {
			return nil, err
		}
		out = append(out, at)
	}
	if at.Kind != tree.KindDir {
		return out, nil
	}
	info, err := e.Lstat(path)
	if err != nil {
		return nil, err
	}
	for last := ""; ; {
		list, err := e.Tx().Children(info.Ino, last, page)
		if err != nil {
			return nil, err
		}
		for i := range list {
			last = list[i].Name.Name
			more, err := touchAll(e, slashpath.Join(path, last), wanted)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
		if len(list) < page {
			return out, nil
		}
	}
}
