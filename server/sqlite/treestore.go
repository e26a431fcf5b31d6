package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"

	"github.com/wsd-dev/wsd/fs/tree"
)

var _ tree.Store = treeStore{}

// A treeStore is the rows of trees in a database.
type treeStore struct{ db *DB }

func (s treeStore) View(ctx context.Context, fn func(tree.Tx) error) error {
	return s.db.view(ctx, func(c *conn) error {
		tx, err := s.tx(c, false)
		if err == nil {
			err = fn(tx)
		}
		return s.explain("read", err)
	})
}

func (s treeStore) Update(ctx context.Context, fn func(tree.Tx) error) error {
	return s.db.update(ctx, func(c *conn) error {
		tx, err := s.tx(c, true)
		if err == nil {
			err = fn(tx)
		}
		if err == nil {
			err = tx.flush()
		}
		return s.explain("write", err)
	})
}

// tx makes a tree.Tx on a connection that is in a transaction.
func (s treeStore) tx(c *conn, writes bool) (*treeTx, error) {
	tx := &treeTx{c: c, db: s.db, writes: writes, bases: map[int64]int64{}}
	var id, base int64
	return tx, of("namespaces", c.each(func(s scanner) error {
		err := s.Scan(&id, &base)
		tx.bases[id] = base
		return err
	}, "SELECT id, base FROM ns"))
}

// explain leaves the errors of fn as they are, but for those of SQLite that it passes on.
func (s treeStore) explain(doing string, err error) error {
	if _, ok := errors.AsType[*rowError](err); ok {
		return s.db.explain(doing, err)
	}
	return err
}

// A rowError is an error of SQLite in a statement.
type rowError struct {
	what string
	err  error
}

func (e *rowError) Error() string { return e.what + ": " + e.err.Error() }
func (e *rowError) Unwrap() error { return e.err }

// of says which rows an error is about. A row that is not there is tree.ErrNoRow.
func of(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return tree.ErrNoRow
	}
	return &rowError{what, err}
}

// list is conn.each, whose fn's errors are left alone.
func (tx *treeTx) list(what string, fn func(scanner) error, query string, args ...any) error {
	if err := tx.flush(); err != nil {
		return err
	}
	return own(what, fn, func(fn func(scanner) error) error { return tx.c.each(fn, query, args...) })
}

// ask is list for the rows of a bulk.
func (tx *treeTx) ask(what string, fn func(scanner) error, b *bulk, values []any, more ...any) error {
	if err := tx.flush(); err != nil {
		return err
	}
	return own(what, fn, func(fn func(scanner) error) error { return b.each(tx.c, fn, values, more...) })
}

// own runs what calls fn for rows, and returns an error of fn's as it is.
func own(what string, fn func(scanner) error, run func(func(scanner) error) error) error {
	var own error
	err := run(func(s scanner) error {
		own = fn(s)
		return own
	})
	if own != nil {
		return own
	}
	return of(what, err)
}

// A treeTx is a tree.Tx on a connection that is in a transaction.
type treeTx struct {
	c      *conn
	db     *DB
	writes bool // it is no view
	late   lateRows
	// expected are chunks as they are, nil for one without a row.
	expected map[tree.Hash]*tree.Chunk
	placed   struct{ known, some bool } // whether a chunk may have a row, once that is known
	values   []any
	bases    map[int64]int64 // that revisions are counted from, by namespace
}

// row is conn.row, with all rows written.
func (tx *treeTx) row(query string, args ...any) scanner {
	if err := tx.flush(); err != nil {
		return failed{err}
	}
	return tx.c.row(query, args...)
}

func (tx *treeTx) exec(query string, args ...any) error {
	_, err := tx.execute(query, args...)
	return err
}

func (tx *treeTx) execute(query string, args ...any) (driver.Result, error) {
	if err := tx.flush(); err != nil {
		return nil, err
	}
	return tx.c.execute(query, args...)
}

// hash scans a column of 32 bytes, NULL as zeros.
type hash struct{ h *tree.Hash }

func (s hash) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s.h = tree.Hash{}
		return nil
	case []byte:
		if len(v) == len(s.h) {
			copy(s.h[:], v)
			return nil
		}
	}
	return fmt.Errorf("%w: a column is no hash", tree.ErrDamaged)
}

// orNull is a value for a column that is NULL for none.
func orNull[T comparable](v T) any {
	var none T
	if v == none {
		return nil
	}
	return v
}

func hashOrNull(h tree.Hash) any {
	if h == (tree.Hash{}) {
		return nil
	}
	return h[:]
}

// Numbers of nodes are compared with +?, not with ?: SQLite guesses that "= 0" and "= 1"
// fit many rows, and plans a statement anew whenever a parameter changes from one of them
// (the root, for one) to something else or back. That takes ten times as long as to run it.
// For the same reason a limit that differs from call to call is ? + 0.

// columns of a node n and a name m, in the order of the scans.
const (
	nodeColumns = `n.ino, n.ns, n.kind, n.mode, n.size, n.nlink, n.mtime_ns, n.btime_ns, n.rev,
		coalesce(n.mime, ''), coalesce(n.target, ''), n.manifest, n.only, coalesce(n.mount, 0), n.stub`
	nameColumns = `m.parent, m.name, m.child, m.ns, m.rev`
)

// A nodeRow is a node n as it is scanned.
type nodeRow struct {
	tree.Node
	only tree.Hash
}

func (n *nodeRow) fields() []any {
	return []any{
		&n.Ino, &n.Namespace, &n.Kind, &n.Mode, &n.Size, &n.Links, &n.MTime, &n.BTime, &n.Rev,
		&n.MIME, &n.Target,
		hash{&n.Manifest},
		hash{&n.only},
		&n.Mount, &n.Stub,
	}
}

// node is what the row says.
func (tx *treeTx) node(n *nodeRow) tree.Node {
	n.Rev += tx.bases[n.Namespace]
	if n.only != (tree.Hash{}) {
		n.Manifest = tree.ManifestOf([]tree.Part{{Hash: n.only, Size: n.Size}})
	}
	return n.Node
}

func nameFields(n *tree.Name) []any { return []any{&n.Parent, &n.Name, &n.Child, &n.Namespace, &n.Rev} }

// name is what the row of a name says.
func (tx *treeTx) name(n *tree.Name) tree.Name {
	out := *n
	out.Rev = n.Rev>>1 + tx.bases[n.Namespace]
	return out
}

// A childRow is a name with its node as they are scanned.
type childRow struct {
	name tree.Name
	node nodeRow
}

func (c *childRow) fields() []any { return append(nameFields(&c.name), c.node.fields()...) }

func (tx *treeTx) child(c *childRow) tree.Child {
	return tree.Child{Name: tx.name(&c.name), Node: tx.node(&c.node)}
}

const spaceColumns = "id, name, root, rev, files, dirs, bytes, config"

func spaceFields(n *tree.Namespace) []any {
	return []any{&n.ID, &n.Name, &n.Root, &n.Rev, &n.Files, &n.Dirs, &n.Bytes, &n.Config}
}

func (tx *treeTx) Namespace(name string) (tree.Namespace, error) {
	var n tree.Namespace
	err := tx.row("SELECT "+spaceColumns+" FROM ns WHERE name = ?", name).Scan(spaceFields(&n)...)
	return n, of("namespace", err)
}

func (tx *treeTx) Namespaces() ([]tree.Namespace, error) {
	var list []tree.Namespace
	err := tx.list("namespaces", func(s scanner) error {
		var n tree.Namespace
		err := s.Scan(spaceFields(&n)...)
		list = append(list, n)
		return err
	}, "SELECT "+spaceColumns+" FROM ns ORDER BY id")
	return list, err
}

func (tx *treeTx) PutNamespace(n *tree.Namespace) error {
	if n.ID != 0 {
		return of("namespace", tx.exec("UPDATE ns SET name = ?, root = ?, rev = ?, files = ?, dirs = ?, bytes = ?, config = ? WHERE id = +?",
			n.Name, n.Root, n.Rev, n.Files, n.Dirs, n.Bytes, n.Config, n.ID))
	}
	done, err := tx.execute("INSERT INTO ns (name, root, rev, files, dirs, bytes, config, base) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		n.Name, n.Root, n.Rev, n.Files, n.Dirs, n.Bytes, n.Config, n.Rev)
	if err == nil {
		n.ID, err = done.LastInsertId()
		tx.bases[n.ID] = n.Rev
	}
	return of("namespace", err)
}

func (tx *treeTx) Node(ino int64) (tree.Node, error) {
	var n nodeRow
	err := tx.row("SELECT "+nodeColumns+" FROM node n WHERE ino = +?", ino).Scan(n.fields()...)
	return tx.node(&n), of("node", err)
}

// numbers is a list of node numbers for json_each.
func numbers(list []int64) string {
	b := make([]byte, 0, 2+12*len(list))
	b = append(b, '[')
	for i, n := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n, 10)
	}
	return string(append(b, ']'))
}

func (tx *treeTx) Nodes(inos []int64, fn func(tree.Node) error) error {
	var n tree.Node
	fields := []any{&n.Ino, &n.Kind, &n.Mode, &n.Size, &n.MTime, &n.Target}
	return tx.list("nodes", func(s scanner) error {
		if err := s.Scan(fields...); err != nil {
			return of("nodes", err)
		}
		return fn(n)
	}, "SELECT n.ino, n.kind, n.mode, n.size, n.mtime_ns, coalesce(n.target, '') FROM json_each(?) j CROSS JOIN node n ON n.ino = j.value", numbers(inos))
}

func (tx *treeTx) PutNode(n *tree.Node) error {
	if n.Ino == 0 {
		return tx.newNode(n, tree.Hash{})
	}
	return tx.updateNode(n, "manifest = CASE WHEN only IS NULL THEN ? END", hashOrNull(n.Manifest))
}

// updateNode replaces the row of a node, with what set says of its content.
func (tx *treeTx) updateNode(n *tree.Node, set string, content ...any) error {
	args := append(content, n.Namespace, n.Kind, n.Mode, n.Size, n.Links, n.MTime, n.BTime, n.Rev-tx.bases[n.Namespace],
		orNull(n.MIME), orNull(n.Target), orNull(n.Mount), n.Stub, n.Ino)
	return of("node", tx.exec("UPDATE node SET "+set+`, ns = ?, kind = ?, mode = ?, size = ?, nlink = ?, mtime_ns = ?, btime_ns = ?, rev = ?,
		mime = ?, target = ?, mount = ?, stub = ? WHERE ino = +?`, args...))
}

func (tx *treeTx) DeleteNode(ino int64) error {
	return tx.removed(&tx.late.noNodes, ino)
}

func (tx *treeTx) NodesAfter(ns, rev int64, fn func(tree.Child) error) error {
	rev -= tx.bases[ns]
	return tx.changed(fn, changedColumns+" FROM node n JOIN name m ON m.child = n.ino WHERE n.ns = ? AND n.rev > ? AND +m.rev < ?",
		ns, rev, 2*(rev+1))
}

// NamesAfter finds first the names that nodes were given later, and then those that they were made with,
// by the nodes' revisions: in the order of these, so that most directories come before what is in them.
func (tx *treeTx) NamesAfter(ns, rev int64, fn func(tree.Child) error) error {
	rev -= tx.bases[ns]
	return tx.changed(fn, changedColumns+" FROM name m JOIN node n ON n.ino = m.child WHERE m.ns = ? AND m.rev >= ? AND m.rev & 1 = 0 UNION ALL "+
		changedColumns+" FROM node n JOIN name m ON m.child = n.ino WHERE n.ns = ? AND n.rev > ? AND +m.rev >= ? AND m.rev & 1",
		ns, 2*(rev+1), ns, rev, 2*(rev+1))
}

// changedColumns is what a change stream needs of a node n and a name m.
const changedColumns = "SELECT " + nameColumns + ", n.ino, n.kind, n.rev, n.stub"

func (tx *treeTx) changed(fn func(tree.Child) error, query string, args ...any) error {
	var c childRow
	n := &c.node
	fields := append(nameFields(&c.name), &n.Ino, &n.Kind, &n.Rev, &n.Stub)
	return tx.list("names", func(s scanner) error {
		if err := s.Scan(fields...); err != nil {
			return of("names", err)
		}
		name, node := tx.name(&c.name), n.Node
		node.Rev += tx.bases[name.Namespace]
		return fn(tree.Child{Name: name, Node: node})
	}, query, args...)
}

func (tx *treeTx) Lookup(parent int64, name string) (tree.Child, error) {
	var c childRow
	if err := tx.flushRemoved(); err != nil {
		return tree.Child{}, err
	}
	is, err := tx.missing(parent, name)
	if err != nil {
		return tree.Child{}, err
	}
	if is {
		return tree.Child{}, tree.ErrNoRow
	}
	err = tx.c.row("SELECT "+nameColumns+", "+nodeColumns+
		" FROM name m JOIN node n ON n.ino = m.child WHERE m.parent = +? AND m.name = ?", parent, name).Scan(c.fields()...)
	if err != nil {
		return tree.Child{}, of("name", err)
	}
	return tx.child(&c), nil
}

func (tx *treeTx) Children(parent int64, after string, limit int) ([]tree.Child, error) {
	var list []tree.Child
	var c childRow
	fields := c.fields()
	err := tx.list("names", func(s scanner) error {
		err := s.Scan(fields...)
		list = append(list, tx.child(&c))
		return err
	}, "SELECT "+nameColumns+", "+nodeColumns+
		" FROM name m JOIN node n ON n.ino = m.child WHERE m.parent = +? AND m.name > ? ORDER BY m.name LIMIT ?", parent, after, limit)
	return list, err
}

func (tx *treeTx) NamesOf(ino int64) ([]tree.Name, error) {
	var list []tree.Name
	err := tx.list("names", func(s scanner) error {
		var n tree.Name
		err := s.Scan(nameFields(&n)...)
		list = append(list, tx.name(&n))
		return err
	}, "SELECT "+nameColumns+" FROM name m WHERE child = +? ORDER BY parent, name", ino)
	return list, err
}

func (tx *treeTx) PutName(n tree.Name) error {
	if err := tx.flushRemoved(); err != nil {
		return err
	}
	tx.late.note(n.Parent, n.Name)
	rev := 2 * (n.Rev - tx.bases[n.Namespace])
	if n.Child == tx.late.last && n.Rev <= tx.late.rev {
		rev++
	}
	if tx.late.waits(n.Child) {
		return tx.newName(&n, rev)
	}
	return of("name", tx.exec(putNames.one(), n.Parent, n.Name, n.Child, n.Namespace, rev))
}

func (tx *treeTx) DeleteName(parent int64, name string) error {
	return tx.removedName(parent, name)
}

func (tx *treeTx) Tomb(ns int64, path string) (tree.Tomb, error) {
	t := tree.Tomb{Path: path}
	err := tx.row("SELECT rev, prior FROM tomb WHERE ns = ? AND path = ?", ns, path).Scan(&t.Rev, &t.Prior)
	return t, of("tomb", err)
}

func (tx *treeTx) PutTomb(ns int64, t tree.Tomb) error {
	return tx.removed(&tx.late.tombs, ns, t.Path, t.Rev, t.Prior)
}

func (tx *treeTx) TombsAfter(ns, rev int64, fn func(tree.Tomb) error) error {
	return tx.list("tombs", func(s scanner) error {
		var t tree.Tomb
		if err := s.Scan(&t.Path, &t.Rev, &t.Prior); err != nil {
			return of("tombs", err)
		}
		return fn(t)
	}, "SELECT path, rev, prior FROM tomb WHERE ns = ? AND rev > ?", ns, rev)
}

func (tx *treeTx) Moves(ns int64) ([]tree.Move, error) {
	var list []tree.Move
	err := tx.list("moves", func(s scanner) error {
		var m tree.Move
		err := s.Scan(&m.Rev, &m.OldPath, &m.Ino)
		list = append(list, m)
		return err
	}, "SELECT rev, old_path, ino FROM moved WHERE ns = ?", ns)
	return list, err
}

func (tx *treeTx) PutMove(ns int64, m tree.Move) error {
	return of("move", tx.exec("INSERT INTO moved (ns, rev, old_path, ino) VALUES (?, ?, ?, ?)", ns, m.Rev, m.OldPath, m.Ino))
}

func (tx *treeTx) DeleteMove(ns int64, m tree.Move) error {
	return of("move", tx.exec("DELETE FROM moved WHERE ns = ? AND rev = ? AND old_path = ?", ns, m.Rev, m.OldPath))
}
