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

	"github.com/wsd-dev/wsd/fs/tree"
)

// ErrHeld says that more paths are in conflict than are remembered: some must be resolved, or
// decided by another policy.
var ErrHeld = errors.New("too many paths are held in conflict; resolve some, or let a policy decide")

// A NotHeldError says that neither a path nor anything below it is held in conflict by itself.
type NotHeldError struct {
	Path string // of the local tree
	With string // the path above it with which it is held, "" for none
}

// Error names the path.
func (e *NotHeldError) Error() string {
	if e.With != "" {
		return fmt.Sprintf("%s is not held in conflict by itself, but with %s", e.Path, e.With)
	}
	return e.Path + " is not held in conflict"
}

// Conflicts lists the paths that are held in conflict, with what both sides have of them now.
// Nothing is moved.
func (m *Mirror) Conflicts(ctx context.Context) ([]Conflict, error) {
	var list []Conflict
	err := m.alone(ctx, func() error {
		m.policy = Hold
		return m.connected(ctx, new(Result), false, func(ctx context.Context, _ *Result) error {
			if err := m.cfg.Local.Settle(ctx); err != nil {
				return fmt.Errorf("settle: %w", err)
			}
			if _, err := m.cfg.Remote.Watermarks(ctx, true); err != nil {
				return fmt.Errorf("have the remote settle: %w", err)
			}
			var err error
			list, err = m.heldConflicts(ctx, m.s.held.inConflict())
			return err
		})
	})
	return list, err
}

// An Undecided is a path that is held in conflict after Resolve was to decide about it.
type Undecided struct {
	Path string // of the local tree
	Why  UndecidedReason
	// Of is the local path of the version here that Why is about: Path, or a path below it. It is "" where Why
	// is not about a version here.
	Of string
}

// An UndecidedReason says why Resolve could not decide about a path.
type UndecidedReason string

// The reasons. Ours decides in spite of UndecidedUnkept, UndecidedUnread, UndecidedNoRoom and UndecidedLacking.
const (
	UndecidedChanged UndecidedReason = "changed" // a side has changed it once more
	UndecidedUnseen  UndecidedReason = "unseen"  // the version here cannot be read, and may be another one than the tree has
	UndecidedSpecial UndecidedReason = "special" // what is here is neither file, directory nor link, or has no name at the remote
	UndecidedUnread  UndecidedReason = "unread"  // the version here would lose, and cannot be read to be kept
	UndecidedUnkept  UndecidedReason = "unkept"  // the version here would lose, and there is no room to keep it
	UndecidedNoRoom  UndecidedReason = "noRoom"  // there is no room here for the remote's version
	UndecidedLacking UndecidedReason = "lacking" // the remote cannot read its version
)

// Resolve decides about a path that is held in conflict, and all such paths below it, by a
// policy that decides: Ours sends the version here, Theirs takes the remote's, as both are
// now, and Both takes both. The version that loses is kept. Everything else is synchronised,
// and new conflicts are held. Result.Undecided has the paths that could not be decided about.
func (m *Mirror) Resolve(ctx context.Context, path string, policy Policy) (Result, error) {
	var r Result
	if !policy.decides() {
		return r, fmt.Errorf("resolve %s: %w: the policy %s does not decide", path, errors.ErrUnsupported, policy)
	}
	err := m.alone(ctx, func() error {
		m.policy = Hold
		defer func() { m.resolved = nil }()
		return m.connected(ctx, &r, true, func(ctx context.Context, r *Result) error {
			m.resolved = map[string]Policy{}
			for _, held := range m.s.held.inConflict() {
				if held == path || strings.HasPrefix(held, strings.TrimSuffix(path, "/")+"/") {
					m.resolved[held] = policy
				}
			}
			if len(m.resolved) == 0 {
				top, _, _ := m.s.held.conflictAt(path)
				return &NotHeldError{Path: path, With: top}
			}
			if err := m.tick(ctx, r, true); err != nil {
				return err
			}
			r.Undecided = m.undecided()
			return m.finish(ctx, r)
		})
	})
	return r, err
}

// undecided lists what is held of the paths that Resolve was to decide about.
func (m *Mirror) undecided() []Undecided {
	var list []Undecided
	known := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(m.resolved)) {
		top, h, ok := m.s.held.conflictAt(path)
		if !ok || known[top] {
			continue
		}
		known[top] = true
		list = append(list, Undecided{Path: top, Why: m.whyUndecided(top, h), Of: h.Unkept})
	}
	return list
}

// whyUndecided is the reason for a path that h holds.
func (m *Mirror) whyUndecided(path string, h held) UndecidedReason {
	switch {
	case m.unseen.has(h.Unkept):
		if e, _ := m.unseen.over(h.Unkept); e.Kind == 0 {
			return UndecidedSpecial
		}
		return UndecidedUnseen
	case h.Unkept != "" && m.fullHere.has(h.Unkept):
		return UndecidedUnkept
	case h.Unkept != "":
		return UndecidedUnread
	case m.fullHere.has(path):
		return UndecidedNoRoom
	case h.Lacking:
		return UndecidedLacking
	}
	return UndecidedChanged
}

// policyAt is the policy for a local path.
func (m *Mirror) policyAt(path string) Policy {
	for p := path; len(m.resolved) > 0; p = above(p) {
		if policy, ok := m.resolved[p]; ok {
			return policy
		}
		if p == "/" {
			break
		}
	}
	return m.policy
}

// readUnchanged reports whether a path that was held only because the version here could not be read has, now that it
// can be, the version that both sides had.
func (d *decision) readUnchanged(h *held, cur *tree.Entry) bool {
	return h.Conflict && h.Agreed != "" && h.Agreed == printHere(cur) && !d.unseen.has(cur.Path)
}

// unholding has those conflicts fetched again that are decided now.
func (m *Mirror) unholding(s state) state { return s.refetching(m.unholds) }

// unholds reports whether what holds a path is a conflict that is decided now.
func (m *Mirror) unholds(path string, h held) bool {
	return h.Conflict && m.policyAt(path).decides() && !m.undecidable(path, h)
}

// staysHeld reports whether a conflict that holds the path of an entry is not decided for now, although the policy
// decides: since a version from here cannot be kept, or what the remote has at the path above is not to be had.
func (d *decision) staysHeld(top string, h held, x *tree.Entry) bool {
	return d.unseen.has(h.Unkept) || d.policy != Ours && (h.Unkept != "" && !h.Stale || d.lacking[top] && x.Path != top)
}

// undecidable reports whether a conflict cannot be decided since a version from here cannot be kept, or there
// is no room for the remote's.
func (m *Mirror) undecidable(path string, h held) bool {
	waits := h.Lacking && m.fullHere.has(path) || h.Unkept != "" && (m.unread.has(h.Unkept) || m.fullHere.has(h.Unkept))
	return m.unseen.has(h.Unkept) || waits && m.policyAt(path) != Ours
}

// refuseHeld fails if there are conflicts that are held, at paths that are not ignored.
func (m *Mirror) refuseHeld(ctx context.Context) error {
	paths := slices.DeleteFunc(m.s.held.inConflict(), func(path string) bool { return m.filter.hidesSome(path) })
	if len(paths) == 0 {
		return nil
	}
	list, err := m.heldConflicts(ctx, paths[:min(len(paths), MaxReported)])
	if err != nil {
		return err
	}
	return &ConflictError{Conflicts: list, More: len(paths) - len(list)}
}

// heldConflicts is what both sides have of some paths that are held in conflict.
func (m *Mirror) heldConflicts(ctx context.Context, paths []string) ([]Conflict, error) {
	list, unseen := make([]Conflict, len(paths)), m.unseenHere()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxLooks)
	for i, path := range paths {
		group.Go(func() error { // ends with its answer, or with ctx
			gone := tree.Entry{Kind: tree.KindDelete}
			here, err := m.tree.Entry(ctx, path)
			if errors.Is(err, iofs.ErrNotExist) {
				here, err = gone, nil
			}
			if e, is := unseen[path]; is {
				here = e
			}
			if err != nil {
				return err
			}
			remote, _ := m.roots.toRemote(path)
			there, err := m.remote().ReadEntry(ctx, remote)
			if err != nil {
				return fmt.Errorf("read %s at the remote: %w", remote, err)
			}
			if there == nil {
				there = &gone
			}
			list[i] = Conflict{Path: path, Local: versionOf(&here), Remote: versionOf(there), Held: true}
			return nil
		})
	}
	return list, group.Wait()
}

// refreshed stores that all has come that was fetched anew.
func (m *Mirror) refreshed(ctx context.Context) error {
	next := m.s
	if next.held = next.held.fresh(); next.held == m.s.held {
		return nil
	}
	_, err := m.tree.Update(ctx, func(e *tree.Edit) (err error) {
		if next.held, err = m.s.held.refreshed(e, &m.s); err != nil {
			return err
		}
		return m.store(e, &next)
	})
	if err != nil {
		m.loaded = false
		return fmt.Errorf("store the cursors: %w", err)
	}
	m.s = next
	return nil
}

// refreshed is fresh. It has the changes sent that were made here while their paths were held,
// and that are still here.
func (s *heldSet) refreshed(e *tree.Edit, of *state) (*heldSet, error) {
	for _, path := range s.lacking() { // the remote has nothing there any more
		if h, _ := s.at(path); h.Stale && h.Apart && !h.Conflict {
			if err := touch(e, path); err != nil {
				return nil, err
			}
		}
	}
	for _, path := range s.inConflict() {
		h, _ := s.at(path)
		if !h.Stale {
			continue
		}
		_, err := touchAll(e, path, func(e *tree.Entry) bool {
			return e.Rev > h.Since && !of.notes.Pulled.has(e.Rev) && after(e).Compare(of.peer.Push) <= 0
		})
		if err != nil {
			return nil, err
		}
	}
	return s.fresh(), nil
}

// inConflict lists the paths that are held in conflict.
func (s *heldSet) inConflict() []string {
	if s == nil {
		return nil
	}
	var out []string
	for _, path := range slices.Sorted(maps.Keys(s.Paths)) {
		if s.Paths[path].Conflict {
			out = append(out, path)
		}
	}
	return out
}

// conflicts is how many those are.
func (s *heldSet) conflicts() int { return len(s.inConflict()) }

// conflictAt finds what holds a path in conflict: itself, or one above it.
func (s *heldSet) conflictAt(path string) (string, held, bool) {
	return conflictAt(path, s.at)
}

func conflictAt(path string, at func(string) (held, bool)) (string, held, bool) {
	for p := path; ; p = above(p) {
		if h, ok := at(p); ok && h.Conflict && (p == path || !h.Shallow) {
			return p, h, true
		}
		if p == "/" {
			return "", held{}, false
		}
	}
}

// covering is what holds a path: itself, or a conflict above it.
func (s *heldSet) covering(path string) (held, bool) {
	if s == nil || len(s.Paths) == 0 {
		return held{}, false
	}
	if h, ok := s.at(path); ok {
		return h, true
	}
	_, h, ok := s.conflictAt(path)
	return h, ok
}

// conflictAt is that of the heldSet, as far as it has been decided.
func (d *decision) conflictAt(path string) (string, held, bool) {
	if d.m.s.held == nil && len(d.holds) == 0 {
		return "", held{}, false
	}
	return conflictAt(path, d.isHeld)
}

// changed reports whether what is at a path, since a revision, is a change from here that
// the remote is not known to have.
func (d *decision) changed(path string, rev int64) bool {
	if h, ok := d.isHeld(path); ok && h.Lacking && h.Apart {
		return true // the cursor is behind it, and it was not sent
	}
	top, _, ok := d.conflictAt(path)
	return ok && top == path || d.changedSince(path, rev)
}

// changedSince is the same, and does not take what is held in conflict itself for one.
func (d *decision) changedSince(path string, rev int64) bool {
	_, h, ok := d.conflictAt(path)
	return ok && rev > h.Since || d.m.s.changed(path, rev)
}

// holdConflict holds a path in conflict: that of an entry, or the one above it that leaves it
// no room. cur is what is here at the entry's path.
func (d *decision) holdConflict(x, cur *tree.Entry, losers []tree.Entry) {
	top, h := x.Path, held{Remote: printOf(x), Kind: x.Kind}
	for i := range losers {
		if p := losers[i].Path; len(p) < len(top) {
			top, h = p, held{Kind: tree.KindDir}
		}
	}
	s := &d.m.s
	h.Conflict, h.Apart, h.Since, h.Fetched = true, true, s.peer.Push.Rev, s.peer.Fetch.Rev
	if s.peer.Push.Within {
		h.Since--
	}
	if s.peer.Fetch.Within {
		h.Fetched--
	}
	for i := range losers { // one that waited for what the remote had there may be behind the cursor
		if losers[i].Rev > 0 { // else it is not in the tree
			h.Since = min(h.Since, losers[i].Rev-1)
		}
	}
	dir := live(cur) && cur.Kind == tree.KindDir
	if h.Shallow = dir && x.Kind == tree.KindDir && top == x.Path; !h.Shallow && (dir || top != x.Path) {
		d.holdBelow(top, &h)
	}
	d.remember(top, &h)
}

// holdBelow has what is held in conflict below a path held with it.
func (d *decision) holdBelow(top string, h *held) {
	below := func(path string, old held) {
		if old.Conflict && strings.HasPrefix(path, top+"/") {
			h.Since, h.Fetched = min(h.Since, old.Since), min(h.Fetched, old.Fetched)
			d.remember(path, nil)
		}
	}
	for path, old := range d.holds {
		if old != nil {
			below(path, *old)
		}
	}
	for _, path := range d.m.s.held.inConflict() {
		if old, ok := d.isHeld(path); ok {
			below(path, old)
		}
	}
}

// heldStill takes note of an entry of a path that is held in conflict, at or above it.
func (d *decision) heldStill(top string, h held, x *tree.Entry) error {
	if x.Path != top {
		if h.Stale { // it was about to be decided, and now it is not
			h.Stale = false
			d.remember(top, &h)
		}
		return nil
	}
	cur, err := d.at(top)
	if err != nil {
		return err
	}
	if same(cur, x) && x.Kind != tree.KindDir && !d.unseen.has(h.Unkept) {
		d.accept(x, cur) // both sides have come to agree
		return nil
	}
	h.Remote, h.Kind, h.Stale = printOf(x), x.Kind, false
	d.remember(top, &h)
	return nil
}

// sendHeld sends what is here of the path of an entry, which was held in conflict. If the
// remote has no directory there, it has nothing of what is in the one here.
func (d *decision) sendHeld(x *tree.Entry, h held) error {
	path, all := x.Path, x.Kind != tree.KindDir && x.Kind != tree.KindDelete
	sent, err := touchAll(d.edit, path, func(e *tree.Entry) bool { return all || e.Path == path || e.Rev > h.Since })
	if err != nil {
		return err
	}
	d.touched = true
	d.more = append(d.more, sent...)
	return d.sendRemovedAbove(path)
}

// sendRemovedAbove sends the removals of directories above a path that were not sent because of it.
func (d *decision) sendRemovedAbove(path string) error {
	for p := above(path); p != "/"; p = above(p) {
		if e, err := d.at(p); err != nil || e == nil || live(e) {
			return err
		}
		if err := d.sendAgain(p); err != nil {
			return err
		}
	}
	return nil
}

// remember notes what is held of a path.
func (d *decision) remember(path string, h *held) {
	if d.holds == nil {
		d.holds = map[string]*held{}
	}
	d.holds[path] = h
}

// leavesNoRoom decides whether a change from here is not sent because of what only the remote
// has below its path. Anything but a directory is then in conflict as a whole.
func (b *heldBack) leavesNoRoom(s *item) {
	e := &s.entry
	if e.Kind == tree.KindDelete {
		s.out = b.above[e.Path]
		return
	}
	if e.Kind == tree.KindDir || !b.above[e.Path] {
		return
	}
	for path, h := range b.held.Paths {
		if strings.HasPrefix(path, e.Path+"/") && (h.Conflict || b.m.waits(path, h)) {
			s.out, s.holds = true, true
			s.hold = heldApart(e.Rev)
			return
		}
	}
}

// heldApart holds a path in conflict at which the remote has a directory, and this side has
// something else since a revision.
func heldApart(rev int64) *held {
	return &held{Kind: tree.KindDir, Conflict: true, Apart: true, Since: rev - 1}
}
