package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A beginning is what both sides had when a call began.
type beginning struct {
	rev       int64       // of the tree here
	push      tree.Cursor // up to where the remote had the changes from here
	unwritten int         // paths that the remote could not write
	sent      []Move      // since, for Config.OnSent
}

// begin notes what both sides have.
func (m *Mirror) begin(ctx context.Context) error {
	info, err := m.tree.Info(ctx)
	m.before = beginning{rev: info.Rev, push: m.s.peer.Push, unwritten: unwrittenOf(m.there).Count}
	return err
}

// noteSent notes the entries of a block for Config.OnSent, but for those whose local paths are in again: the
// remote has left them out.
func (m *Mirror) noteSent(b *block, again []string) {
	if m.cfg.OnSent == nil {
		return
	}
	left := setOf(again)
	for i := range b.entries {
		e := &b.entries[i]
		if path, ok := m.roots.toLocal(e.Path); ok && !left[path] {
			m.before.sent = append(m.before.sent, Move{ToRemote: true, Path: path, Kind: e.Kind, Size: e.Size})
		}
	}
}

// tellSent tells Config.OnSent of the entries that a call has sent, also one that has failed, without those of
// which the remote says that it could not write them.
func (m *Mirror) tellSent() {
	if len(m.before.sent) == 0 {
		return
	}
	there := unwrittenOf(m.there)
	left := setOf(paths(&there))
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
		n, err := m.countMoved(ctx, paths(&there), func(e *tree.Entry) bool { return tree.AtPath(e.Rev, e.Path).Compare(m.before.push) > 0 })
		if err != nil {
			return err
		}
		r.Unwritten = min(r.Pushed, max(n, there.Count-m.before.unwritten))
	}
	here := unwrittenOf(m.leftHere)
	if r.Changed == 0 || here.Count == 0 {
		return nil
	}
	left := paths(&here)
	if len(left) < here.Count {
		left = nil
		m.cfg.Local.Skipped(func(path string) bool {
			left = append(left, path)
			return false
		})
	}
	n, err := m.countMoved(ctx, left, func(e *tree.Entry) bool { return e.Rev > m.before.rev })
	r.UnwrittenHere = min(r.Changed, n)
	return err
}

func paths(s *changes.Skipped) []string {
	out := make([]string, len(s.Paths))
	for i := range s.Paths {
		out[i] = s.Paths[i].Path
	}
	return out
}

// countMoved counts the paths here whose entries were moved.
func (m *Mirror) countMoved(ctx context.Context, paths []string, moved func(*tree.Entry) bool) (n int, err error) {
	for _, path := range paths {
		e, err := m.tree.Entry(ctx, path)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("look for what has moved: %w", err)
		}
		if moved(&e) {
			n++
		}
	}
	return n, nil
}
