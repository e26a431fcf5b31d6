package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Change is what a pull did to a path here.
type Change struct {
	Path string // of the local tree
	Kind tree.Kind
	What ChangeKind
	Size int64 // of a file
}

// A ChangeKind is what happened to a path.
type ChangeKind int

// The kinds of changes.
const (
	Created ChangeKind = iota
	Modified
	Deleted
	Touched // only its time changed
)

// String is a word for it.
func (k ChangeKind) String() string {
	return [...]string{"created", "modified", "deleted", "touched"}[k]
}

// how entries of the remote are applied here: what is the same is left alone, which also
// ends the exchange of what both have, and nothing is written through links.
// An entry for which the disk has no room is left out, and named.
// The times of files are set if the remote means them.
func (m *Mirror) how() tree.ApplyMode {
	how := tree.SkipSame | tree.RealParents | changes.AnyRoom
	if m.takesTimes() {
		how |= tree.SetTimes
	}
	return how
}

// takesTimes reports whether the times of files that are the same come over from the remote.
func (m *Mirror) takesTimes() bool { return m.setsTimes && !m.cfg.Undo && !m.cfg.Guard }

// touches reports whether an entry changes the time of a file and nothing else.
func (m *Mirror) touches(cur, x *tree.Entry) bool {
	return m.takesTimes() && x.Kind == tree.KindFile && live(cur) && same(cur, x) && !tree.SameTime(cur.MTime, x.MTime)
}

// errCopies ends an update since versions must be copied aside before.
var errCopies = errors.New("versions are to be copied first")

// errGone ends an update since versions that lose have changed, or cannot be read.
var errGone = errors.New("versions here that would lose change each time they are looked at: synchronise once more when nothing writes to them")

// applyBatch applies a batch together with its cursor.
func (m *Mirror) applyBatch(ctx context.Context, b *batch, local *localChanges, r *Result) error {
	m.before.theirs.add(b.entries)
	kept, failed := map[string]copied{}, unkeepable{map[string]string{}, map[string]error{}}
	for attempt := 1; ; attempt++ {
		var d *decision
		var next state
		done, err := m.cfg.Local.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
			d = &decision{m: m, edit: e, kept: kept, failed: failed, local: local, policy: m.policy, all: m.cfg.OnChange != nil || m.cfg.Removals != nil, keep: true, hides: maps.Clone(b.hides)}
			err := d.decide(b)
			return func(yield func(tree.Entry, error) bool) {
				if err != nil {
					yield(tree.Entry{}, err)
					return
				}
				for entry, err := range changes.Expecting(e, entriesOf(d.take)) {
					if !yield(entry, err) {
						return
					}
				}
			}
		}, m.how(), func(e *tree.Edit) error {
			next = m.s
			next.peer.Fetch = b.cursor
			next.notes.Pulled = next.notes.Pulled.add(d.before, e.Rev())
			for _, path := range d.moved {
				if err := touch(e, path); err != nil {
					return err
				}
			}
			next.held = next.held.with(d.holds)
			var err error
			if next.ignored, err = next.ignored.with(d.hides); err != nil {
				return err
			}
			next.rules = next.rules.without(d.freed)
			next.notes.Left = next.notes.leaving(d.left, m.livePaths(b.entries, false))
			if next.notes.Toward = b.toward; b.last {
				next.notes.Toward = 0
				if next.held, err = next.held.refreshed(e, &next); err != nil {
					return err
				}
			}
			next = next.tidied()
			return m.store(e, &next)
		})
		err = partly(err)
		if errors.Is(err, errGone) && attempt < maxTries {
			continue
		}
		if m.leaveUnfitting(b, err) {
			if paths := m.rulesLacking(b); len(paths) > 0 {
				return &rulesWaitError{paths}
			}
			attempt-- // nothing has changed meanwhile: one entry less is tried
			continue
		}
		if errors.Is(err, errCopies) {
			full := len(failed.full)
			if err := m.copyAside(ctx, d.copies, kept, failed); err != nil {
				return fmt.Errorf("keep versions that lose: %w", err)
			}
			if len(failed.full) > full {
				attempt-- // one copy less is tried
				continue
			}
			if attempt < maxTries {
				continue
			}
			return errors.New("what is changed there does not stop changing here")
		}
		if errors.Is(err, tree.ErrUnknownHash) && attempt < maxTries {
			// The file here that had it has changed since it was looked for.
			if err := m.fetchVanished(ctx, b, r); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			// It may be for good all the same, and only not be on disk yet.
			if d != nil && m.committed(ctx, b) {
				m.applied(b, d, len(d.take), r)
				m.tellStayed(m.stayedOf(done.Kept, false), r)
				m.disowned(done.Disowned, 0, false, r)
			}
			return err
		}
		m.s = next
		m.applied(b, d, done.Changed, r)
		m.tellStayed(m.stayedOf(done.Kept, false), r)
		m.disowned(done.Disowned, 0, false, r)
		return nil
	}
}

// fetchVanished gets the content of a batch that is not held here any more.
func (m *Mirror) fetchVanished(ctx context.Context, b *batch, r *Result) error {
	gone := map[tree.Hash]bool{}
	missing, err := m.missing(ctx, b.entries)
	if err == nil {
		err = m.fetchFitting(ctx, b, missing, gone, r)
	}
	if err != nil {
		return err
	}
	return m.drop(ctx, b, gone)
}

// committed reports whether a batch is in the tree, whose cursor moves with it alone.
func (m *Mirror) committed(ctx context.Context, b *batch) bool {
	p, err := m.tree.Peer(context.WithoutCancel(ctx), m.cfg.PeerID)
	return err == nil && p.Fetch.Compare(m.s.peer.Fetch) > 0 && p.Fetch.Compare(b.cursor) >= 0
}

// applied tells of a batch.
func (m *Mirror) applied(b *batch, d *decision, changed int, r *Result) {
	for path, among := range d.unkept {
		among.add(path, "")
	}
	r.Pulled += len(b.entries)
	r.Changed += changed
	r.Conflicts += len(d.conflicts)
	r.Withheld += len(d.withheld)
	r.Undone += len(d.undone)
	m.before.undone = append(m.before.undone, d.undone...)
	m.tellStayed(m.stayedOf(d.stayed, false), r)
	m.tellStayed(d.stayAgain(), r)
	m.meter.count(func(p *Progress) { p.Pulled += int64(len(b.entries)) })
	m.cameOver(d.changes)
	if m.cfg.OnChange != nil {
		for _, c := range m.written(d.changes) {
			m.cfg.OnChange(c)
		}
	}
	if m.cfg.Withheld != nil {
		for _, w := range d.withheld {
			m.cfg.Withheld(w)
		}
	}
	m.report(d.conflicts)
}

// report tells of conflicts.
func (m *Mirror) report(conflicts []Conflict) {
	for _, c := range conflicts {
		m.log.Warn("changed on both sides", "path", c.Path, "local", c.Local.Hash, "remote", c.Remote.Hash, "kept", c.Kept.String(),
			"lost", c.Lost, "held", c.Held)
		if m.cfg.Conflict != nil {
			m.cfg.Conflict(c)
		}
	}
}
