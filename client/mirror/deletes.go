package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"math"
	"slices"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A DeletesError says that more would be removed at a side than Config.MayDelete lets, and
// that nothing was changed now.
type DeletesError struct {
	Remote bool     // at the remote, else here
	Count  int      // files and links
	Of     int      // of so many that both sides have, or had before
	Before int      // of Count: that many were removed a short time before (Config.Removals)
	Names  []string // some of them, of the local tree
}

// Error names the first.
func (e *DeletesError) Error() string {
	where := "here"
	if e.Remote {
		where = "at the remote"
	}
	return fmt.Sprintf("%d of %d files would be removed %s, %s is one of them", e.Count, e.Of, where, e.Names[0])
}

// A tally counts removals. A version that is removed under one name and made under another
// was renamed, and does not count.
type tally struct {
	made  map[string]int // prints of what is made
	gone  []removal
	above map[string]bool // directories of what is removed
}

type removal struct{ path, print string }

func newTally() *tally { return &tally{made: map[string]int{}, above: map[string]bool{}} }

func (t *tally) make(e *tree.Entry) {
	if e.Kind == tree.KindFile || e.Kind == tree.KindSymlink {
		t.made[tree.Fingerprint(e)]++
	}
}

func (t *tally) remove(path, print string) {
	t.gone = append(t.gone, removal{path, print})
	t.above[above(path)] = true
}

// files drops what is removed and is a directory, and returns how many are left.
func (t *tally) files() int {
	t.gone = slices.DeleteFunc(t.gone, func(r removal) bool { return t.above[r.path] })
	return len(t.gone)
}

// count notes those that count of some that are removed, and returns them.
func (t *tally) count(e *DeletesError, gone []removal) (counted []removal) {
	e.Count, e.Names = 0, nil
	made := maps.Clone(t.made)
	for _, r := range gone {
		if r.print != "" && made[r.print] > 0 {
			made[r.print]--
			continue
		}
		e.Count++
		counted = append(counted, r)
		if len(e.Names) < maxNamed {
			e.Names = append(e.Names, r.path)
		}
	}
	return counted
}

// tooMany fails with a DeletesError when a tally is too much of what both sides have, or had
// before. The remote is asked for that only if it may be.
func (m *Mirror) tooMany(ctx context.Context, t *tally, remote bool) error {
	e := &DeletesError{Remote: remote}
	gone := t.files()
	counted := t.count(e, t.gone)
	if e.Count == 0 {
		return nil
	}
	before := m.cfg.Removals.before(remote, counted)
	may := func(of int) bool {
		return m.cfg.MayDelete(e.Count, of) && (before == 0 || m.cfg.MayDelete(len(m.cfg.Removals.old(counted))+before, of+before))
	}
	more := 0 // of the files that there were, beside those here
	if remote {
		more = gone
	}
	files, enough, err := m.countFiles(ctx, func(files int) bool {
		of := files + more - m.unsent
		return of >= 2*e.Count+before && may(of)
	})
	if all := files + more + before; err != nil || enough || m.cfg.MayDelete(all, all) {
		if err == nil {
			m.cfg.Removals.removed(remote, counted)
		}
		return err
	}
	shared, there, err := m.shared(ctx, t.gone)
	if err != nil {
		return err
	}
	if remote {
		counted = t.count(e, there)
		before = m.cfg.Removals.before(remote, counted)
		e.Of = shared + len(there)
	} else {
		e.Of = shared + gone
	}
	if e.Count == 0 || may(e.Of) {
		m.cfg.Removals.removed(remote, counted)
		return nil
	}
	if m.cfg.MayDelete(e.Count, e.Of) {
		e.Count, e.Of, e.Before = len(m.cfg.Removals.old(counted))+before, e.Of+before, before
	}
	return e
}

// shared counts the files and links that both sides have, without some that are removed, and finds
// those of them that the remote has. A path that only one side has ever had is in neither.
func (m *Mirror) shared(ctx context.Context, gone []removal) (shared int, there []removal, err error) {
	has := make(map[string]bool, len(gone))
	for _, r := range gone {
		has[r.path] = false
	}
	err = m.listThere(ctx, changes.FetchQuery{Ignore: m.filter.names}, func(x *tree.Entry) error {
		if x.Kind == tree.KindDir || m.filter.hides(x.Path, false) {
			return nil
		}
		if _, goes := has[x.Path]; goes {
			has[x.Path] = true
			return nil
		}
		cur, err := m.tree.Entry(ctx, x.Path)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			err = nil
		case err == nil && cur.Kind != tree.KindDelete && cur.Kind != tree.KindDir:
			shared++
		}
		return err
	})
	for _, r := range gone {
		if has[r.path] {
			there = append(there, r)
		}
	}
	return shared, there, err
}

// countFiles counts the files and links here that are looked at, until there are enough. It
// reports whether there are.
func (m *Mirror) countFiles(ctx context.Context, enough func(files int) bool) (n int, is bool, err error) {
	for dirs := []string{m.roots.local + "/"}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		for last := ""; ; {
			list, err := m.tree.ReadDir(ctx, dir, last, page)
			if errors.Is(err, iofs.ErrNotExist) || errors.Is(err, tree.ErrNotDirectory) {
				break // it has changed
			}
			if err != nil {
				return n, false, err
			}
			for i := range list {
				last = list[i].Name()
				switch {
				case m.filter.hides(dir+last, list[i].Kind == tree.KindDir):
				case list[i].Kind == tree.KindDir:
					dirs = append(dirs, dir+last+"/")
				default:
					n++
				}
			}
			if enough(n) {
				return n, true, nil
			}
			if len(list) < page {
				break
			}
		}
	}
	return n, enough(n), nil
}

// mayPush fails with a DeletesError when a push would remove too much.
func (m *Mirror) mayPush(ctx context.Context) error {
	if m.cfg.MayDelete == nil || m.s.strangers() {
		return nil
	}
	info, err := m.tree.Info(ctx)
	if err != nil {
		return err
	}
	asked := pushAsked{info.Rev, m.s.peer.Push, m.filter}
	if m.asked == asked {
		return nil
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.filter.names})
	if err != nil {
		return err
	}
	t, unsent := newTally(), 0
	few := list.Len() <= maxListed // it shrinks as it is read
	var all []tree.Entry
	for {
		entries, err := list.Next(ctx, page)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if few {
			all = append(all, entries...)
		}
		for i := range entries {
			e := &entries[i]
			if _, ok := m.roots.toRemote(e.Path); !ok || m.roots.isRoot(e.Path) || !m.s.changed(e.Path, e.Rev) {
				continue
			}
			_, ignored := m.ignoresChange(e, m.s.ignored)
			switch {
			case ignored:
			case e.Kind != tree.KindDelete:
				t.make(e)
				m.comesHere(ctx, e)
				if e.Kind != tree.KindDir {
					unsent++
				}
			case e.Rev > m.s.notes.Lost: // else a store that is gone had it
				t.remove(e.Path, e.Prior)
			}
		}
	}
	m.unsent = unsent
	if err := m.tooMany(ctx, t, true); err != nil {
		return err
	}
	m.asked = asked
	if few {
		m.listed = &listed{asked, all}
	}
	return nil
}

// listed is what has changed here, as mayPush has read it.
type listed struct {
	asked   pushAsked
	entries []tree.Entry
}

// pushAsked is which push mayPush has found to be one that may be made: of what changed up to a
// revision here, behind the cursor, without what is ignored.
type pushAsked struct {
	rev    int64
	cursor tree.Cursor
	filter *filter
}

// A changeList is what has changed here and was not pushed.
type changeList struct {
	next       func(context.Context, int) ([]tree.Entry, error)
	n          int
	from, upTo tree.Cursor
	gone       map[string]bool // fingerprints of what was removed, as far as it is known
	// more waits for what has changed behind it, an empty list without more at the end; nil if
	// that is not to be sent.
	more func(context.Context) (*changeList, error)
}

// changesHere lists the changes of this side. A list that mayPush has read is not read again unless
// something has changed since.
func (m *Mirror) changesHere(ctx context.Context) (*changeList, error) {
	if l := m.listed; l != nil {
		m.listed = nil
		info, err := m.tree.Info(ctx)
		if err != nil {
			return nil, err
		}
		if l.asked == (pushAsked{info.Rev, m.s.peer.Push, m.filter}) {
			return l.list(), nil
		}
	}
	list, err := m.tree.Changes(ctx, tree.ChangesQuery{After: m.s.peer.Push, Ignore: m.filter.names})
	if err != nil {
		return nil, err
	}
	return &changeList{next: list.Next, n: list.Len(), from: m.s.peer.Push, upTo: list.Current, gone: map[string]bool{}}, nil
}

func (l *listed) list() *changeList {
	out := &changeList{n: len(l.entries), from: l.asked.cursor, upTo: tree.At(l.asked.rev), gone: map[string]bool{}}
	for i := range l.entries {
		if e := &l.entries[i]; e.Kind == tree.KindDelete && e.Prior != "" {
			out.gone[e.Prior] = true
		}
	}
	rest := l.entries
	out.next = func(_ context.Context, limit int) ([]tree.Entry, error) {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		some := rest[:min(limit, len(rest))]
		rest = rest[len(some):]
		return some, nil
	}
	return out
}

// mayPull fails with a DeletesError when a pull up to a target, or the push behind it, would
// remove too much.
func (m *Mirror) mayPull(ctx context.Context, target tree.Cursor) error {
	if err := m.mayPush(ctx); err != nil {
		return err
	}
	local, err := m.localChanges(ctx)
	if err != nil {
		return err
	}
	return m.mayApply(ctx, target, nil, local)
}

// mayApply is mayPull without the push behind it. first is the first batch of the pull, if it
// was read: when it is all there is, nothing is fetched for this.
func (m *Mirror) mayApply(ctx context.Context, target tree.Cursor, first *batch, local *localChanges) error {
	if m.cfg.MayDelete == nil {
		return nil
	}
	if !m.cfg.Undo { // else what is removed here is made again from the other side
		if m.cfg.MayDelete(math.MaxInt32, math.MaxInt32) {
			return nil
		}
		before := m.cfg.Removals.before(false, nil)
		_, many, err := m.countFiles(ctx, func(files int) bool { return !m.cfg.MayDelete(before+files, before+files) })
		if err != nil || !many {
			return err // all may go
		}
	}
	var err error
	t := &pullTally{here: newTally(), there: newTally(), gone: map[string]bool{}}
	if first != nil && first.last {
		err = m.surveyBatch(ctx, first, local, true, t.batch(ctx, m))
	} else {
		err = m.survey(ctx, target, local, true, t.batch(ctx, m))
	}
	if err != nil {
		return err
	}
	if err := m.tooMany(ctx, t.here, false); err != nil {
		return err
	}
	return m.tooMany(ctx, t.there, true)
}

// A pullTally counts what a pull removes here, and has removed there.
type pullTally struct {
	here, there *tally
	gone        map[string]bool // paths that are removed here
}

// batch counts a batch that was decided.
func (t *pullTally) batch(ctx context.Context, m *Mirror) func(*batch, *decision) error {
	return func(_ *batch, d *decision) error {
		for i := range d.more {
			if e := &d.more[i]; e.Kind == tree.KindDelete {
				t.there.remove(e.Path, e.Prior)
			}
		}
		for i := range d.displaced {
			t.there.remove(d.displaced[i].Path, tree.Fingerprint(&d.displaced[i]))
		}
		for i := range d.take {
			if e := &d.take[i]; e.Kind != tree.KindDelete {
				t.here.make(e)
			}
		}
		for _, c := range d.changes {
			if c.What != Deleted || c.Kind == tree.KindDir {
				continue
			}
			if err := t.goes(ctx, m, c.Path); err != nil {
				return err
			}
		}
		for _, path := range d.cleared {
			if err := t.clears(ctx, m, path); err != nil {
				return err
			}
		}
		return nil
	}
}

// goes counts a path that is removed here.
func (t *pullTally) goes(ctx context.Context, m *Mirror, path string) error {
	if t.gone[path] {
		return nil
	}
	t.gone[path] = true
	cur, err := m.tree.Entry(ctx, path)
	if err == nil {
		t.here.remove(path, tree.Fingerprint(&cur))
	}
	return err
}

// clears counts what is in a directory that something else takes the place of.
func (t *pullTally) clears(ctx context.Context, m *Mirror, dir string) error {
	var paths []string
	err := m.tree.Walk(ctx, dir, func(i *tree.FileInfo) error {
		dir := i.Kind == tree.KindDir
		switch {
		case dir && m.filter.hides(i.Path, true):
			return iofs.SkipDir
		case !dir && !m.filter.hides(i.Path, false):
			paths = append(paths, i.Path)
		}
		return nil
	})
	for _, path := range paths {
		if err == nil {
			err = t.goes(ctx, m, path)
		}
	}
	return err
}
