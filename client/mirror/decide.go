package mirror

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A decision is what becomes of the entries of a batch, made within the update that
// applies them: so nothing can change in between.
type decision struct {
	m      *Mirror
	edit   *tree.Edit
	local  *localChanges
	policy Policy
	all    bool              // each change is wanted
	keep   bool              // versions that lose are kept (package lost)
	kept   map[string]copied // versions that were copied aside, by path

	before    int64 // our revision before the entries
	take      []tree.Entry
	changes   []Change
	lacking   map[string]bool // paths of entries whose content the remote has lost
	cleared   []string        // directories that something else takes the place of
	displaced []tree.Entry    // files and links of the remote that are below what is sent there and no directory
	conflicts []Conflict
	copies    []toCopy
	lost      []string         // paths whose versions from here give way, and are not sent
	more      []tree.Entry     // what is sent only because of what was decided
	told      map[string]int   // which of the conflicts is that of a path
	stripped  map[string]held  // of entries whose modes do not come over as they are
	holds     map[string]*held // what changes of what is withheld; nil for no longer
	withheld  []Withheld
	stayed    []changes.Kept
	left      map[string]string        // what notes.Left gets
	again     map[string]*changes.Kept // directories that were removed here and stay at the remote, by path
	moved     []string                 // paths of what is ignored, as far as it comes to other places here
	goes      map[string]bool          // paths that OnChange gets as deleted: each directory above that stays names them again
	undone    []string                 // paths of versions of the remote that are undone
	removed   map[string]string        // what versions the entries remove, by path
	renamed   map[string]string        // directories that the entries rename, by their old paths
	entries   []tree.Entry             // that are decided about
	arrivals  arrivals                 // with those that go along, once it is known that some do
	numbers   map[string]int64         // of versions from here that are kept, by path
	nothing   map[string]bool          // what oursIsNothing has said of paths that are held in conflict
	deleted   map[string]bool          // paths that the remote has removed, if .gitignore files count
	hides     map[string]bool          // what the batch says of what rules hide
	freed     map[string]bool          // paths of rules.Blocked that are so no more
	aside     map[string]bool          // paths of what is brought aside and makes way
	failed    unkeepable               // by the attempts before
	goneNow   bool                     // a version that loses was not to be had, and is looked at once more
	unkept    map[string]*waiting      // where versions wait that could not be kept and are held, by path
	touched   bool                     // something is sent only because of what was decided
	unseen    unseen                   // what could not be read here
	rawHere   bool                     // this side may have what the remote can not
}

// decide decides about all entries of a batch.
func (d *decision) decide(b *batch) error {
	gone, there, err := d.disagreed(b.again)
	if err != nil {
		return err
	}
	entries := slices.Concat(b.entries, gone)
	d.lacking = b.lacking
	if err := d.decideEach(b.begun, entries); err != nil {
		return err
	}
	for i := range there {
		if err := d.goesAgain(&there[i]); err != nil {
			return err
		}
	}
	if err := d.sendFreed(); err != nil {
		return err
	}
	if n := len(d.holds); n > 0 && len(d.m.s.held.with(d.holds).Paths) > maxHeld {
		err := ErrWithheld
		if d.m.s.held.with(d.holds).conflicts() > 0 {
			err = ErrHeld
		}
		return fmt.Errorf("%w: more than %d", err, maxHeld)
	}
	// What was touched so far is to be sent.
	d.before = d.edit.Rev()
	switch {
	case d.m.policy == Fail && len(d.conflicts) > 0:
		return &ConflictError{Conflicts: d.conflicts}
	case d.goneNow:
		return errGone
	case len(d.copies) > 0:
		return errCopies
	}
	return nil
}

// decideEach decides about some entries. begun is as for changes.Renames.
func (d *decision) decideEach(begun int64, entries []tree.Entry) error {
	d.deleted = map[string]bool{}
	d.told, d.removed, d.numbers = map[string]int{}, map[string]string{}, map[string]int64{}
	for i := range entries {
		if x := &entries[i]; x.Kind == tree.KindDelete && x.Prior != "" {
			d.removed[x.Path] = x.Prior
		}
		if x := &entries[i]; x.Kind == tree.KindDelete && d.m.cfg.GitIgnore {
			d.deleted[x.Path] = true
		}
	}
	d.entries = entries
	var err error
	if d.renamed, err = changes.Renames(begun, entriesOf(entries)); err != nil {
		return err
	}
	s, rev := &d.m.s, d.edit.Rev()
	clean := s.clean(rev)
	if d.hides == nil {
		d.hides = map[string]bool{}
	}
	d.rawHere = d.m.hasRaw()
	d.unseen = d.m.unseenHere()
	each := d.all || len(d.unseen) > 0 || s.held.conflicts() > 0 || len(s.held.lacking()) > 0 // is looked at
	for i := range entries {
		d.policy = d.m.policyAt(entries[i].Path)
		if err := d.unblock(&entries[i]); err != nil {
			return err
		}
		if nothing, err := d.ignored(&entries[i]); err != nil {
			return err
		} else if nothing {
			continue
		}
		top, h, conflict := d.conflictAt(entries[i].Path)
		if conflict && (!d.policy.decides() || d.staysHeld(top, h, &entries[i])) {
			if err := d.heldStill(top, h, &entries[i]); err != nil {
				return err
			}
			continue
		}
		nothing, err := d.oursIsNothing(top, conflict)
		if err != nil {
			return err
		}
		if conflict && !nothing && d.policy == Ours && entries[i].Path != top && entries[i].Rev <= h.Fetched {
			if err := d.sendAgain(entries[i].Path); err != nil { // it is no change
				return err
			}
			continue
		}
		if d.lacking[entries[i].Path] {
			if err := d.lack(&entries[i]); err != nil {
				return err
			}
			continue
		}
		x, err := d.withhold(&entries[i])
		if err != nil {
			return err
		}
		if x == nil {
			continue
		}
		if d.m.cfg.Guard && d.policy == Hold {
			if err := d.guard(x); err != nil {
				return err
			}
			continue
		}
		if d.m.cfg.Undo || nothing {
			if err := d.undo(x); err != nil {
				return err
			}
			continue
		}
		list, kept, err := d.spare(x)
		if err != nil {
			return err
		}
		decide := func(x *tree.Entry) error {
			if d.arrivals.moves(x) {
				d.taken(x)
				return nil
			}
			if _, known := d.isHeld(x.Path); !known && !each && !d.touched && (clean || !d.local.touches(s, x.Path, rev)) {
				d.taken(x)
				return nil
			}
			return d.one(x)
		}
		if x.Kind == tree.KindDelete || kept == nil {
			for i := range list {
				if err := decide(&list[i]); err != nil {
					return err
				}
			}
		} else {
			// What is brought aside makes way for it, unless it loses.
			n, aside := len(d.take), list[:len(list)-1]
			if err := decide(&list[len(list)-1]); err != nil {
				return err
			}
			if len(d.take) == n {
				continue
			}
			d.take = slices.Insert(d.take, n, aside...)
			if d.aside == nil {
				d.aside = map[string]bool{}
			}
			d.aside[kept.Path] = true
		}
		d.moves(list)
		if kept != nil {
			d.stayed = append(d.stayed, *kept)
		}
	}
	return nil
}

// moves notes what is brought aside, or along with its directory, and is ignored: it is a change
// from here once it is not.
func (d *decision) moves(list []tree.Entry) {
	for i := range list {
		if e := &list[i]; e.Kind != tree.KindDelete && d.m.filter.hides(e.Path, e.Kind == tree.KindDir) {
			d.moved = append(d.moved, e.Path)
		}
	}
}

// at is what there is at a path: a node, a tomb, or nil.
func (d *decision) at(path string) (*tree.Entry, error) {
	e, err := d.edit.Entry(path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	return &e, err
}

func live(e *tree.Entry) bool { return e != nil && e.Kind != tree.KindDelete }

// one decides about an entry.
func (d *decision) one(x *tree.Entry) error {
	cur, err := d.at(x.Path)
	if err != nil {
		return err
	}
	var losers []tree.Entry
	removed := "" // a directory above it that was removed here
	known, _ := d.isHeld(x.Path)
	if cur != nil && (known.Apart || d.changed(cur.Path, cur.Rev)) && !same(cur, x) && !d.readUnchanged(&known, cur) {
		print := printOf(x)
		if h, ok := d.stripped[x.Path]; ok {
			print = h.Remote
		}
		if d.cameFromHere(print, cur) {
			return nil
		}
		if known.Bits != 0 && known.Remote == print {
			d.keepHeld(x.Path, known) // the same as before: what has changed here is sent with its bits
			return nil
		}
		if x.Kind == tree.KindDelete && !d.meant(cur) {
			// What was removed is not what has been made here since.
			made, err := d.madeHere(x.Path)
			if made || err != nil {
				return err
			}
		}
		if !d.meant(cur) {
			losers = append(losers, *cur)
		}
	}
	switch {
	case live(cur) && cur.Kind == tree.KindDir && x.Kind != tree.KindDir:
		err = d.below(x.Path, &losers)
	case !live(cur) && x.Kind != tree.KindDelete:
		removed, err = d.onTheWay(x.Path, &losers)
	}
	if err != nil {
		return err
	}
	changed := len(losers) > 0
	d.addUnseen(x, cur, &losers)
	if len(losers) == 0 {
		if removed != "" {
			d.madeAgain(removed, x.Path)
		}
		d.accept(x, cur)
		return nil
	}
	if err := d.resolve(x, cur, losers); err != nil || changed {
		return err
	}
	d.holdsUnseen(x.Path, cur)
	return nil
}

// meant reports whether a version is the very one that an entry removes.
func (d *decision) meant(e *tree.Entry) bool {
	prior := d.removed[e.Path]
	return prior != "" && live(e) && tree.Fingerprint(e) == prior
}

// madeHere reports whether a path is one that the remote has not heard of: the last of
// the names on it was given here.
func (d *decision) madeHere(path string) (bool, error) {
	var last tree.Name
	for p := path; p != "/"; p = above(p) {
		dir, err := d.edit.Lstat(above(p))
		if err != nil {
			return false, err
		}
		c, err := d.edit.Tx().Lookup(dir.Ino, p[strings.LastIndexByte(p, '/')+1:])
		if errors.Is(err, tree.ErrNoRow) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if c.Name.Rev > last.Rev {
			last = c.Name
		}
	}
	if !d.changedSince(path, last.Rev) && !covers(d.freed, path) {
		return false, nil
	}
	// Unless there was one before, which was removed here: then it was replaced.
	tomb, err := d.edit.Tx().Tomb(last.Namespace, path)
	if errors.Is(err, tree.ErrNoRow) {
		return true, nil
	}
	return err == nil && !d.changedSince(path, tomb.Rev), err
}

// below finds what has changed in a directory.
func (d *decision) below(path string, out *[]tree.Entry) error {
	info, err := d.edit.Lstat(path)
	if err != nil {
		return err
	}
	for last := ""; ; {
		list, err := d.edit.Tx().Children(info.Ino, last, page)
		if err != nil {
			return err
		}
		for i := range list {
			child := slashpath.Join(path, list[i].Name.Name)
			e, err := d.at(child)
			if err != nil {
				return err
			}
			if live(e) && d.m.filter.hides(child, e.Kind == tree.KindDir) {
				continue
			}
			if live(e) && d.changed(child, e.Rev) && !d.meant(e) {
				*out = append(*out, *e)
			}
			if live(e) && e.Kind == tree.KindDir {
				if err := d.below(child, out); err != nil {
					return err
				}
			}
		}
		if len(list) < page {
			return nil
		}
		last = list[len(list)-1].Name.Name
	}
}

// onTheWay finds what has changed above a path and is no directory. It returns the topmost directory
// there that was removed here, which the remote has not heard of; "" for none.
func (d *decision) onTheWay(path string, out *[]tree.Entry) (removed string, err error) {
	for p := above(path); p != "/"; p = above(p) {
		e, err := d.at(p)
		if err != nil {
			return "", err
		}
		if !live(e) {
			if e != nil && d.changedSince(p, e.Rev) {
				removed = p
			}
			continue
		}
		if e.Kind != tree.KindDir && !d.aside[p] && d.changed(p, e.Rev) {
			*out = append(*out, *e)
		}
		break
	}
	return removed, nil
}

// taken notes that an entry is applied.
func (d *decision) taken(x *tree.Entry) {
	d.take = append(d.take, *x)
	if h, ok := d.stripped[x.Path]; ok {
		d.hold(x.Path, h)
	} else {
		d.letGo(x.Path)
	}
}

// accept has an entry applied.
func (d *decision) accept(x, cur *tree.Entry) {
	touched := d.m.touches(cur, x)
	if touched && d.m.s.changed(cur.Path, cur.Rev) { // the time here is going to be sent
		own := *x
		own.MTime, touched = cur.MTime, false
		x = &own
	}
	d.taken(x)
	if !d.all || same(cur, x) && !touched {
		return
	}
	if live(cur) && cur.Kind == tree.KindDir && (x.Kind == tree.KindFile || x.Kind == tree.KindSymlink) {
		d.cleared = append(d.cleared, x.Path)
	}
	c := Change{Path: x.Path, Kind: x.Kind, Size: x.Size, What: Modified}
	switch {
	case touched:
		c.What = Touched
	case x.Kind == tree.KindDelete:
		if d.goes[x.Path] {
			return
		}
		if d.goes == nil {
			d.goes = map[string]bool{}
		}
		d.goes[x.Path] = true
		c.What, c.Kind = Deleted, cur.Kind
	case !live(cur):
		c.What = Created
	}
	d.changes = append(d.changes, c)
}

// resolve decides about an entry that would take changes from here away.
func (d *decision) resolve(x, cur *tree.Entry, losers []tree.Entry) error {
	kept := d.verdict(x, losers)
	if held, err := d.holdUnkept(x, cur, losers, kept); held || err != nil {
		return err
	}
	copies := map[string]string{}
	if kept == KeptBoth {
		for i := range losers {
			if l := &losers[i]; l.Kind == tree.KindFile || l.Kind == tree.KindSymlink {
				if c, ok := d.kept[l.Path]; ok && c.print == printOf(l) {
					copies[l.Path] = c.path
					continue
				}
				d.copies = append(d.copies, toCopy{version: *l, by: *x})
			}
		}
	}
	number, err := int64(0), error(nil)
	if kept == KeptLocal {
		by := cur
		if by == nil {
			by = &tree.Entry{Kind: tree.KindDelete}
		}
		if number, err = d.keepLost(x, by); err != nil {
			return err
		}
	}
	for i := range losers {
		l := &losers[i]
		if kept == KeptRemote || kept == KeptBoth && copies[l.Path] == "" {
			if number, err = d.loses(l, x); err != nil {
				return err
			}
		}
		c := Conflict{Path: l.Path, Local: versionOf(l), Remote: versionOf(x), Kept: kept, Copy: copies[l.Path], Held: d.policy == Hold}
		if kept != KeptBoth || c.Copy == "" {
			c.Lost = number
		}
		if l.Path != x.Path {
			c.By = x.Path
		}
		d.tell(&c)
	}
	switch kept {
	case KeptNone:
		if d.policy == Hold {
			d.holdConflict(x, cur, losers)
		}
		return nil
	case KeptRemote, KeptBoth:
		for i := range losers {
			d.lost = append(d.lost, losers[i].Path)
		}
		d.accept(x, cur)
		return nil
	case KeptLocal:
		if top, h, held := d.conflictAt(x.Path); held {
			if top == x.Path {
				return d.sendHeld(x, h)
			}
			return d.sendAgain(x.Path)
		}
		d.letGo(x.Path)
	}
	if live(cur) {
		// A directory that stays because of what is in it is sent as well.
		return d.sendInstead(x)
	}
	if x.Kind == tree.KindDelete {
		return nil
	}
	// What leaves it no room here now may be gone before it is sent. A removal from here is
	// another one now: that of this version, and not one that comes a second time.
	d.touched = true
	gone, err := d.edit.Bury(x.Path, tree.Fingerprint(d.whole(x)))
	if cur == nil || !d.m.s.changed(cur.Path, cur.Rev) {
		d.more = append(d.more, gone)
	}
	return err
}

// whole is a version as the remote has it, with the bits that are withheld.
func (d *decision) whole(x *tree.Entry) *tree.Entry {
	h, ok := d.stripped[x.Path]
	if !ok {
		return x
	}
	out := *x
	out.Mode |= h.Bits
	return &out
}

// tell notes a conflict. That a path was removed there says less than what has taken its place. Each
// version that is kept is named, also when several make way for one path.
func (d *decision) tell(c *Conflict) {
	i, known := d.told[c.Path]
	switch {
	case !known:
		d.told[c.Path] = len(d.conflicts)
		d.conflicts = append(d.conflicts, *c)
	case d.conflicts[i].Remote.Kind == tree.KindDelete && c.Remote.Kind != tree.KindDelete:
		d.conflicts[i] = *c
	case c.Kept == KeptLocal && c.Lost != 0 && c.Lost != d.conflicts[i].Lost:
		d.conflicts = append(d.conflicts, *c)
	}
}

// sendAgain has what is at a path sent, if that is not due anyway.
func (d *decision) sendAgain(path string) error {
	cur, err := d.at(path)
	if err != nil || cur == nil || d.m.s.changed(cur.Path, cur.Rev) {
		return err
	}
	d.touched = true
	stays, err := d.edit.Touch(path)
	d.more = append(d.more, stays)
	return err
}

// sendInstead has what is here sent in the place of an entry: of a directory also what is in
// it, if something else has taken its place there. That has no entries of its own.
func (d *decision) sendInstead(x *tree.Entry) error {
	if x.Kind == tree.KindDir || x.Kind == tree.KindDelete {
		return d.sendAgain(x.Path)
	}
	sent, err := touchAll(d.edit, x.Path, func(e *tree.Entry) bool {
		_, goes := d.removed[e.Path]
		return !goes && !d.m.s.changed(e.Path, e.Rev)
	})
	d.touched = d.touched || len(sent) > 0
	d.more = append(d.more, sent...)
	return err
}

// loses keeps a version from here that gives way, once, and returns its number.
func (d *decision) loses(l, x *tree.Entry) (int64, error) {
	number, known := d.numbers[l.Path]
	if known {
		return number, nil
	}
	by := x
	if x.Path != l.Path {
		by = &tree.Entry{Kind: tree.KindDelete}
	}
	number, err := d.keepLost(l, by)
	d.numbers[l.Path] = number
	return number, err
}

// verdict is what the policy says.
func (d *decision) verdict(x *tree.Entry, losers []tree.Entry) Kept {
	switch d.policy {
	case Fail, Hold:
		return KeptNone
	case Ours:
		return KeptLocal
	case Both:
		if x.Kind == tree.KindDelete || d.forgotten(x, losers) {
			return KeptLocal
		}
		for i := range losers {
			if k := losers[i].Kind; k == tree.KindFile || k == tree.KindSymlink {
				return KeptBoth
			}
		}
		return KeptRemote
	case Theirs:
		if d.forgotten(x, losers) {
			return KeptLocal
		}
	}
	return KeptRemote
}

// forgotten reports whether an entry is older than a version that a store of the remote had
// acknowledged which is gone: that version counts as agreed.
func (d *decision) forgotten(x *tree.Entry, losers []tree.Entry) bool {
	for i := range losers {
		l := &losers[i]
		if l.Rev <= d.m.s.notes.Lost && live(l) && (x.Kind == tree.KindDelete || !x.MTime.After(l.MTime)) {
			return true
		}
	}
	return false
}
