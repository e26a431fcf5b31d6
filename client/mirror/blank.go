package mirror

import (
	"errors"

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

// isOwn reports whether the remote's version of a path is one that was sent from here, and of
// which no answer has come.
func (m *Mirror) isOwn(s *state, e *tree.Entry) bool {
	remote, ok := m.roots.toRemote(e.Path)
	return ok && s.sent.Prints[remote] == printOf(e)
}
