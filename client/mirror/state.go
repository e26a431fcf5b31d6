package mirror

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A state is how far the synchronisation has come. It is stored in rows of peers, in the
// transactions that do what it says. It is a value: to change it is to make another one.
type state struct {
	peer  tree.Peer
	notes notes
	// sent is the prints of what was pushed and may come back, by remote path.
	sent sent
	held *heldSet
	// rules are what is ignored beside names, and ignored what the remote has of that.
	rules   *rules
	ignored *ignoredSet
}

// notes are what there is to know beside the cursors.
type notes struct {
	Pulled spans `json:"pulled,omitempty"` // revisions here that came from there
	Pushed spans `json:"pushed,omitempty"` // revisions there that came from here
	// Lost is the revision here up to which a remote store that is gone had all changes, 0
	// when none is gone, or all has been sent to the one that there is now.
	Lost int64 `json:"lost,omitempty"`
	// Shown are names that were ignored and no longer are, until all has been sent and
	// fetched. How far everything else was in step before is in the cursors.
	Shown       []string    `json:"shown,omitempty"`
	AgreedPush  tree.Cursor `json:"agreedPush,omitzero"`
	AgreedFetch tree.Cursor `json:"agreedFetch,omitzero"`
	// Toward is the remote's revision that a pull was on its way to which has not ended: what
	// the remote had changed by then is not listed where it was before. 0 for none.
	Toward int64    `json:"toward,omitempty"`
	Ignore []string `json:"ignore,omitempty"` // the names that are ignored
	// AnyNames: names that are not UTF-8 are not ignored. ShownNames is for them what Shown is.
	AnyNames   bool `json:"anyNames,omitempty"`
	ShownNames bool `json:"shownNames,omitempty"`
	// OurLost is the greatest number of a version lost here that is dealt with. TheirLost is
	// the one behind that of the remote's, 0 when it is not known yet.
	OurLost   int64 `json:"ourLost,omitempty"`
	TheirLost int64 `json:"theirLost,omitempty"`
	// Waits are versions that wait at the remote for room here, at most maxWaits, and Gone the local paths of some that went
	// with a store of the remote's, until that is reported. Pass is nil once all before TheirLost are dealt with, and
	// none behind it is.
	Waits waits     `json:"waits,omitempty"`
	Gone  []string  `json:"gone,omitempty"`
	Pass  *lostPass `json:"pass,omitempty"`
	// Left has the directories that the remote has removed, and that stay here for what rules hide in them, at most maxLeft:
	// their identities (changes.Identifier) by their local paths. It is not changed.
	Left map[string]string `json:"left,omitempty"`
	// First is Config.First until both sides have all that there was at first.
	First string `json:"first,omitempty"`
	// Begun and BegunThere are the revisions here and at the remote at which First began, and Yielded that of the Contact of which Yield has removed
	// something, 0 if it has not.
	Begun      int64 `json:"begun,omitempty"`
	BegunThere int64 `json:"begunThere,omitempty"`
	Yielded    int64 `json:"yieldedAt,omitempty"`
	// Blank is Config.Blank until the remote has taken something.
	Blank bool `json:"blank,omitempty"`
}

// strangers reports whether nothing that one side has is known to have been at the other.
func (s *state) strangers() bool {
	none := tree.Cursor{}
	return s.notes.Lost == 0 && s.peer.Push == none && s.peer.Fetch == none && s.notes.AgreedPush == none && s.notes.AgreedFetch == none && len(s.notes.Pulled) == 0
}

// unanswered reports whether a push is under way, or was and its answer never came.
func (s *state) unanswered() bool { return len(s.sent.Prints) > 0 && s.sent.Until == 0 }

// sent are the prints of entries that were pushed.
type sent struct {
	Prints map[string]string `json:"prints,omitempty"`
	// Until is the remote's revision by which all of them were applied, 0 while a push is
	// under way.
	Until int64 `json:"until,omitempty"`
}

// The rows beside that of the cursors. Rows of peers are all that a tree stores for its
// peers, and all that commits with it: the text is where a path would be.
const (
	notesRow = " notes"
	sentRow  = " sent"
	heldRow  = " withheld"

	rulesRow   = " rules"
	ignoredRow = " ignored"
)

func (m *Mirror) loadState(ctx context.Context) (state, error) {
	var s state
	var err error
	if s.peer, err = m.tree.Peer(ctx, m.cfg.PeerID); err != nil {
		return s, err
	}
	for suffix, into := range map[string]any{notesRow: &s.notes, sentRow: &s.sent, heldRow: &s.held, rulesRow: &s.rules, ignoredRow: &s.ignored} {
		row, err := m.tree.Peer(ctx, m.cfg.PeerID+suffix)
		if err != nil {
			return s, err
		}
		if row.Fetch.Path == "" {
			continue
		}
		if err := json.Unmarshal([]byte(row.Fetch.Path), into); err != nil {
			return s, fmt.Errorf("read %s%s: %w: %w", m.cfg.PeerID, suffix, tree.ErrDamaged, err)
		}
	}
	s.notes.Waits = m.checked(s.notes.Waits)
	if s.rules != nil {
		if err := s.rules.compile(m.roots.local); err != nil {
			return s, fmt.Errorf("read %s%s: %w: %w", m.cfg.PeerID, rulesRow, tree.ErrDamaged, err)
		}
	}
	return s, nil
}

// store stores next, as far as it differs from what is there.
func (m *Mirror) store(e *tree.Edit, next *state) error {
	if m.s.peer != next.peer {
		if err := e.ResetPeer(next.peer); err != nil {
			return err
		}
	}
	if err := m.storeText(e, notesRow, &m.s.notes, &next.notes); err != nil {
		return err
	}
	if m.s.held != next.held {
		if err := m.storeText(e, heldRow, m.s.held, next.held); err != nil {
			return err
		}
		if err := m.sendFreed(e, next); err != nil {
			return err
		}
	}
	if m.s.rules != next.rules {
		if err := m.storeText(e, rulesRow, m.s.rules, next.rules); err != nil {
			return err
		}
	}
	if m.s.ignored != next.ignored {
		if err := m.storeText(e, ignoredRow, m.s.ignored, next.ignored); err != nil {
			return err
		}
	}
	if m.s.sent.Until == next.sent.Until && maps.Equal(m.s.sent.Prints, next.sent.Prints) {
		return nil
	}
	text, err := json.Marshal(&next.sent)
	if err != nil {
		return err
	}
	return m.putText(e, sentRow, string(text))
}

func (m *Mirror) storeText(e *tree.Edit, suffix string, old, next any) error {
	was, err := json.Marshal(old)
	if err != nil {
		return err
	}
	is, err := json.Marshal(next)
	if err != nil || string(was) == string(is) {
		return err
	}
	return m.putText(e, suffix, string(is))
}

func (m *Mirror) putText(e *tree.Edit, suffix, text string) error {
	return e.ResetPeer(tree.Peer{ID: m.cfg.PeerID + suffix, Fetch: tree.AtPath(0, text)})
}

// commit stores next by itself.
func (m *Mirror) commit(ctx context.Context, next state) error {
	_, err := m.tree.Update(ctx, func(e *tree.Edit) error { return m.store(e, &next) })
	if err != nil {
		m.loaded = false
		return fmt.Errorf("store the cursors: %w", err)
	}
	m.s = next
	return nil
}

// tidied is the state without what its cursors have made useless.
func (s state) tidied() state {
	// What comes next there may be our own.
	if p, ok := s.notes.Pushed.find(s.peer.Fetch.Rev + 1); ok && !s.peer.Fetch.Within {
		s.peer.Fetch = tree.At(p.Hi)
	}
	s.notes.Pushed = s.notes.Pushed.above(s.peer.Fetch.Rev - 1)
	s.notes.Pulled = s.notes.Pulled.above(s.peer.Push.Rev - 1)
	if s.sent.Until > 0 && s.peer.Fetch.Compare(tree.At(s.sent.Until)) >= 0 {
		s.sent = sent{}
	}
	if s.peer.Push.Compare(tree.At(s.notes.Lost)) >= 0 {
		s.notes.Lost = 0
	}
	if s.peer.Push.Compare(s.notes.AgreedPush) >= 0 && s.peer.Fetch.Compare(s.notes.AgreedFetch) >= 0 {
		s.notes.Shown, s.notes.AgreedPush, s.notes.AgreedFetch = nil, tree.Cursor{}, tree.Cursor{}
		s.notes.ShownNames = false
		s.rules = s.rules.settled()
	}
	return s
}

// with returns what was sent and a block more.
func (s sent) with(entries []tree.Entry) sent {
	out := sent{Prints: maps.Clone(s.Prints)}
	if out.Prints == nil || len(out.Prints)+len(entries) > maxSent {
		out.Prints = make(map[string]string, len(entries))
	}
	for i := range entries {
		out.Prints[entries[i].Path] = printOf(&entries[i])
	}
	return out
}

// agreedOn is agreed for an entry, which may be a link that was ignored for what it leads to.
func (k *known) agreedOn(e *tree.Entry, path string, at, upTo tree.Cursor) bool {
	return k.agreed(path, at, upTo) && !(k.notes.ShownNames && isRawLink(e))
}

// agreed reports whether a path was in step, at a place in one of the change streams,
// before all was begun anew because something else is ignored: if it was not ignored then.
func (k *known) agreed(path string, at, upTo tree.Cursor) bool {
	return at.Compare(upTo) <= 0 && !hidden(path, k.notes.Shown) && !k.rules.hid(path) && !(k.notes.ShownNames && !isPlain(path))
}

// answered returns what may still come back once a push was answered that brought the
// remote to a revision. If that says which revisions it made, nothing of its entries does;
// what was sent earlier under other paths has been applied by then, or never will be.
func (s sent) answered(entries []tree.Entry, rev int64, told bool) sent {
	if told && len(s.Prints) <= len(entries) {
		return sent{}
	}
	out := sent{Prints: s.Prints, Until: rev}
	if told {
		out.Prints = maps.Clone(s.Prints)
		for i := range entries {
			delete(out.Prints, entries[i].Path)
		}
	}
	if len(out.Prints) == 0 {
		return sent{}
	}
	return out
}
