package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/wsd-dev/wsd/client/withheld"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A Withheld is what of a version of the remote's did not come over, since it could do harm
// here. The remote keeps it; nothing of it is pushed back.
type Withheld struct {
	Path string // of the local tree
	Kind tree.Kind
	// Bits are the bits of the mode that were left out. 0 says that the version as a whole
	// did not come over, since its name makes programs run code.
	Bits uint32
}

// ErrWithheld says that a remote has more paths that do not come over than are remembered.
var ErrWithheld = errors.New("the remote has too many paths that do not come over")

// A held remembers a Withheld, or a conflict, until both sides agree on its path.
type held struct {
	Remote string    `json:"remote"`          // print of the remote's version
	Local  string    `json:"local,omitempty"` // print of what is here, which is not sent; "" for nothing
	Kind   tree.Kind `json:"kind"`
	Bits   uint32    `json:"bits,omitempty"` // as Withheld.Bits
	// Apart: what is here is no version that the remote has had.
	Apart bool `json:"apart,omitempty"`
	// Kept is the number of the lost version here that the remote's version is kept as, 0 for none.
	Kept int64 `json:"kept,omitempty"`
	// Stale: all is fetched anew, and this path has not come yet.
	Stale bool `json:"stale,omitempty"`
	// Lacking: the remote cannot read the content of its version. It is asked for each time.
	Lacking bool `json:"lacking,omitempty"`
	// Conflict: the path stays as it is on both sides, with all below it unless it is Shallow.
	// Since and Fetched are the revisions, ours and the remote's, up to which both sides had
	// agreed on what is below it.
	Conflict bool  `json:"conflict,omitempty"`
	Shallow  bool  `json:"shallow,omitempty"`
	Since    int64 `json:"since,omitempty"`
	Fetched  int64 `json:"fetched,omitempty"`
	// Unkept is the path of a version from here that the conflict would take away and that could not be
	// kept. The conflict is decided once it can be.
	Unkept string `json:"unkept,omitempty"`
	// Agreed is the print of the version that both sides had when the path came to be held in conflict only because
	// what is here could not be read; "" for all other conflicts, and if there was none.
	Agreed string `json:"agreed,omitempty"`
}

// A heldSet has what is withheld or held in conflict, by local path. It is a value: to change it is to make
// another one. nil is the empty one.
type heldSet struct {
	Paths map[string]held `json:"paths"`
}

func (s *heldSet) at(path string) (held, bool) {
	if s == nil {
		return held{}, false
	}
	h, ok := s.Paths[path]
	return h, ok
}

// with returns the set after some changes; nil takes a path out.
func (s *heldSet) with(changes map[string]*held) *heldSet {
	if len(changes) == 0 {
		return s
	}
	out := &heldSet{Paths: map[string]held{}}
	if s != nil {
		maps.Copy(out.Paths, s.Paths)
	}
	for path, h := range changes {
		if h == nil {
			delete(out.Paths, path)
		} else {
			out.Paths[path] = *h
		}
	}
	return out
}

// marked returns the set with those as stale that fn selects, and whether there are any.
func (s *heldSet) marked(fn func(string, held) bool) (*heldSet, bool) {
	changes := map[string]*held{}
	if s != nil {
		for path, h := range s.Paths {
			if !h.Stale && fn(path, h) {
				h.Stale = true
				changes[path] = &h
			}
		}
	}
	return s.with(changes), len(changes) > 0
}

// fresh returns the set without those that are stale.
func (s *heldSet) fresh() *heldSet {
	changes := map[string]*held{}
	if s != nil {
		for path, h := range s.Paths {
			if h.Stale {
				changes[path] = nil
			}
		}
	}
	return s.with(changes)
}

// above returns the directories that something is in which only the remote has, but for that which a
// change from here is sent for.
func (m *Mirror) above(s *heldSet) map[string]bool {
	return s.above(func(path string, h held) bool { return !h.Lacking || m.waits(path, h) })
}

// above returns the directories that something is in which only the remote has, as far as fn selects it; nil
// selects all.
func (s *heldSet) above(fn func(string, held) bool) map[string]bool {
	dirs := map[string]bool{}
	if s == nil {
		return dirs
	}
	deleted := printOf(&tree.Entry{Kind: tree.KindDelete})
	for path, h := range s.Paths {
		if h.Bits != 0 || h.Remote == deleted || fn != nil && !fn(path, h) {
			continue
		}
		for p := above(path); p != "/" && !dirs[p]; p = above(p) {
			dirs[p] = true
		}
	}
	return dirs
}

// printHere is printOf for what is at a path here, "" for nothing.
func printHere(e *tree.Entry) string {
	if !live(e) {
		return ""
	}
	return printOf(e)
}

// isCode reports whether something of a kind at a local path must not come over.
func (m *Mirror) isCode(path string, kind tree.Kind) bool {
	if m.cfg.AllowCode {
		return false
	}
	k := withheld.Other
	switch kind {
	case tree.KindDir:
		k = withheld.Dir
	case tree.KindSymlink:
		k = withheld.Link
	case tree.KindFile, tree.KindDelete:
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(path, m.roots.local), "/")
	return withheld.Code(withheld.Below(m.cfg.Dir, rest), k)
}

// releasing has what was withheld before, and is allowed now or was lacking, fetched again.
func (m *Mirror) releasing(s state) state {
	return s.refetching(func(_ string, h held) bool {
		return !h.Conflict && (h.Lacking || h.Bits == 0 && m.cfg.AllowCode || h.Bits != 0 && m.cfg.AllowModes)
	})
}

// refetching has all listed again that the remote has, for the sake of what is held and fn
// selects. The rest counts as agreed.
func (s state) refetching(fn func(string, held) bool) state {
	again, any := s.held.marked(fn)
	if !any {
		return s
	}
	s.held = again
	if s.peer.Fetch.Compare(s.notes.AgreedFetch) > 0 {
		s.notes.AgreedFetch = s.peer.Fetch
	}
	s.peer.Fetch = tree.Cursor{}
	return s
}

// isHeld is what is withheld of a path, as far as it has been decided.
func (d *decision) isHeld(path string) (held, bool) {
	if h, ok := d.holds[path]; ok {
		if h == nil {
			return held{}, false
		}
		return *h, true
	}
	return d.m.s.held.at(path)
}

// hold notes that something of a version is withheld.
func (d *decision) hold(path string, h held) {
	old, known := d.isHeld(path)
	if known && old.Remote == h.Remote && old.Bits == h.Bits && h.Bits == 0 {
		// The same as before: what has been changed here since is still to be sent.
		h.Local, h.Apart, h.Kept = old.Local, old.Apart, old.Kept
	}
	if !known || old.Remote != h.Remote || old.Bits != h.Bits {
		d.withheld = append(d.withheld, Withheld{Path: path, Kind: h.Kind, Bits: h.Bits})
	}
	if known && old == h {
		return
	}
	d.remember(path, &h)
}

// keepHeld notes that what is withheld of a path is what it was.
func (d *decision) keepHeld(path string, h held) {
	if !h.Stale {
		return
	}
	h.Stale = false
	d.remember(path, &h)
}

// letGo notes that nothing of a path is withheld any more.
func (d *decision) letGo(path string) {
	h, known := d.isHeld(path)
	switch {
	case !known:
	case h.Conflict && h.Stale:
		// More may come of what is below it: it is let go when all has.
	default:
		d.remember(path, nil)
	}
}

// lack decides about an entry whose content the remote cannot read, now or for good. The version of
// this side stays, and no change of it is sent: that would take the place of what nobody can compare it
// with, or keep. Ours sends it.
func (d *decision) lack(x *tree.Entry) error {
	cur, err := d.at(x.Path)
	if err != nil {
		return err
	}
	old, known := d.isHeld(x.Path)
	apart := known && old.Apart || cur != nil && d.changed(cur.Path, cur.Rev)
	switch {
	case apart && d.policy == Ours && old.Conflict:
		return d.sendHeld(x, old)
	case apart && d.policy == Ours:
		d.letGo(x.Path)
		return cmp.Or(d.sendAgain(x.Path), d.sendRemovedAbove(x.Path))
	}
	h := held{Remote: printOf(x), Local: printHere(cur), Kind: x.Kind, Apart: apart, Lacking: true}
	if h.Conflict = old.Conflict; h.Conflict {
		h.Since, h.Fetched = old.Since, old.Fetched
	}
	if !known || old != h {
		d.remember(x.Path, &h)
	}
	return nil
}

// lacking lists the paths of which the remote cannot read the content.
func (s *heldSet) lacking() []string {
	if s == nil {
		return nil
	}
	var out []string
	for path, h := range s.Paths {
		if h.Lacking {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// regained is the first of some paths whose content the remote can read again, and could not; "" for
// none. A path that it has something else at has changed, and comes anyway. A version is found
// once in each connection: the remote may say that it has what it cannot read.
func (m *Mirror) regained(ctx context.Context) (string, error) {
	paths := slices.DeleteFunc(m.s.held.lacking(), func(path string) bool {
		h, _ := m.s.held.at(path)
		return h.Stale || m.found[path] == h.Remote || m.fullHere.has(path)
	})
	paths = paths[:min(len(paths), maxRegained)]
	entries := make([]tree.Entry, len(paths))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(maxLooks)
	for i, path := range paths {
		group.Go(func() error { // ends with its answer, or with the context
			remote, _ := m.roots.toRemote(path)
			e, err := m.remote().ReadEntry(within, remote)
			if err != nil {
				return fmt.Errorf("read %s at the remote: %w", remote, err)
			}
			if h, _ := m.s.held.at(path); e != nil && printOf(e) == h.Remote && len(e.Parts) <= m.limits.ask {
				entries[i] = *e
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	for i := range entries {
		ask := hashesOf(entries[i:i+1], allParts)
		if len(ask) == 0 {
			continue
		}
		lacking, err := m.lackingThere(ctx, ask)
		if err != nil {
			return "", err
		}
		if len(lacking) == 0 {
			return paths[i], nil
		}
	}
	return "", nil
}

// withhold returns what of an entry may come over, nil for nothing.
func (d *decision) withhold(x *tree.Entry) (*tree.Entry, error) {
	if d.m.cfg.AllowCode && d.m.cfg.AllowModes {
		return x, nil
	}
	bits := x.Mode & withheld.ModeBits
	if d.m.cfg.AllowModes || x.Kind != tree.KindFile && x.Kind != tree.KindDir {
		bits = 0
	}
	if bits == 0 && d.m.cfg.AllowCode {
		return x, nil
	}
	cur, err := d.at(x.Path)
	if err != nil {
		return nil, err
	}
	if code, err := d.bringsCode(x, cur); err != nil {
		return nil, err
	} else if code {
		return nil, d.withholdCode(x, cur)
	}
	if bits == 0 || same(cur, x) {
		return x, nil
	}
	if live(cur) && cur.Kind == x.Kind && (x.Kind == tree.KindDir || tree.ManifestOf(cur.Parts) == tree.ManifestOf(x.Parts)) {
		bits &^= cur.Mode // what is here already is ours
	}
	if bits == 0 {
		return x, nil
	}
	without := *x
	without.Mode &^= bits
	if d.stripped == nil {
		d.stripped = map[string]held{}
	}
	d.stripped[x.Path] = held{Remote: printOf(x), Local: printOf(&without), Kind: x.Kind, Bits: bits}
	return &without, nil
}

// bringsCode reports whether an entry would make, change or remove something whose name
// makes programs run code. cur is what is at its path.
func (d *decision) bringsCode(x, cur *tree.Entry) (bool, error) {
	if d.m.cfg.AllowCode {
		return false, nil
	}
	if x.Kind != tree.KindDelete && d.m.isCode(x.Path, x.Kind) || live(cur) && d.m.isCode(x.Path, cur.Kind) {
		return true, nil
	}
	switch {
	case live(cur) && cur.Kind == tree.KindDir && x.Kind != tree.KindDir:
		return d.codeBelow(x.Path)
	case !live(cur) && x.Kind != tree.KindDelete:
		// What is no directory on the way would make room.
		for p := above(x.Path); p != "/"; p = above(p) {
			e, err := d.at(p)
			if err != nil {
				return false, err
			}
			if live(e) {
				return e.Kind != tree.KindDir && d.m.isCode(p, e.Kind), nil
			}
		}
	}
	return false, nil
}

// codeBelow reports whether a directory has something that isCode.
func (d *decision) codeBelow(path string) (bool, error) {
	info, err := d.edit.Lstat(path)
	if err != nil {
		return false, err
	}
	for last := ""; ; {
		list, err := d.edit.Tx().Children(info.Ino, last, page)
		if err != nil {
			return false, err
		}
		for i := range list {
			child, kind := slashpath.Join(path, list[i].Name.Name), list[i].Node.Kind
			if d.m.isCode(child, kind) {
				return true, nil
			}
			if kind == tree.KindDir {
				if found, err := d.codeBelow(child); found || err != nil {
					return found, err
				}
			}
		}
		if len(list) < page {
			return false, nil
		}
		last = list[len(list)-1].Name.Name
	}
}

// withholdCode decides about an entry that brings code.
func (d *decision) withholdCode(x, cur *tree.Entry) error {
	if same(cur, x) {
		d.letGo(x.Path)
		return nil
	}
	changed := cur != nil && d.changed(cur.Path, cur.Rev)
	if d.cameFromHere(printOf(x), cur) {
		return nil
	}
	old, known := d.isHeld(x.Path)
	if changed && !known && x.Kind == tree.KindDelete && (cur.Kind == tree.KindDir || !d.meant(cur)) {
		// The remote has made and removed something else than has been made here.
		if made, err := d.madeHere(x.Path); made || err != nil {
			return err
		}
	}
	if changed && (d.policy == Ours || d.policy == Fail || d.policy == Both && x.Kind == tree.KindDelete) {
		return d.resolve(x, cur, []tree.Entry{*cur}) // which takes nothing
	}
	if known && old.Conflict { // what has changed meanwhile was not sent
		sent, err := touchAll(d.edit, x.Path, func(e *tree.Entry) bool { return e.Rev > old.Since })
		if err != nil {
			return err
		}
		d.touched, d.more = true, append(d.more, sent...)
	}
	h := held{Remote: printOf(x), Local: printHere(cur), Kind: x.Kind, Apart: changed && live(cur)}
	if known && old.Apart {
		h.Apart = true
	}
	d.hold(x.Path, h)
	return nil
}

// afterPush is the set once a block was applied, but for some local paths.
func (s *heldSet) afterPush(m *Mirror, b *block, again []string) *heldSet {
	if s == nil || len(s.Paths) == 0 {
		return s
	}
	gone, left, replaces := map[string]*held{}, setOf(again), s.replaced()
	for i := range b.entries {
		e := &b.entries[i]
		path, _ := m.roots.toLocal(e.Path)
		if left[path] {
			continue
		}
		for _, p := range replaces(path, e.Kind) {
			if p != path { // else the block says what is held there
				gone[p] = nil
			}
		}
	}
	return s.with(gone)
}

// isWithheld reports whether it is a version of a file or link that did not come over.
func (h *held) isWithheld() bool {
	return h.Bits == 0 && !h.Conflict && !h.Lacking && (h.Kind == tree.KindFile || h.Kind == tree.KindSymlink)
}

// A heldBack decides about changes from here to paths of which something is withheld.
type heldBack struct {
	held  *heldSet
	above map[string]bool // directories that only the remote has something in
	// waited are paths that changes below them wait with.
	waited map[string]bool
	// ignored is what the remote has that rules hide, in the directories of ignoredAbove.
	m            *Mirror
	ignored      *ignoredSet
	ignoredAbove map[string]bool
	// named is what it has that names hide, once that was listed.
	named  *ignoredSet
	listed bool
}

func (m *Mirror) holdBack(k *known) *heldBack {
	return &heldBack{held: k.held, above: m.above(k.held), waited: map[string]bool{}, m: m, ignored: k.ignored, ignoredAbove: k.ignored.above()}
}

// waits reports whether no change of a path is sent, since the remote cannot read what it has there.
func (m *Mirror) waits(path string, h held) bool { return h.Lacking && m.policyAt(path) != Ours }

// waitsWith has a change wait with a path above it, which is in conflict then with all that is in it.
func (b *heldBack) waitsWith(s *item, path string, h held) {
	s.out = true
	if s.entry.Kind == tree.KindDelete || b.waited[path] {
		return
	}
	b.waited[path] = true
	h.Conflict, h.Apart, h.Since = true, true, s.entry.Rev-1
	s.path, s.holds, s.hold = path, true, &h
}

// decide decides whether a change is sent, and gives it the bits that only the remote has.
func (b *heldBack) decide(s *item) {
	e := &s.entry
	if _, _, ok := b.held.conflictAt(e.Path); ok {
		s.out = true
		return
	}
	h, ok := b.held.at(e.Path)
	if !ok {
		for p := above(e.Path); p != "/" && !s.out; p = above(p) {
			if h, _ := b.held.at(p); b.m.waits(p, h) {
				b.waitsWith(s, p, h)
			}
		}
		if !s.out {
			b.leavesNoRoom(s)
		}
		return
	}
	print := printHere(e)
	if print == h.Local {
		s.out = true
		return
	}
	s.holds = true // what is here is the last word on it
	if b.m.waits(e.Path, h) {
		if h.Apart, h.Local = true, print; e.Kind == tree.KindDir { // with all that is in it
			h.Conflict, h.Since = true, e.Rev-1
		}
		s.out, s.hold = true, &h
		return
	}
	if h.Bits == 0 || e.Kind != h.Kind || e.Mode&withheld.ModeBits != 0 {
		return
	}
	e.Mode |= h.Bits
	s.hold = &held{Remote: printOf(e), Local: print, Kind: h.Kind, Bits: h.Bits}
}
