package sqlite

import (
	"database/sql"
	"errors"

	"github.com/wsd-dev/wsd/fs/tree"
)

func (tx *treeTx) Parts(ino int64) ([]tree.Part, error) {
	var list []tree.Part
	err := tx.list("parts", func(s scanner) error {
		var p tree.Part
		var idx int64
		err := s.Scan(&idx, hash{&p.Hash}, &p.Size)
		list = append(list, p)
		return err
	}, "SELECT 0 AS idx, only, size FROM node WHERE ino = +?1 AND only IS NOT NULL UNION ALL SELECT idx, hash, size FROM part WHERE ino = +?1 "+
		"AND NOT EXISTS (SELECT 1 FROM node WHERE ino = +?1 AND only IS NOT NULL) ORDER BY idx", ino)
	return list, err
}

func (tx *treeTx) PartsOf(inos []int64, fn func(int64, tree.Part) error) error {
	var ino int64
	var p tree.Part
	fields := []any{&ino, hash{&p.Hash}, &p.Size}
	return tx.list("parts", func(s scanner) error {
		if err := s.Scan(fields...); err != nil {
			return of("parts", err)
		}
		return fn(ino, p)
	}, "SELECT n.ino, coalesce(n.only, p.hash), coalesce(p.size, n.size) FROM json_each(?) j CROSS JOIN node n ON n.ino = j.value "+
		"LEFT JOIN part p ON n.only IS NULL AND p.ino = n.ino WHERE n.only IS NOT NULL OR p.ino IS NOT NULL ORDER BY j.key, p.idx", numbers(inos))
}

// PutFile has the part of a file that has only one in the row of the node.
func (tx *treeTx) PutFile(n *tree.Node, was, parts []tree.Part) error {
	var only tree.Hash
	if len(parts) == 1 {
		only = parts[0].Hash
	}
	if n.Ino == 0 {
		if err := tx.newNode(n, only); err != nil {
			return err
		}
	} else {
		manifest := n.Manifest
		if only != (tree.Hash{}) {
			manifest = tree.Hash{}
		}
		if err := tx.updateNode(n, "manifest = ?, only = ?", hashOrNull(manifest), hashOrNull(only)); err != nil {
			return err
		}
	}
	if len(parts) == 1 {
		parts = nil
	}
	if len(was) == 1 || len(was) > len(parts) { // a damaged store may have rows of the only part
		if err := tx.exec("DELETE FROM part WHERE ino = +? AND idx >= ?", n.Ino, len(parts)); err != nil {
			return of("parts", err)
		}
	}
	if len(was) == 1 {
		was = nil // it has no row
	}
	for i := range parts {
		if i < len(was) && was[i] == parts[i] {
			continue
		}
		if err := tx.newPart(n.Ino, i, &parts[i]); err != nil {
			return err
		}
	}
	return nil
}

const chunkColumns = "c.hash, c.size, c.loc, coalesce(c.object, 0), coalesce(c.at, 0), c.seen_ms, coalesce(c.dead_ms, 0)"

func chunkFields(c *tree.Chunk) []any {
	return []any{hash{&c.Hash}, &c.Size, &c.Where, &c.At.Object, &c.At.Offset, &c.Seen, &c.Dead}
}

// usesOf are the parts with a hash, as a query with columns of n, which is a node with its only part,
// or of p. The indexes have the beginnings of hashes.
func usesOf(hash, ofNode, ofPart string) string {
	return "SELECT " + ofNode + " FROM node n WHERE n.only IS NOT NULL AND substr(n.only, 1, 4) = substr(" + hash + ", 1, 4) AND n.only = " + hash +
		" UNION ALL SELECT " + ofPart + " FROM part p WHERE substr(p.hash, 1, 4) = substr(" + hash + ", 1, 4) AND p.hash = " + hash
}

// used is the condition that there are such parts.
func used(hash string) string { return "EXISTS (" + usesOf(hash, "1", "1") + ")" }

// maxExpected bounds the chunks that a transaction knows without looking.
const maxExpected = 4096

var (
	askChunks = newBulk(1, "WITH h (hash) AS (", ") SELECT "+chunkColumns+" FROM h CROSS JOIN chunk c ON c.hash = h.hash")
	askUses   = newBulk(1, "WITH h (hash) AS (", ") SELECT h.hash, (SELECT count(*) FROM ("+usesOf("h.hash", "1", "1")+" LIMIT ? + 0)) FROM h")
	cutPlaced = newBulk(2, "WITH o (number, size) AS (",
		") DELETE FROM chunk WHERE hash IN (SELECT c.hash FROM o CROSS JOIN chunk c ON c.object = o.number AND c.at < o.size)")
	askEmpty = newBulk(1, "WITH o (number) AS (", ") SELECT number FROM o WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.object = o.number)")
)

func (tx *treeTx) Expect(hashes []tree.Hash) error {
	if len(tx.expected)+len(hashes) > maxExpected {
		if err := tx.flush(); err != nil {
			return err
		}
		clear(tx.expected)
	}
	if len(hashes) > maxExpected {
		return nil // each is looked for when it is asked for
	}
	if tx.expected == nil {
		tx.expected = map[tree.Hash]*tree.Chunk{}
	}
	tx.values = tx.values[:0]
	for i := range hashes {
		if _, known := tx.expected[hashes[i]]; !known {
			tx.expected[hashes[i]] = nil
			tx.values = append(tx.values, hashes[i][:])
		}
	}
	err := tx.ask("chunks", func(s scanner) error {
		var c tree.Chunk
		err := s.Scan(chunkFields(&c)...)
		tx.expected[c.Hash] = &c
		return err
	}, askChunks, tx.values)
	if err != nil {
		clear(tx.expected)
	}
	return err
}

func (tx *treeTx) Chunk(h tree.Hash) (tree.Chunk, error) {
	if c, known := tx.expected[h]; known {
		if c == nil {
			return tree.Chunk{}, tree.ErrNoRow
		}
		return *c, nil
	}
	if err := tx.someChunks(); err != nil {
		return tree.Chunk{}, err
	}
	var c tree.Chunk
	err := tx.c.row("SELECT "+chunkColumns+" FROM chunk c WHERE hash = ?", h[:]).Scan(chunkFields(&c)...)
	return c, of("chunk", err)
}

// someChunks returns tree.ErrNoRow if no chunk has a row: mostly so where all content is in files.
func (tx *treeTx) someChunks() error {
	if !tx.placed.known {
		if err := tx.c.row("SELECT EXISTS (SELECT 1 FROM chunk)").Scan(&tx.placed.some); err != nil {
			return of("chunk", err)
		}
		tx.placed.known = true
	}
	if !tx.placed.some {
		return tree.ErrNoRow
	}
	return nil
}

// blob appends a column to a slice. A slice of nothing is left for the column's own.
type blob struct{ dst *[]byte }

func (b blob) Scan(v any) error {
	data, ok := v.([]byte)
	if !ok {
		return errors.New("a column is no blob")
	}
	if *b.dst == nil {
		*b.dst = data
	} else {
		*b.dst = append(*b.dst, data...)
	}
	return nil
}

func (tx *treeTx) ChunkBytes(h tree.Hash, dst []byte) ([]byte, error) {
	err := tx.row("SELECT bytes FROM chunk_data WHERE hash = ?", h[:]).Scan(blob{&dst})
	return dst, of("chunk", err)
}

func (tx *treeTx) PutChunk(h tree.Hash, data []byte, now int64) (bool, error) {
	if is, err := tx.saw(h, now); is || err != nil {
		return false, err
	}
	if err := tx.db.mayGrow(); err != nil {
		return false, of("chunk", err)
	}
	if err := tx.exec("INSERT INTO chunk (hash, size, loc, seen_ms) VALUES (?, ?, ?, ?)", h[:], len(data), tree.ChunkInline, now); err != nil {
		return false, of("chunk", err)
	}
	return true, of("chunk", tx.exec("INSERT INTO chunk_data (hash, bytes) VALUES (?, ?)", h[:], data))
}

// changes is called before the row of a chunk is changed.
func (tx *treeTx) changes(h tree.Hash) error {
	delete(tx.expected, h)
	tx.placed.known, tx.placed.some = true, true
	return tx.write(putChunks, &tx.late.chunks)
}

// saw notes that a chunk was seen, if it is there.
func (tx *treeTx) saw(h tree.Hash, now int64) (bool, error) {
	if err := tx.changes(h); err != nil {
		return false, err
	}
	var where uint8
	err := tx.c.row("UPDATE chunk SET seen_ms = max(seen_ms, ?), dead_ms = NULL WHERE hash = ? RETURNING loc", now, h[:]).Scan(&where)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, of("chunk", err)
}

func (tx *treeTx) PutPlaced(h tree.Hash, size int64, at tree.Place, now int64) (bool, error) {
	if err := tx.db.mayGrow(); err != nil {
		if is, err := tx.saw(h, now); is || err != nil {
			return false, err
		}
		return false, of("chunk", err)
	}
	if c, known := tx.expected[h]; known && c == nil && tx.writes {
		tx.expected[h] = &tree.Chunk{Hash: h, Size: size, Where: tree.ChunkObject, At: at, Seen: now}
		return true, tx.newChunk(tx.expected[h])
	}
	if err := tx.changes(h); err != nil {
		return false, err
	}
	var is tree.Place
	err := tx.c.row(`INSERT INTO chunk (hash, size, loc, object, at, seen_ms) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (hash) DO UPDATE SET seen_ms = max(seen_ms, excluded.seen_ms), dead_ms = NULL
		RETURNING coalesce(object, 0), coalesce(at, 0)`,
		h[:], size, tree.ChunkObject, at.Object, at.Offset, now).Scan(&is.Object, &is.Offset)
	return is == at, of("chunk", err)
}

func (tx *treeTx) PlaceChunk(h tree.Hash, at tree.Place) error {
	if err := tx.changes(h); err != nil {
		return err
	}
	if err := tx.c.exec("DELETE FROM chunk_data WHERE hash = ?", h[:]); err != nil {
		return of("chunk", err)
	}
	var where uint8
	return of("chunk", tx.c.row("UPDATE chunk SET loc = ?, object = ?, at = ? WHERE hash = ? RETURNING loc",
		tree.ChunkObject, at.Object, at.Offset, h[:]).Scan(&where))
}

func (tx *treeTx) MarkChunk(h tree.Hash, seen, dead int64) error {
	if err := tx.changes(h); err != nil {
		return err
	}
	var where uint8
	return of("chunk", tx.row("UPDATE chunk SET seen_ms = ?, dead_ms = nullif(?, 0) WHERE hash = ? RETURNING loc", seen, dead, h[:]).Scan(&where))
}

func (tx *treeTx) DeleteChunk(h tree.Hash) error {
	if err := tx.changes(h); err != nil {
		return err
	}
	if err := tx.exec("DELETE FROM chunk_data WHERE hash = ?", h[:]); err != nil {
		return of("chunk", err)
	}
	return of("chunk", tx.exec("DELETE FROM chunk WHERE hash = ?", h[:]))
}

func (tx *treeTx) Referenced(h tree.Hash) (bool, error) {
	var is bool
	err := tx.row("SELECT "+used("?1"), h[:]).Scan(&is)
	return is, of("parts", err)
}

func (tx *treeTx) Unreferenced(after tree.Hash, seenBefore int64, limit int) ([]tree.Chunk, error) {
	return tx.chunks(" WHERE hash > ? AND seen_ms < ? AND NOT "+used("c.hash")+" ORDER BY hash LIMIT ?",
		after[:], seenBefore, limit)
}

func (tx *treeTx) ReferencedChunks(after tree.Hash, limit int) ([]tree.Chunk, error) {
	return tx.chunks(" WHERE hash > ? AND "+used("c.hash")+" ORDER BY hash LIMIT ?", after[:], limit)
}

func (tx *treeTx) ChunksIn(object int64, limit int) ([]tree.Chunk, error) {
	return tx.chunks(" WHERE object = ? ORDER BY at LIMIT ?", object, limit)
}

func (tx *treeTx) chunks(where string, args ...any) ([]tree.Chunk, error) {
	var list []tree.Chunk
	err := tx.list("chunks", func(s scanner) error {
		var c tree.Chunk
		err := s.Scan(chunkFields(&c)...)
		list = append(list, c)
		return err
	}, "SELECT "+chunkColumns+" FROM chunk c"+where, args...)
	return list, err
}

func (tx *treeTx) CountUses(hashes []tree.Hash, limit int, fn func(h tree.Hash, parts int) error) error {
	tx.values = tx.values[:0]
	for i := range hashes {
		tx.values = append(tx.values, hashes[i][:])
	}
	var h tree.Hash
	var n int
	return tx.ask("parts", func(s scanner) error {
		if err := s.Scan(hash{&h}, &n); err != nil {
			return of("parts", err)
		}
		if n == 0 {
			return nil
		}
		return fn(h, n)
	}, askUses, tx.values, limit)
}

func (tx *treeTx) Uses(h tree.Hash, limit int) ([]tree.Use, error) {
	var list []tree.Use
	err := tx.list("parts", func(s scanner) error {
		var u tree.Use
		err := s.Scan(&u.Ino, &u.Index)
		list = append(list, u)
		return err
	}, usesOf("?1", "n.ino, 0", "p.ino, p.idx")+" LIMIT ?2 + 0", h[:], limit)
	return list, err
}

func (tx *treeTx) DeletePlaced(list []tree.Object) ([]int64, error) {
	if err := tx.flush(); err != nil {
		return nil, err
	}
	clear(tx.expected)
	var cut, numbers []any
	for _, o := range list {
		cut, numbers = append(cut, o.Number, o.Bytes), append(numbers, o.Number)
	}
	if err := cutPlaced.put(tx.c, cut); err != nil {
		return nil, of("chunks", err)
	}
	var empty []int64
	err := tx.ask("chunks", func(s scanner) error {
		var number int64
		err := s.Scan(&number)
		empty = append(empty, number)
		return err
	}, askEmpty, numbers)
	return empty, err
}

func (tx *treeTx) Objects() ([]tree.Object, error) {
	var list []tree.Object
	err := tx.list("objects", func(s scanner) error {
		var o tree.Object
		err := s.Scan(&o.Number, &o.Bytes)
		list = append(list, o)
		return err
	}, "SELECT object, sum(size) FROM chunk WHERE object IS NOT NULL GROUP BY object")
	return list, err
}

// path is NULL for the end of a revision.
func pathOf(c tree.Cursor) any {
	if !c.Within {
		return nil
	}
	return c.Path
}

const peerColumns = "id, push_rev, push_path, fetch_rev, fetch_path, seen_ms"

func scanPeer(s scanner, before ...any) (tree.Peer, error) {
	var p tree.Peer
	var push, fetch sql.NullString
	err := s.Scan(append(before, &p.ID, &p.Push.Rev, &push, &p.Fetch.Rev, &fetch, &p.Seen)...)
	p.Push.Path, p.Push.Within = push.String, push.Valid
	p.Fetch.Path, p.Fetch.Within = fetch.String, fetch.Valid
	return p, err
}

func (tx *treeTx) Peer(ns int64, id string) (tree.Peer, error) {
	p, err := scanPeer(tx.row("SELECT "+peerColumns+" FROM peer WHERE ns = ? AND id = ?", ns, id))
	return p, of("peer", err)
}

func (tx *treeTx) PutPeer(ns int64, p tree.Peer) error {
	return of("peer", tx.exec("INSERT OR REPLACE INTO peer (ns, "+peerColumns+") VALUES (?, ?, ?, ?, ?, ?, ?)",
		ns, p.ID, p.Push.Rev, pathOf(p.Push), p.Fetch.Rev, pathOf(p.Fetch), p.Seen))
}

func (tx *treeTx) EachNode(fn func(tree.Node) error) error {
	return tx.list("nodes", func(s scanner) error {
		var n nodeRow
		if err := s.Scan(n.fields()...); err != nil {
			return of("nodes", err)
		}
		return fn(tx.node(&n))
	}, "SELECT "+nodeColumns+" FROM node n")
}

func (tx *treeTx) EachName(fn func(tree.Name) error) error {
	return tx.list("names", func(s scanner) error {
		var n tree.Name
		if err := s.Scan(nameFields(&n)...); err != nil {
			return of("names", err)
		}
		return fn(tx.name(&n))
	}, "SELECT "+nameColumns+" FROM name m")
}

func (tx *treeTx) EachPart(fn func(ino int64, index int, p tree.Part) error) error {
	return tx.list("parts", func(s scanner) error {
		var p tree.Part
		var ino int64
		var index int
		if err := s.Scan(&ino, &index, hash{&p.Hash}, &p.Size); err != nil {
			return of("parts", err)
		}
		return fn(ino, index, p)
	}, "SELECT ino, 0 AS idx, only, size FROM node WHERE only IS NOT NULL UNION ALL SELECT ino, idx, hash, size FROM part ORDER BY ino, idx")
}

func (tx *treeTx) EachChunk(fn func(c tree.Chunk, stored int64) error) error {
	// Bytes that no chunk has come with an empty row, which no check lets pass.
	return tx.list("chunks", func(s scanner) error {
		var c tree.Chunk
		var stored int64
		if err := s.Scan(append(chunkFields(&c), &stored)...); err != nil {
			return of("chunks", err)
		}
		return fn(c, stored)
	}, "SELECT "+chunkColumns+`, coalesce(length(d.bytes), -1) FROM chunk c LEFT JOIN chunk_data d ON d.hash = c.hash
		UNION ALL SELECT d.hash, 0, 0, 0, 0, 0, 0, length(d.bytes) FROM chunk_data d WHERE NOT EXISTS (SELECT 1 FROM chunk c WHERE c.hash = d.hash)`)
}

func (tx *treeTx) EachPeer(fn func(ns int64, p tree.Peer) error) error {
	return tx.list("peers", func(s scanner) error {
		var ns int64
		p, err := scanPeer(s, &ns)
		if err != nil {
			return of("peers", err)
		}
		return fn(ns, p)
	}, "SELECT ns, "+peerColumns+" FROM peer")
}
