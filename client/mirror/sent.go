package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A beginning is what both sides had when a call began.
type beginning struct {
	rev       int64       // of the tree here
	push      tree.Cursor // up to where the remote had the changes from here
	unwritten int         // paths that the remote could not write
	sent      []Move      // since, for Config.OnSent
	undone    []string    // paths here at which versions of the remote were undone since
	// stuck are paths here that were sent since and of which the remote has said at once that it could not
	// write them, and moreStuck how many more there are.
	stuck     map[string]bool
	moreStuck int
	theirs    *theirs // nil unless both sides have been strangers
}

// begin notes what both sides have.
func (m *Mirror) begin(ctx context.Context) error {
	info, err := m.tree.Info(ctx)
	m.before = beginning{rev: info.Rev, push: m.s.peer.Push, unwritten: unwrittenOf(m.there).Count}
	if m.s.strangers() {
		m.before.theirs = newTheirs(m.setsTimes)
	}
	return err
}

// noteStuck notes the paths of a block that the remote could not write, and those that were to go with a directory
// that it could not remove: it names the directory alone.
func (m *Mirror) noteStuck(b *block, res *changes.PushResult) {
	m.before.moreStuck += res.MoreUnwritten
	if len(res.Unwritten) == 0 {
		return
	}
	if m.before.stuck == nil {
		m.before.stuck = map[string]bool{}
	}
	stuck, staying := setOf(res.Unwritten), map[string]bool{}
	for i := range b.entries {
		if e := &b.entries[i]; e.Kind == tree.KindDelete && stuck[e.Path] {
			staying[e.Path] = true
		}
	}
	note := func(remote string) {
		if path, ok := m.roots.toLocal(remote); ok {
			m.before.stuck[path] = true
		}
	}
	for _, remote := range res.Unwritten {
		note(remote)
	}
	for i := range b.entries {
		if e := &b.entries[i]; e.Kind == tree.KindDelete && covers(staying, e.Path) {
			note(e.Path)
		}
	}
}

// noteSent notes the entries of a block for Config.OnSent, but for those whose local paths are in again: the
// remote has left them out. It returns how many of the others said what the remote had before.
func (m *Mirror) noteSent(b *block, again []string) (same int) {
	if m.cfg.OnSent == nil && m.before.theirs == nil {
		return 0
	}
	left := setOf(again)
	for i := range b.entries {
		e := &b.entries[i]
		path, ok := m.roots.toLocal(e.Path)
		switch {
		case !ok || left[path]:
		case m.before.theirs.has(path, e):
			same++
		case m.cfg.OnSent != nil:
			m.before.sent = append(m.before.sent, Move{ToRemote: true, Path: path, Kind: e.Kind, Size: e.Size})
		}
	}
	return same
}

// unchanged counts those of n entries of a block that have changed nothing at a remote that takes no times: such as
// files that were only touched. Each entry that changes something makes a revision. It is not known where something is
// removed, since one removal takes what others are about.
func (m *Mirror) unchanged(b *block, n int, res *changes.PushResult) int {
	if m.setsTimes || res.Before <= 0 || res.Before > res.Rev {
		return 0
	}
	if slices.ContainsFunc(b.entries, func(e tree.Entry) bool { return e.Kind == tree.KindDelete }) {
		return 0
	}
	return int(max(0, int64(n)-(res.Rev-res.Before)))
}

// tellSent tells Config.OnSent of the entries that a call has sent, also one that has failed, without those of
// which the remote says that it could not write them.
func (m *Mirror) tellSent() {
	if len(m.before.sent) == 0 {
		return
	}
	there := unwrittenOf(m.there)
	left := setOf(paths(&there))
	if there.Count > 0 {
		maps.Copy(left, m.before.stuck)
	}
	for _, move := range m.before.sent {
		if !left[move.Path] {
			m.cfg.OnSent(move)
		}
	}
	m.before.sent = nil
}

func setOf(paths []string) map[string]bool {
	set := make(map[string]bool, len(paths))
	for _, path := range paths {
		set[path] = true
	}
	return set
}

// unwrittenOf are the paths of a list that could not be written.
func unwrittenOf(list []changes.Skipped) (s changes.Skipped) {
	for i := range list {
		if list[i].Why == changes.Unwritten {
			return list[i]
		}
	}
	return s
}

// countUnwritten counts those of the paths that a call has moved which the side that got them could not
// write. Of those that the remote does not name it counts as many as there are more than before.
func (m *Mirror) countUnwritten(ctx context.Context, r *Result) error {
	if there := unwrittenOf(m.there); r.Pushed > 0 && there.Count > 0 {
		named, err := m.moved(ctx, paths(&there), func(e *tree.Entry) bool { return tree.AtPath(e.Rev, e.Path).Compare(m.before.push) > 0 })
		if err != nil {
			return err
		}
		stuck := setOf(slices.AppendSeq(named, maps.Keys(m.before.stuck)))
		r.Unwritten = min(r.Pushed-r.Same, max(len(stuck)+m.before.moreStuck, there.Count-m.before.unwritten))
		r.NotUndone = m.countNotUndone(stuck)
	} else {
		r.NotUndone = m.countNotUndone(nil)
	}
	if r.Changed == 0 {
		return nil
	}
	left, err := m.moved(ctx, m.unwrittenHere(), func(e *tree.Entry) bool { return e.Rev > m.before.rev })
	r.UnwrittenHere = min(r.Changed, len(left))
	return err
}

// countNotUndone counts the versions of the remote that a call was to undo at paths that the remote could not
// write, or whose version here cannot be read.
func (m *Mirror) countNotUndone(stuck map[string]bool) (n int) {
	for _, path := range m.before.undone {
		if stuck[path] || m.unread.has(path) || m.unseen.has(path) {
			n++
		}
	}
	return n
}

// unwrittenHere are the paths of the directory that could not be written; of very many also those that are left out
// for another reason.
func (m *Mirror) unwrittenHere() []string {
	s := unwrittenOf(m.cfg.Local.Skipped(nil))
	list := paths(&s)
	if len(list) == s.Count {
		return list
	}
	list = nil
	m.cfg.Local.Skipped(func(path string) bool {
		list = append(list, path)
		return false
	})
	return list
}

// written leaves out changes that could not be written to the directory, and removals of what is in a directory that
// could not be removed.
func (m *Mirror) written(list []Change) []Change {
	stuck := setOf(m.unwrittenHere())
	if len(stuck) == 0 {
		return list
	}
	staying := map[string]bool{}
	for i := range list {
		if c := &list[i]; c.What == Deleted && stuck[c.Path] {
			staying[c.Path] = true
		}
	}
	return slices.DeleteFunc(list, func(c Change) bool {
		return stuck[c.Path] || c.What == Deleted && covers(staying, c.Path)
	})
}

func paths(s *changes.Skipped) []string {
	out := make([]string, len(s.Paths))
	for i := range s.Paths {
		out[i] = s.Paths[i].Path
	}
	return out
}

// moved returns those of some paths here whose entries is moved selects.
func (m *Mirror) moved(ctx context.Context, paths []string, moved func(*tree.Entry) bool) (out []string, err error) {
	for _, path := range paths {
		e, err := m.tree.Entry(ctx, path)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("look for what has moved: %w", err)
		}
		if moved(&e) {
			out = append(out, path)
		}
	}
	return out, nil
}
