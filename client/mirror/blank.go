package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// ErrNotBlank says that the remote has got files since it was found to have nothing
// (Config.Blank). No file was brought or sent.
var ErrNotBlank = errors.New("the remote had no files, and has some now")

// unmixed reports whether nothing of the remote's may come over before it has taken something.
func (m *Mirror) unmixed() bool { return m.cfg.Blank && m.s.notes.Blank }

// staysBlank fails with ErrNotBlank if a batch has files or links that were not sent from here.
func (m *Mirror) staysBlank(b *batch) error {
	if !m.unmixed() {
		return nil
	}
	for i := range b.entries {
		e := &b.entries[i]
		if (e.Kind == tree.KindFile || e.Kind == tree.KindSymlink) && !m.isCode(e.Path, e.Kind) && !m.isOwn(&m.s, e) {
			return ErrNotBlank
		}
	}
	return nil
}

// taken is the state with which to go on when the remote was blank and has taken the first push, of which
// no answer has come: from then on it may change like any that was in step. It reports whether it has.
func (m *Mirror) taken(s state, wm *changes.Watermarks) (state, bool) {
	if !s.notes.Blank || !s.unanswered() || s.sent.Cursor == (tree.Cursor{}) || wm.Fetch != s.sent.Cursor {
		return s, false
	}
	s.notes.Blank, s.peer.Push, s.sent.Until, s.sent.Cursor = false, s.sent.Cursor, wm.CurrentRev, tree.Cursor{}
	return s, true
}

// hasTaken asks a remote that was blank whether it has taken the first push.
func (m *Mirror) hasTaken(ctx context.Context, s state) (bool, error) {
	if !s.notes.Blank || !s.unanswered() {
		return false, nil
	}
	wm, err := m.cfg.Remote.Watermarks(ctx, false)
	if err != nil {
		return false, fmt.Errorf("read the remote's watermarks: %w", err)
	}
	_, taken := m.taken(s, &wm)
	return taken, nil
}

// isOwn reports whether the remote's version of a path is one that was sent from here, and of
// which no answer has come.
func (m *Mirror) isOwn(s *state, e *tree.Entry) bool {
	remote, ok := m.roots.toRemote(e.Path)
	return ok && s.sent.Prints[remote] == printOf(e)
}
