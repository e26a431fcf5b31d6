package sqlite

import "github.com/wsd-dev/wsd/fs/tree"

var (
	putNodes = newBulk(15, "INSERT INTO node (ino, ns, kind, mode, size, nlink, mtime_ns, btime_ns, rev, mime, target, manifest, mount, stub, only)", "")
	putNames = newBulk(5, "INSERT INTO name (parent, name, child, ns, rev)",
		"ON CONFLICT (parent, name) DO UPDATE SET child = excluded.child, ns = excluded.ns, rev = excluded.rev")
	putParts = newBulk(4, "INSERT INTO part (ino, idx, hash, size)",
		"ON CONFLICT (ino, idx) DO UPDATE SET hash = excluded.hash, size = excluded.size")
	putTombs = newBulk(4, "INSERT INTO tomb (ns, path, rev, prior)", `ON CONFLICT (ns, path)
		DO UPDATE SET rev = excluded.rev, prior = excluded.prior WHERE excluded.rev > rev`)
	cutNames  = newBulk(1, "DELETE FROM name WHERE name IN (", ") AND parent = +?")
	cutParts  = newBulk(1, "DELETE FROM part WHERE ino IN (", ")")
	cutNodes  = newBulk(1, "DELETE FROM node WHERE ino IN (", ")")
	putChunks = newBulk(6, "INSERT INTO chunk (hash, size, loc, object, at, seen_ms)", "")
)

// lateRows are the rows of new nodes of a transaction, and those of removed ones, that wait to be
// written together, as values. Whatever is asked of the transaction has them written first, unless
// they cannot matter to it; nodes are not made while others wait to be removed. Their errors come
// late, and once more at the end of the transaction.
type lateRows struct {
	last                int64 // number of the newest node, 0 while the transaction has made none
	rev                 int64 // that it was made with
	nodes, names, parts []any
	chunks              []any // that were expected, and have no row
	tombs               []any
	noNames, noNodes    []any // that are removed
	noParent            int64 // of noNames
	err                 error

	// Nodes from number fresh on were made by the transaction: if they are directories,
	// there are no names in them but those in named, where the waiting ones are, too.
	fresh int64
	named map[entry]struct{}
}

// maxNamed bounds named: beyond it, directories that are there count as old.
const maxNamed = 10_000

// An entry is a name in a directory.
type entry struct {
	parent int64
	name   string
}

// waits reports whether a node waits to be written.
func (w *lateRows) waits(ino int64) bool {
	return len(w.nodes) > 0 && ino > w.last-int64(len(w.nodes)/putNodes.columns)
}

// newNode gives a node its number. That of the first one is the table's, which is written
// at once for it; the others have those that follow. only is that of a nodeRow.
func (tx *treeTx) newNode(n *tree.Node, only tree.Hash) error {
	if err := tx.flushRemoved(); err != nil {
		return err
	}
	w := &tx.late
	at := len(w.nodes)
	manifest := n.Manifest
	if only != (tree.Hash{}) {
		manifest = tree.Hash{}
	}
	w.nodes = append(w.nodes, nil, n.Namespace, int64(n.Kind), int64(n.Mode), n.Size, n.Links, n.MTime, n.BTime, n.Rev-tx.bases[n.Namespace],
		orNull(n.MIME), orNull(n.Target), hashOrNull(manifest), orNull(n.Mount), n.Stub, hashOrNull(only))
	w.rev = n.Rev
	if w.last > 0 {
		w.last++
		n.Ino = w.last
		w.nodes[at] = n.Ino
		return nil
	}
	done, err := tx.c.execute(putNodes.one(), w.nodes...)
	w.nodes = w.nodes[:0]
	if err == nil {
		n.Ino, err = done.LastInsertId()
		w.last, w.fresh = n.Ino, n.Ino
	}
	return of("node", err)
}

// newName has the name of a node that waits wait, too.
func (tx *treeTx) newName(n *tree.Name, rev int64) error {
	w := &tx.late
	if w.names = append(w.names, n.Parent, n.Name, n.Child, n.Namespace, rev); !putNames.full(w.names) {
		return nil
	}
	return tx.writeNamed()
}

// writeNamed writes nodes together with their names: whoever looks for one finds both.
func (tx *treeTx) writeNamed() error {
	if err := tx.write(putNodes, &tx.late.nodes); err != nil {
		return err
	}
	return tx.write(putNames, &tx.late.names)
}

// note remembers a name that is put.
func (w *lateRows) note(parent int64, name string) {
	if w.last == 0 {
		return
	}
	switch {
	case w.named == nil:
		w.named = map[entry]struct{}{}
	case len(w.named) >= maxNamed && len(w.names) == 0:
		clear(w.named)
		w.fresh = w.last + 1
	}
	w.named[entry{parent, name}] = struct{}{}
}

// missing reports whether a name is known not to be there without looking. If it is one
// that may wait, all is written.
func (tx *treeTx) missing(parent int64, name string) (bool, error) {
	w := &tx.late
	if _, put := w.named[entry{parent, name}]; put {
		return false, tx.flush()
	}
	return w.fresh > 0 && parent >= w.fresh, nil
}

// newPart has a part wait.
func (tx *treeTx) newPart(ino int64, index int, p *tree.Part) error {
	w := &tx.late
	if w.parts = append(w.parts, ino, int64(index), p.Hash[:], p.Size); !putParts.full(w.parts) {
		return nil
	}
	return tx.write(putParts, &w.parts)
}

// newChunk has the row of a chunk wait.
func (tx *treeTx) newChunk(c *tree.Chunk) error {
	w := &tx.late
	tx.placed.known, tx.placed.some = true, true
	if w.chunks = append(w.chunks, c.Hash[:], c.Size, int64(c.Where), c.At.Object, c.At.Offset, c.Seen); !putChunks.full(w.chunks) {
		return nil
	}
	return tx.write(putChunks, &w.chunks)
}

func (tx *treeTx) write(b *bulk, values *[]any, more ...any) error {
	if tx.late.err == nil {
		tx.late.err = of("late rows", b.put(tx.c, *values, more...))
	}
	clear(*values)
	*values = (*values)[:0]
	return tx.late.err
}

// flush writes all that waits.
func (tx *treeTx) flush() error {
	if err := tx.flushRemoved(); err != nil {
		return err
	}
	w := &tx.late
	if len(w.nodes)+len(w.names)+len(w.parts)+len(w.chunks) == 0 {
		return w.err
	}
	if err := tx.writeNamed(); err != nil {
		return err
	}
	if err := tx.write(putParts, &w.parts); err != nil {
		return err
	}
	return tx.write(putChunks, &w.chunks)
}

// removed has a row that is removed, or a tomb, wait in a list. It writes the new rows first.
func (tx *treeTx) removed(list *[]any, values ...any) error {
	w := &tx.late
	if len(w.nodes)+len(w.names)+len(w.parts) > 0 {
		if err := tx.flush(); err != nil {
			return err
		}
	}
	*list = append(*list, values...)
	if tx.writes && !cutNodes.full(w.noNodes) && !cutNames.full(w.noNames) && !putTombs.full(w.tombs) {
		return nil
	}
	return tx.flushRemoved() // a view must fail here
}

// flushRemoved writes what waits of what is removed.
func (tx *treeTx) flushRemoved() error {
	w := &tx.late
	if len(w.tombs)+len(w.noNames)+len(w.noNodes) == 0 {
		return w.err
	}
	if err := tx.write(putTombs, &w.tombs); err != nil {
		return err
	}
	if err := tx.write(cutNames, &w.noNames, w.noParent); err != nil {
		return err
	}
	if len(w.noNodes) > 0 && w.err == nil {
		w.err = of("late rows", cutParts.put(tx.c, w.noNodes))
	}
	return tx.write(cutNodes, &w.noNodes)
}

// removedName is removed for a name.
func (tx *treeTx) removedName(parent int64, name string) error {
	w := &tx.late
	if parent != w.noParent {
		if err := tx.write(cutNames, &w.noNames, w.noParent); err != nil {
			return err
		}
		w.noParent = parent
	}
	return tx.removed(&w.noNames, name)
}
