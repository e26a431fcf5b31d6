package mirror

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/ignore"
	"github.com/wsd-dev/wsd/fs/slashpath"
	"github.com/wsd-dev/wsd/fs/tree"
)

// ErrIgnored says that rules hide more paths of the remote one by one than are remembered.
var ErrIgnored = errors.New("too many paths of the server are ignored one by one; ignore the directories that they are in")

// rules are what rules there were and are. It is a value: to change it is to make another one.
type rules struct {
	Text string `json:"text,omitempty"` // those that count
	// Waiting are files with rules that a pull has read, by local path. They count as long as they are held as lacking:
	// there is no room for them here.
	Waiting ruleFiles `json:"waiting,omitempty"`
	// Shown are the texts that counted before, until all has been sent and fetched.
	Shown []string `json:"shown,omitempty"`
	// Blocked are local paths that are not sent, with what is below them, since the remote has
	// something of another kind there that rules hide. Freed are those of the rules before.
	Blocked []string `json:"blocked,omitempty"`
	Freed   []string `json:"freed,omitempty"`
	// Forgotten: more rules counted before than are remembered, and any path may have been hidden.
	Forgotten bool `json:"forgotten,omitempty"`

	shown []*filter
}

// waiting is Waiting. A nil rules has none.
func (r *rules) waiting() ruleFiles {
	if r == nil {
		return nil
	}
	return r.Waiting
}

// awaiting returns the rules with other files that wait.
func (r *rules) awaiting(files ruleFiles) *rules {
	if maps.Equal(r.waiting(), files) {
		return r
	}
	next := rules{}
	if r != nil {
		next = *r
	}
	next.Waiting = files
	return &next
}

func (r *rules) text() string {
	if r == nil {
		return ""
	}
	return r.Text
}

// compile makes the filters of what counted before.
func (r *rules) compile(local string) error {
	for _, text := range r.Shown {
		f, err := newFilter(local, nil, text)
		if err != nil {
			return err
		}
		r.shown = append(r.shown, f)
	}
	return nil
}

// hid reports whether rules that counted before may have hidden a path, or kept it here.
func (r *rules) hid(path string) bool {
	if r == nil || r.Forgotten {
		return r != nil
	}
	for p := path; len(r.Freed) > 0 && p != "/"; p = above(p) {
		if slices.Contains(r.Freed, p) {
			return true
		}
	}
	return slices.ContainsFunc(r.shown, func(f *filter) bool { return f.hidesSome(path) })
}

// with returns the rules after paths were not sent because of them.
func (r *rules) with(blocked []string) (*rules, error) {
	var more []string
	for _, path := range blocked {
		if !slices.Contains(r.Blocked, path) && !slices.Contains(more, path) {
			more = append(more, path)
		}
	}
	if len(more) == 0 {
		return r, nil
	}
	if len(r.Blocked)+len(more) > maxBlocked {
		return nil, fmt.Errorf("%w: more than %d of them are of another kind here", ErrIgnored, maxBlocked)
	}
	next := *r
	next.Blocked = slices.Concat(r.Blocked, more)
	return &next, nil
}

// without returns the rules after what is here at some paths is to be sent again.
func (r *rules) without(freed map[string]bool) *rules {
	if r == nil || len(freed) == 0 {
		return r
	}
	next := *r
	next.Blocked = slices.DeleteFunc(slices.Clone(r.Blocked), func(path string) bool { return freed[path] })
	return &next
}

// settled returns the rules without those that counted before.
func (r *rules) settled() *rules {
	if r == nil || len(r.Shown)+len(r.Freed) == 0 && !r.Forgotten {
		return r
	}
	return &rules{Text: r.Text, Blocked: r.Blocked, Waiting: r.Waiting}
}

// changed returns the rules after others have come to count. Those of before are forgotten if there are
// too many: nothing counts as agreed then.
func (r *rules) changed(text, local string) (*rules, error) {
	next := &rules{Text: text}
	if r != nil {
		next.Shown = slices.Clone(r.Shown)
		next.Freed = slices.Concat(r.Freed, r.Blocked)
		next.Forgotten = r.Forgotten
	}
	if was := r.text(); was != "" && !slices.Contains(next.Shown, was) {
		next.Shown = append(next.Shown, was)
	}
	if next.Forgotten = next.Forgotten || len(next.Freed) > maxBlocked || len(next.Shown) > maxShownRules; next.Forgotten {
		next.Shown, next.Freed = nil, nil
	}
	return next, next.compile(local)
}

// ignoring takes what is ignored now.
func (m *Mirror) ignoring(s state) (state, error) {
	f := m.filter
	var shown []string
	for _, name := range s.notes.Ignore {
		if !slices.Contains(f.names, name) {
			shown = append(shown, name)
		}
	}
	s.notes.Ignore = f.names
	names := !f.plain && !s.notes.AnyNames // those that are not UTF-8 are not ignored any more
	if s.notes.AnyNames = !f.plain; s.strangers() {
		names = false // there is nothing to begin anew
	}
	if s.rules.text() == f.text && len(shown) == 0 && !names {
		s.rules = s.rules.awaiting(m.waiting)
		return s, nil
	}
	s.notes.ShownNames = s.notes.ShownNames || names
	if s.peer.Push.Compare(s.notes.AgreedPush) > 0 {
		s.notes.AgreedPush = s.peer.Push
	}
	if s.peer.Fetch.Compare(s.notes.AgreedFetch) > 0 {
		s.notes.AgreedFetch = s.peer.Fetch
	}
	s.notes.Shown = append(slices.Clone(s.notes.Shown), shown...)
	s.peer.Push, s.peer.Fetch = tree.Cursor{}, tree.Cursor{}
	s.ignored = nil // it is listed anew
	var err error
	if s.rules, err = s.rules.changed(f.text, m.roots.local); err != nil {
		return s, err
	}
	if s.rules = s.rules.awaiting(m.waiting); s.rules.Forgotten {
		m.log.Warn("what is ignored has changed too often since both sides were last in step; all is compared anew, and what differs is in conflict")
	}
	return s, nil
}

// An ignoredSet has the topmost paths that the remote has and rules hide, by local path. They
// are not listed again when a directory above them is removed here. It is a value: to change it
// is to make another one. nil is the empty one.
type ignoredSet struct {
	Dirs map[string][]string `json:"dirs"` // sorted names, by directory
}

func (s *ignoredSet) has(path string) bool {
	if s == nil {
		return false
	}
	dir := above(path)
	_, ok := slices.BinarySearch(s.Dirs[dir], path[strings.LastIndexByte(path, '/')+1:])
	return ok
}

// covers reports whether a path or one above it is in the set.
func (s *ignoredSet) covers(path string) (string, bool) {
	for p := path; s != nil && p != "/"; p = above(p) {
		if s.has(p) {
			return p, true
		}
	}
	return "", false
}

// above returns the directories that something of the set is in.
func (s *ignoredSet) above() map[string]bool {
	dirs := map[string]bool{}
	if s == nil {
		return dirs
	}
	for dir := range s.Dirs {
		for p := dir; p != "/" && !dirs[p]; p = above(p) {
			dirs[p] = true
		}
	}
	return dirs
}

// below lists what is below a directory, in order.
func (s *ignoredSet) below(dir string) []string {
	var out []string
	if s == nil {
		return nil
	}
	for d, names := range s.Dirs {
		if d == dir || strings.HasPrefix(d, dir+"/") {
			for _, name := range names {
				out = append(out, slashpath.Join(d, name))
			}
		}
	}
	slices.Sort(out)
	return out
}

// with returns the set after paths have come to it, or with false are gone from it.
func (s *ignoredSet) with(changed map[string]bool) (*ignoredSet, error) {
	byDir := map[string]map[string]bool{}
	for path, is := range changed {
		if s.has(path) == is {
			continue
		}
		dir := above(path)
		if byDir[dir] == nil {
			byDir[dir] = map[string]bool{}
		}
		byDir[dir][path[strings.LastIndexByte(path, '/')+1:]] = is
	}
	if len(byDir) == 0 {
		return s, nil
	}
	out := &ignoredSet{Dirs: map[string][]string{}}
	if s != nil {
		maps.Copy(out.Dirs, s.Dirs)
	}
	for dir, names := range byDir {
		list := slices.DeleteFunc(slices.Clone(out.Dirs[dir]), func(name string) bool { _, is := names[name]; return is })
		for name, is := range names {
			if is {
				list = append(list, name)
			}
		}
		slices.Sort(list)
		if out.Dirs[dir] = list; len(list) == 0 {
			delete(out.Dirs, dir)
		}
	}
	count, size := 0, 0
	for dir, names := range out.Dirs {
		count, size = count+len(names), size+len(dir)
		for _, name := range names {
			size += len(name)
		}
	}
	if count > maxIgnored || size > maxIgnoredBytes {
		return nil, fmt.Errorf("%w: more than %d, or %d bytes", ErrIgnored, maxIgnored, maxIgnoredBytes)
	}
	return out, nil
}

// ignored decides about an entry that is a delete, or whose path the remote had something
// under that rules hide. It reports whether nothing is to be done.
func (d *decision) ignored(x *tree.Entry) (bool, error) {
	f := d.m.filter
	if d.rawHere && x.Kind == tree.KindDelete {
		if cur, err := d.at(x.Path); err != nil || live(cur) && isRawLink(cur) {
			return err == nil, err // the remote does not know it
		}
	}
	if f.rules == nil || x.Kind != tree.KindDelete {
		return false, nil // those that are hidden have not come
	}
	comes := d.m.comes(x.Path)
	if !comes && f.hides(above(x.Path), true) {
		return true, nil
	}
	cur, err := d.at(x.Path)
	if err != nil {
		return false, err
	}
	if is, known := d.hides[x.Path]; known && is || !known && d.m.s.ignored.has(x.Path) {
		d.hides[x.Path] = false
		if live(cur) && !f.hides(x.Path, cur.Kind == tree.KindDir) {
			return true, d.sendBlocked(x.Path)
		}
		return true, nil
	}
	if !comes && live(cur) && f.hides(x.Path, cur.Kind == tree.KindDir) {
		return true, nil
	}
	// Without the file, what it hides would be sent.
	if live(cur) && d.m.isGitFile(x.Path) && d.deleted[above(x.Path)] {
		return d.hidesBelow(above(x.Path))
	}
	return false, nil
}

// hiddenAside returns what is applied in place of an entry that takes the place of a file here
// that rules hide, as one of another kind or below it, or of a link that the remote does not know: it
// comes beside. nil if it does not. path is that of the file or link.
func (d *decision) hiddenAside(x *tree.Entry) (list []tree.Entry, path string, err error) {
	if x.Kind == tree.KindDelete || d.m.filter.rules == nil && !d.rawHere {
		return nil, "", nil
	}
	path = x.Path
	cur, err := d.at(path)
	for ; err == nil && !live(cur) && above(path) != "/"; cur, err = d.at(path) {
		path = above(path)
	}
	if err != nil || !live(cur) || cur.Kind == tree.KindDir || d.aside[path] {
		return nil, "", err
	}
	rules := d.m.filter.rules != nil && d.m.filter.hides(path, false)
	if raw := d.rawHere && isRawLink(cur); !raw && (!rules || path == x.Path && cur.Kind == x.Kind) {
		return nil, "", nil
	}
	beside := *cur
	if beside.Path, err = d.freeName(&toCopy{version: *cur, by: *x}, names{}); err != nil {
		return nil, "", err
	}
	return []tree.Entry{beside, *x}, path, nil
}

// unblock has what is here and was not sent (rules.Blocked) be a change that is to be sent, as any
// other, where an entry changes something at its path, above or below it. If the remote still has
// there what it was not sent for, the next push finds that.
func (d *decision) unblock(x *tree.Entry) error {
	if d.m.s.rules == nil {
		return nil
	}
	for _, path := range d.m.s.rules.Blocked {
		meets := path == x.Path || strings.HasPrefix(x.Path, path+"/") || x.Kind != tree.KindDir && strings.HasPrefix(path, x.Path+"/")
		if !meets || d.freed[path] {
			continue
		}
		if err := d.sendBlocked(path); err != nil {
			return err
		}
		if d.freed == nil {
			d.freed = map[string]bool{}
		}
		d.freed[path] = true
	}
	return nil
}

// sendBlocked sends what is at a path and below it, which was not sent because of what the
// remote had there.
func (d *decision) sendBlocked(path string) error {
	sent, err := touchAll(d.edit, path, func(e *tree.Entry) bool {
		return live(e) && !d.m.filter.hides(e.Path, e.Kind == tree.KindDir) && !d.m.s.changed(e.Path, e.Rev)
	})
	d.touched = d.touched || len(sent) > 0
	d.more = append(d.more, sent...)
	return err
}

// isGitFile reports whether a path is one of a file with rules that go with its directory.
func (m *Mirror) isGitFile(path string) bool {
	return m.cfg.GitIgnore && strings.HasSuffix(path, "/"+ignore.FileName)
}

// hidesBelow reports whether rules hide something in a directory here, at any depth.
func (d *decision) hidesBelow(path string) (bool, error) {
	info, err := d.edit.Lstat(path)
	if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, tree.ErrNotDirectory) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for last := ""; ; {
		list, err := d.edit.Tx().Children(info.Ino, last, page)
		if err != nil {
			return false, err
		}
		for i := range list {
			last = list[i].Name.Name
			dir := list[i].Node.Kind == tree.KindDir
			hides := d.m.filter.hides(slashpath.Join(path, last), dir)
			if !hides && dir {
				if hides, err = d.hidesBelow(slashpath.Join(path, last)); err != nil {
					return false, err
				}
			}
			if hides {
				return true, nil
			}
		}
		if len(list) < page {
			return false, nil
		}
	}
}

// disagreed finds, of what both sides had agreed on, directories that are still here although
// the remote has removed them, and those that it still has although they were removed here: they
// stayed because of what was ignored, which may not be so any more.
func (d *decision) disagreed(again []tree.Entry) (gone, there []tree.Entry, err error) {
	for i := range again {
		x := &again[i]
		cur, err := d.at(x.Path)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case cur == nil || d.m.s.changed(cur.Path, cur.Rev):
		case x.Kind == tree.KindDelete && cur.Kind == tree.KindDir:
			gone = append(gone, *x)
		case x.Kind == tree.KindDir && cur.Kind == tree.KindDelete:
			there = append(there, *x)
		}
	}
	return gone, there, nil
}

// goesAgain has a directory of the remote's removed that was removed here, unless something in
// it has just come.
func (d *decision) goesAgain(x *tree.Entry) error {
	for i := range d.take {
		if d.take[i].Kind != tree.KindDelete && strings.HasPrefix(d.take[i].Path, x.Path+"/") {
			d.take = slices.Insert(d.take, i, *x)
			return nil
		}
	}
	return d.sendAgain(x.Path)
}

// ignoresChange reports whether a change from here is not sent because of what is ignored. top
// is what the remote has there, of another kind, that rules hide.
func (m *Mirror) ignoresChange(e *tree.Entry, s *ignoredSet) (top string, ignored bool) {
	if m.filter.plain && !isPlain(e.Path) {
		return "", true
	}
	if m.filter.rules == nil {
		return "", false
	}
	if e.Kind == tree.KindDelete {
		// What it was is not known: if only that of one kind is hidden, the remote has it or not.
		if m.filter.hides(e.Path, false) && m.filter.hides(e.Path, true) {
			return "", true
		}
		_, ignored = s.covers(e.Path)
		return "", ignored
	}
	if m.filter.hides(e.Path, e.Kind == tree.KindDir) {
		return "", true
	}
	return s.covers(e.Path)
}

// ignores reports whether a change from here is one of what is ignored, and notes what stays
// because of it.
func (b *heldBack) ignores(s *item) bool {
	top, ignored := b.m.ignoresChange(&s.entry, b.ignored)
	if top != "" {
		s.blocked, s.stays = top, keptOf(s.path, []string{top})
	}
	return ignored
}

// spared is what stays at the remote since a block does not remove it, or has nothing in its place.
func (m *Mirror) spared(b *block) []Stayed {
	list := m.stayedOf(b.stayed, false)
	n := len(list)
	list = append(list, m.stayedOf(b.unsent, false)...)
	for i := range list {
		list[i].AtRemote, list[i].NotSent = true, i >= n
	}
	return list
}

// maxKeptNames is how many paths are named for which another one stays.
const maxKeptNames = 3

// keptOf says that a path stays because of others.
func keptOf(path string, names []string) *changes.Kept {
	n := min(len(names), maxKeptNames)
	return &changes.Kept{Path: path, Names: names[:n], More: len(names) - n}
}

// sparing has the remote leave what rules hide of what a block takes away: by its names, if
// they hide nothing else that the block is about. Else those entries are left out.
func (b *heldBack) sparing(ctx context.Context, of *block) error {
	taking := map[int][]string{} // what is hidden below the path of an entry
	named, err := b.namesThere(ctx, of)
	if err != nil {
		return err
	}
	namedAbove := named.above()
	for i := range of.entries {
		e := &of.entries[i]
		path, _ := b.m.roots.toLocal(e.Path)
		if e.Kind != tree.KindDir && (b.ignoredAbove[path] || namedAbove[path]) {
			taking[i] = slices.Concat(b.ignored.below(path), named.below(path))
		}
	}
	if len(taking) == 0 || b.m.spareNames(of, taking) {
		return nil
	}
	entries := of.entries[:0]
	for i, e := range of.entries {
		hidden, is := taking[i]
		if !is {
			entries = append(entries, e)
			continue
		}
		path, _ := b.m.roots.toLocal(e.Path)
		s := item{at: of.cursor, path: path, stays: keptOf(path, hidden)}
		if e.Kind != tree.KindDelete { // it waits until the conflict is resolved
			s.holds, s.hold = true, heldApart(e.Rev)
		}
		of.note(&s)
	}
	of.entries = entries
	return nil
}

// namesThere is what the remote has that names hide, if it does not leave that alone itself and a
// block may remove directories there. It is listed once for all blocks.
func (b *heldBack) namesThere(ctx context.Context, of *block) (*ignoredSet, error) {
	m := b.m
	if m.checksBase || len(m.filter.names) == 0 || !of.clears() {
		return nil, nil
	}
	if b.listed {
		return b.named, nil
	}
	names, hidden := filter{local: m.roots.local, names: m.filter.names}, map[string]bool{}
	err := m.listThere(ctx, changes.FetchQuery{Ignore: []string{}}, func(x *tree.Entry) error {
		if top := names.top(x.Path, x.Kind == tree.KindDir); top != "" {
			hidden[top] = true
		}
		return nil
	})
	if err == nil {
		b.named, err = b.named.with(hidden)
	}
	b.listed = err == nil
	return b.named, err
}

// clears reports whether a block may remove directories, or put something else in their place.
func (b *block) clears() bool {
	below := map[string]bool{} // what something is removed below
	for i := range b.entries {
		if e := &b.entries[i]; e.Kind == tree.KindDelete {
			if e.Prior == "" || dirPrints()[e.Prior] {
				return true
			}
			below[above(e.Path)] = true
		}
	}
	return slices.ContainsFunc(b.entries, func(e tree.Entry) bool { return e.Kind != tree.KindDir && below[e.Path] })
}

// dirPrints are the prints of directories, which say their modes and nothing else.
var dirPrints = sync.OnceValue(func() map[string]bool {
	prints := map[string]bool{}
	for mode := range tree.ModeMask + 1 {
		prints[tree.Fingerprint(&tree.Entry{Kind: tree.KindDir, Mode: mode})] = true
	}
	return prints
})

// spareNames has the remote leave all that has one of the names of what is hidden below some
// entries. It reports whether it can.
func (m *Mirror) spareNames(b *block, taking map[int][]string) bool {
	if !m.checksBase {
		return false
	}
	renamed, err := changes.Renames(b.begun, entriesOf(b.entries))
	if err != nil {
		return false
	}
	names := map[string]bool{}
	for _, name := range m.filter.names {
		names[name] = true
	}
	for _, paths := range taking {
		for _, path := range paths {
			names[path[strings.LastIndexByte(path, '/')+1:]] = true
			remote, _ := m.roots.toRemote(path)
			if to := renamedTo(renamed, remote); to != "" {
				if to, _ = m.roots.toLocal(to); !m.filter.hides(to, true) && !m.filter.hides(to, false) {
					return false // it is to be hidden where it goes, too
				}
			}
		}
	}
	for i := range b.entries {
		if path := b.entries[i].Path; b.entries[i].Kind == tree.KindDelete && names[path[strings.LastIndexByte(path, '/')+1:]] {
			return false
		}
	}
	if len(names) > changes.MaxIgnored {
		return false
	}
	b.spare, b.renamed = slices.Sorted(maps.Keys(names)), renamed
	return true
}

// entriesOf yields entries.
func entriesOf(entries []tree.Entry) func(func(tree.Entry, error) bool) {
	return func(yield func(tree.Entry, error) bool) {
		for i := range entries {
			if !yield(entries[i], nil) {
				return
			}
		}
	}
}

// renamedTo is where directories that were renamed have taken a path, "" for nowhere.
func renamedTo(renamed map[string]string, path string) string {
	for old := path; old != "/"; old = above(old) {
		if to := renamed[old]; to != "" {
			return to + strings.TrimPrefix(path, old)
		}
	}
	return ""
}

// afterPush is what of the set the remote has once it has answered a block.
func (s *ignoredSet) afterPush(m *Mirror, b *block, res *changes.PushResult) (*ignoredSet, error) {
	if s == nil || len(b.spare) == 0 {
		return s, nil
	}
	changed, dirs := map[string]bool{}, s.above()
	for i := range b.entries {
		e := &b.entries[i]
		path, _ := m.roots.toLocal(e.Path)
		if e.Kind == tree.KindDir || !dirs[path] || slices.Contains(res.Conflicts, e.Path) {
			continue
		}
		for _, p := range s.below(path) {
			remote, _ := m.roots.toRemote(p)
			stays := slices.ContainsFunc(res.Kept, func(k changes.Kept) bool { return k.Path == e.Path || strings.HasPrefix(e.Path, k.Path+"/") })
			if to := renamedTo(b.renamed, remote); to != "" && e.Kind == tree.KindDelete && !stays {
				to, _ = m.roots.toLocal(to)
				changed[p], changed[to] = false, true
			}
			if e.Kind != tree.KindDelete {
				changed[p] = false // it was brought aside
			}
		}
	}
	return s.with(changed)
}
