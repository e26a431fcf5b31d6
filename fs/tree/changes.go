package tree

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// A ChangesQuery says which changes are wanted.
type ChangesQuery struct {
	After   Cursor
	Through *Cursor  // nil for the present
	Ignore  []string // names that hide a path of which they are a whole segment
}

// Changes is a change stream: for each path that changed within a window of the tree's
// history one entry, which tells its state when it is read. What changed after the
// stream was opened is left to the next one. It holds nothing but its list of paths: the
// tree goes on beneath it, and it need not be closed. It is for one goroutine.
type Changes struct {
	// Current is the end of the window: a peer that has read all of the stream is there.
	Current Cursor

	tree  *Tree
	after Cursor
	rev   int64 // the tree's when the stream was opened
	list  []candidate
	moved map[string]string // where renamed directories are, by their old paths
}

// A candidate is a path that changed. The list of them is fixed.
type candidate struct {
	rev  int64
	path string
	ino  int64 // 0 for a tomb
	// prior is the tomb's, as long as the tree is as it was: nothing is at the path then.
	prior []byte
}

// Changes opens the change stream. Its entries are in the order of their cursors, and
// none has one beyond that of a later entry.
func (t *Tree) Changes(ctx context.Context, q ChangesQuery) (*Changes, error) {
	c := &Changes{tree: t, after: q.After}
	for range 3 {
		ready := false
		err := t.view(ctx, func(tx Tx, ns *Namespace) error {
			moves, err := tx.Moves(ns.ID)
			if err != nil {
				return err
			}
			set, err := ns.settings()
			if err != nil || len(moves) > 0 || !set.Synced {
				return err
			}
			ready = true
			return c.open(tx, ns, &q)
		})
		if err != nil {
			return nil, wrap("list changes", err)
		}
		if ready {
			return c, nil
		}
		// Tombs are due. Somebody may move a directory again before we look.
		if _, err = t.Update(ctx, (*Edit).offer); err != nil {
			return nil, wrap("list changes", err)
		}
	}
	_, err := t.Update(ctx, func(e *Edit) error {
		if err := e.offer(); err != nil {
			return err
		}
		return c.open(e.tx, &e.ns, &q)
	})
	if err != nil {
		return nil, wrap("list changes", err)
	}
	return c, nil
}

// errEnough ends a list that need not be read on.
var errEnough = errors.New("that is enough")

// Removed reports whether something may have been removed or renamed after a cursor, without paths
// that have a name in ignore. It reads no more than it must: of a path that is there again it may
// say so as well.
func (t *Tree) Removed(ctx context.Context, after Cursor, ignore []string) (is bool, err error) {
	low := after.Rev
	if after.Within {
		low--
	}
	names := ignored(ignore)
	err = t.view(ctx, func(tx Tx, ns *Namespace) error {
		moves, err := tx.Moves(ns.ID)
		if is = len(moves) > 0; is || err != nil {
			return err
		}
		err = tx.TombsAfter(ns.ID, low, func(t Tomb) error {
			if is = !hides(names, t.Path); is {
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	})
	return is, wrap("look for what was removed", err)
}

// ignored are the names that hide a path, which is no empty one.
func ignored(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		if name != "" { // which is no segment
			set[name] = true
		}
	}
	return set
}

// offer prepares the tree for a change stream.
func (e *Edit) offer() error {
	if err := e.share(); err != nil {
		return err
	}
	return e.settleAll()
}

// open collects the candidates.
func (c *Changes) open(tx Tx, ns *Namespace, q *ChangesQuery) error {
	c.rev = ns.Rev
	c.Current = At(ns.Rev)
	if q.Through != nil && q.Through.Compare(c.Current) < 0 {
		c.Current = *q.Through
	}
	low := q.After.Rev
	if q.After.Within {
		low--
	}
	g := gatherer{
		tx: tx, ns: ns, low: low, after: q.After, through: c.Current,
		ignore: ignored(q.Ignore),
		tombs:  map[string]Tomb{}, dirs: map[int64]*dir{}, whole: map[int64]bool{},
	}
	if err := g.gather(); err != nil {
		return err
	}
	c.moved = g.moved
	slices.SortFunc(g.list, func(a, b candidate) int {
		if r := cmp.Compare(a.rev, b.rev); r != 0 {
			return r
		}
		return ComparePaths(a.path, b.path)
	})
	// A name may have been found by itself and with the directory above it.
	c.list = slices.CompactFunc(g.list, func(a, b candidate) bool { return a.rev == b.rev && a.path == b.path })
	return nil
}

// A gatherer finds what changed after revision low.
//
// The revision of a path is the greatest among its node's and those of all names on it.
// So the paths above low are: every name of a node above it, and for a name above it, all
// that is below.
type gatherer struct {
	tx             Tx
	ns             *Namespace
	low            int64
	after, through Cursor
	ignore         map[string]bool
	tombs          map[string]Tomb
	dirs           map[int64]*dir // by number
	whole          map[int64]bool // directories all below which is in the list
	list           []candidate
	moved          map[string]string // as Changes has it
}

func (g *gatherer) gather() error {
	if g.low >= g.ns.Rev {
		return nil
	}
	err := g.tx.TombsAfter(g.ns.ID, g.low, func(t Tomb) error {
		g.tombs[t.Path] = t
		return nil
	})
	if err != nil {
		return err
	}
	var named []Child
	err = g.tx.NamesAfter(g.ns.ID, g.low, func(c Child) error {
		named = append(named, c)
		return nil
	})
	if err != nil {
		return err
	}
	if err := g.renames(named); err != nil {
		return err
	}
	for i := range named {
		c := &named[i]
		if g.whole[c.Parent] {
			continue
		}
		d, err := g.dir(c.Parent)
		if err != nil {
			return err
		}
		if err := g.all(d, c); err != nil {
			return err
		}
	}
	var touched []Child
	err = g.tx.NodesAfter(g.ns.ID, g.low, func(c Child) error {
		touched = append(touched, c)
		return nil
	})
	if err != nil {
		return err
	}
	for i := range touched {
		c := &touched[i]
		if g.whole[c.Parent] {
			continue
		}
		d, err := g.dir(c.Parent)
		if err != nil {
			return err
		}
		g.add(d, c)
	}
	root, err := g.tx.Node(g.ns.Root)
	if err != nil {
		return err
	}
	if root.Rev > g.low {
		g.offer(candidate{rev: root.Rev, path: "/", ino: root.Ino})
	}
	// What is left of the tombs is of paths that nothing has now. Those that are beyond the
	// window are dropped.
	for path, t := range g.tombs {
		g.offer(candidate{rev: t.Rev, path: path, prior: t.Prior})
	}
	return nil
}

// renames finds the directories that were renamed. A rename gives the directory's name and all
// tombs of its old paths one revision, which nothing else has.
func (g *gatherer) renames(named []Child) error {
	renamed := map[int64]*Child{} // by revision
	for i := range named {
		if c := &named[i]; c.Node.Kind == KindDir && !c.Node.Stub && c.Node.Rev != c.Name.Rev {
			renamed[c.Name.Rev] = c
		}
	}
	if len(renamed) == 0 {
		return nil
	}
	for path, t := range g.tombs {
		rev := t.Rev
		c := renamed[rev]
		if c == nil {
			continue
		}
		above := g.tombs[slashpath.Dir(path)].Rev
		if above == rev || above > rev && renamed[above] == nil {
			continue // it is below the topmost, whose tomb may have a new revision (Edit.Touch)
		}
		d, err := g.dir(c.Child)
		if err != nil {
			return err
		}
		if slashpath.Within(d.path, path) || hides(g.ignore, d.path) {
			continue
		}
		if g.moved == nil {
			g.moved = map[string]string{}
		}
		g.moved[path] = d.path
	}
	return nil
}

// all adds a name and what is below it.
func (g *gatherer) all(d *dir, c *Child) error {
	g.add(d, c)
	if c.Node.Kind != KindDir || g.whole[c.Child] {
		return nil
	}
	in := &dir{ino: c.Child, parent: d, path: slashpath.Join(d.path, c.Name.Name), nameRev: max(d.nameRev, c.Name.Rev)}
	g.dirs[c.Child] = in
	if c.Node.Rev == c.Name.Rev && c.Node.Rev > g.low {
		// It was made with this name, and is younger than the window: so is each name in
		// it, which comes by itself.
		return nil
	}
	g.whole[c.Child] = true
	for after := ""; ; {
		list, err := g.tx.Children(c.Child, after, page)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Node.Kind == KindDir && g.whole[list[i].Child] {
				// Its content is in the list by its own name, which is newer.
				g.add(in, &list[i])
				continue
			}
			if err := g.all(in, &list[i]); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
		after = list[len(list)-1].Name.Name
	}
}

// dir finds the path of a directory.
func (g *gatherer) dir(ino int64) (*dir, error) {
	if ino == g.ns.Root {
		return &dir{ino: ino, path: "/"}, nil
	}
	if d := g.dirs[ino]; d != nil {
		return d, nil
	}
	list, err := g.tx.NamesOf(ino)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, wrap("find a directory", ErrDamaged)
	}
	up, err := g.dir(list[0].Parent)
	if err != nil {
		return nil, err
	}
	d := &dir{ino: ino, parent: up, path: slashpath.Join(up.path, list[0].Name), nameRev: max(up.nameRev, list[0].Rev)}
	g.dirs[ino] = d
	return d, nil
}

func (g *gatherer) add(d *dir, c *Child) {
	path := slashpath.Join(d.path, c.Name.Name)
	delete(g.tombs, path)
	if c.Node.Stub {
		return // peers are not told of it
	}
	g.offer(candidate{rev: max(c.Node.Rev, c.Name.Rev, d.nameRev), path: path, ino: c.Child})
}

// offer adds a candidate that is within the window.
func (g *gatherer) offer(c candidate) {
	if c.rev <= g.low || hides(g.ignore, c.path) {
		return
	}
	if at := AtPath(c.rev, c.path); at.Compare(g.after) <= 0 || at.Compare(g.through) > 0 {
		return
	}
	g.list = append(g.list, c)
}

// Len is the greatest number of entries that can still come.
func (c *Changes) Len() int { return len(c.list) }

// Next returns up to limit entries, and io.EOF instead of none when there are no more.
func (c *Changes) Next(ctx context.Context, limit int) ([]Entry, error) {
	for len(c.list) > 0 {
		n := min(limit, len(c.list))
		var out []Entry
		err := c.tree.view(ctx, func(tx Tx, ns *Namespace) error {
			var err error
			out, err = c.read(tx, ns, c.list[:n])
			return err
		})
		if err != nil {
			return nil, wrap("list changes", err)
		}
		if c.list = c.list[n:]; len(out) > 0 {
			c.tree.forest.remember(c.tree.name, out)
			return out, nil
		}
	}
	return nil, io.EOF
}

// All is the rest of the stream.
func (c *Changes) All(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			list, err := c.Next(ctx, 256)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// read is the present state of candidates, as far as it is still within the window.
func (c *Changes) read(tx Tx, ns *Namespace, list []candidate) ([]Entry, error) {
	found := map[int64]*Entry{}
	if ns.Rev == c.rev { // nothing has changed: what was found is as it was
		var err error
		if found, err = entriesOf(tx, list); err != nil {
			return nil, err
		}
	}
	out := make([]Entry, 0, len(list))
	r := newResolver(tx, ns)
	for i := range list {
		cand := &list[i]
		if e := found[cand.ino]; e != nil {
			out = append(out, *e)
			out[len(out)-1].Path, out[len(out)-1].Rev = cand.path, cand.rev
			continue
		}
		if cand.ino == 0 && ns.Rev == c.rev {
			e := entryOfTomb(&Tomb{Path: cand.path, Rev: cand.rev, Prior: cand.prior})
			e.RenamedTo = c.moved[cand.path]
			out = append(out, e)
			continue
		}
		e, ok, err := entryAt(tx, ns, r, cand.path)
		if err != nil {
			return nil, err
		}
		// A greater revision comes with a later stream; a smaller one would be a tomb that
		// was offered before what lay upon it went away without one.
		at := AtPath(e.Rev, e.Path)
		if e.Kind == KindDelete && e.Rev == cand.rev {
			e.RenamedTo = c.moved[cand.path]
		}
		if ok && at.Compare(c.after) > 0 && at.Compare(c.Current) <= 0 {
			out = append(out, e)
		}
	}
	return out, nil
}

// entriesOf reads the nodes of candidates at once.
func entriesOf(tx Tx, list []candidate) (map[int64]*Entry, error) {
	var all, files []int64
	for i := range list {
		if ino := list[i].ino; ino != 0 {
			all = append(all, ino)
		}
	}
	found := make(map[int64]*Entry, len(all))
	err := tx.Nodes(all, func(n Node) error {
		e := &Entry{Kind: n.Kind, Mode: n.Mode, MTime: time.Unix(0, n.MTime), Target: n.Target}
		if n.Kind == KindFile {
			e.Size = n.Size
			if n.Size > 0 {
				files = append(files, n.Ino)
			}
		}
		found[n.Ino] = e
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	return found, tx.PartsOf(slices.Compact(files), func(ino int64, p Part) error {
		found[ino].Parts = append(found[ino].Parts, p)
		return nil
	})
}
