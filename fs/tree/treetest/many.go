package treetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// expectedChunks: the chunks that a transaction expects are found as they are.
func expectedChunks(t *testing.T, open func(testing.TB) tree.Store) {
	t.Helper()
	s := open(t)
	is := func(tx tree.Tx, want ...tree.Chunk) {
		t.Helper()
		for _, w := range want {
			c, err := tx.Chunk(w.Hash)
			if w.Where == 0 && !noRow(err) || w.Where != 0 && (err != nil || c != w) {
				t.Error(c, err, "not", w)
			}
		}
	}
	chunk := func(h byte, object, at, seen int64) tree.Chunk {
		return tree.Chunk{Hash: tree.Hash{h}, Size: int64(h), Where: tree.ChunkObject, At: tree.Place{Object: object, Offset: at}, Seen: seen}
	}
	none := func(h byte) tree.Chunk { return tree.Chunk{Hash: tree.Hash{h}} }
	put := func(tx tree.Tx, c tree.Chunk, want bool) {
		t.Helper()
		if is, err := tx.PutPlaced(c.Hash, c.Size, c.At, c.Seen); is != want || err != nil {
			t.Error(c, is, err)
		}
	}
	expect := func(tx tree.Tx, hashes ...byte) error {
		var list []tree.Hash
		for _, h := range hashes {
			list = append(list, tree.Hash{h})
		}
		return tx.Expect(list)
	}
	update(t, s, func(tx tree.Tx) error { put(tx, chunk(1, 1, 0, 10), true); return nil })
	update(t, s, func(tx tree.Tx) error {
		if err := expect(tx, 1, 2, 3, 4, 5, 6); err != nil {
			return err
		}
		is(tx, chunk(1, 1, 0, 10), none(2))
		put(tx, chunk(2, 2, 0, 20), true)
		put(tx, chunk(3, 3, 0, 20), true)
		is(tx, chunk(2, 2, 0, 20), chunk(3, 3, 0, 20), none(4))
		put(tx, chunk(2, 2, 0, 30), true)  // the same place
		put(tx, chunk(3, 4, 0, 30), false) // another one
		is(tx, chunk(2, 2, 0, 30), chunk(3, 3, 0, 30))
		if new, err := tx.PutChunk(tree.Hash{4}, []byte("four"), 40); !new || err != nil {
			t.Error(new, err)
		}
		is(tx, tree.Chunk{Hash: tree.Hash{4}, Size: 4, Where: tree.ChunkInline, Seen: 40})
		put(tx, chunk(5, 5, 0, 20), true)
		put(tx, chunk(6, 5, 5, 20), true)
		err := errors.Join(tx.PlaceChunk(tree.Hash{5}, tree.Place{Object: 7}), tx.MarkChunk(tree.Hash{6}, 60, 70))
		dead := chunk(6, 5, 5, 60)
		dead.Dead = 70
		is(tx, chunk(5, 7, 0, 20), dead)
		if err = errors.Join(err, tx.DeleteChunk(tree.Hash{1}), expect(tx, 1, 5, 7)); err != nil {
			return err
		}
		is(tx, none(1), chunk(5, 7, 0, 20), none(7))
		put(tx, chunk(1, 8, 0, 80), true)
		put(tx, chunk(7, 8, 1, 80), true)
		list, err := tx.ChunksIn(8, 10)
		if diff := cmp.Diff([]tree.Chunk{chunk(1, 8, 0, 80), chunk(7, 8, 1, 80)}, list); diff != "" {
			t.Error(diff)
		}
		return err
	})
	update(t, s, func(tx tree.Tx) error {
		if err := expect(tx, 1, 7, 2, 8); err != nil {
			return err
		}
		put(tx, chunk(8, 8, 8, 80), true)
		// Of object 8 the first byte goes, 2 and 7 go whole, 99 has nothing.
		empty, err := tx.DeletePlaced([]tree.Object{{Number: 8, Bytes: 1}, {Number: 2, Bytes: 2}, {Number: 7, Bytes: 100}, {Number: 99, Bytes: 1}})
		slices.Sort(empty)
		if !slices.Equal(empty, []int64{2, 7, 99}) {
			t.Error(empty)
		}
		is(tx, none(1), none(2), none(5), chunk(7, 8, 1, 80), chunk(8, 8, 8, 80))
		return err
	})
	many := make([]tree.Hash, 10_000) // more than anybody remembers
	for i := range many {
		many[i] = tree.Hash{byte(i), byte(i >> 8), 1}
	}
	update(t, s, func(tx tree.Tx) error {
		for i, h := range many {
			if i%1000 == 0 {
				if err := tx.Expect(many[i : i+1000]); err != nil {
					return err
				}
			}
			if new, err := tx.PutPlaced(h, 1, tree.Place{Object: 100, Offset: int64(i)}, 1); !new || err != nil {
				return errors.Join(fmt.Errorf("%d: %t", i, new), err)
			}
		}
		if err := tx.Expect(many); err != nil {
			return err
		}
		for i, h := range many {
			if c, err := tx.Chunk(h); err != nil || c.At.Offset != int64(i) {
				return errors.Join(fmt.Errorf("%d: %v", i, c), err)
			}
		}
		return nil
	})
	err := s.View(t.Context(), func(tx tree.Tx) error {
		if err := errors.Join(expect(tx, 8, 99), tx.Expect(many[:10])); err != nil {
			return err
		}
		is(tx, chunk(8, 8, 8, 80), none(99))
		if _, err := tx.PutPlaced(tree.Hash{99}, 1, tree.Place{Object: 1}, 1); err == nil {
			t.Error("a view has put a chunk")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// removedAndPutAgain: rows that are removed are gone for all that follows in the transaction, and make
// room.
func removedAndPutAgain(t *testing.T, open func(testing.TB) tree.Store) {
	t.Helper()
	s := open(t)
	ns := space(t, s)
	const n = 300
	name := func(i int) string { return fmt.Sprintf("f%03d", i) }
	dirs := []int64{ns.Root, 0}
	var inos []int64
	update(t, s, func(tx tree.Tx) error {
		dir := tree.Node{Namespace: ns.ID, Kind: tree.KindDir, Links: 1}
		if err := tx.PutNode(&dir); err != nil {
			return err
		}
		dirs[1] = dir.Ino
		for i := range n {
			node := tree.Node{Namespace: ns.ID, Kind: tree.KindFile, Links: 1, Size: 1}
			err := tx.PutFile(&node, nil, []tree.Part{{Hash: tree.Hash{byte(i), byte(i >> 8)}, Size: 1}})
			inos = append(inos, node.Ino)
			err = errors.Join(err, tx.PutName(tree.Name{Parent: dirs[i%2], Name: name(i), Child: node.Ino, Namespace: ns.ID, Rev: 1}))
			if err != nil {
				return err
			}
		}
		return nil
	})
	tomb := func(i int, rev int64) tree.Tomb { return tree.Tomb{Path: "/" + name(i), Rev: rev} }
	check := func(tx tree.Tx, from, to int, gone bool) {
		t.Helper()
		for i := from; i < to; i++ {
			_, err := tx.Lookup(dirs[i%2], name(i))
			_, err2 := tx.Node(inos[i])
			parts, err3 := tx.Parts(inos[i])
			got, err4 := tx.Tomb(ns.ID, "/"+name(i))
			used, err5 := tx.Referenced(tree.Hash{byte(i), byte(i >> 8)})
			if gone && (!noRow(err, err2) || len(parts) != 0 || got.Rev != 5 || used) ||
				!gone && (errors.Join(err, err2) != nil || len(parts) != 1 || !noRow(err4) || !used) || errors.Join(err3, err5) != nil {
				t.Fatal(i, gone, err, err2, err3, parts, got, err4, used)
			}
		}
	}
	update(t, s, func(tx tree.Tx) error {
		for i := range n - 100 {
			err := errors.Join(tx.PutTomb(ns.ID, tomb(i, 5)), tx.PutTomb(ns.ID, tomb(i, 4)),
				tx.DeleteName(dirs[i%2], name(i)), tx.DeleteNode(inos[i]))
			if err != nil {
				return err
			}
			if i%70 == 69 {
				check(tx, i-3, i+1, true)
				check(tx, i+1, i+3, false)
			}
		}
		// Right behind a removal the name is free.
		node := tree.Node{Namespace: ns.ID, Kind: tree.KindFile, Links: 1, Size: 7}
		err := errors.Join(tx.DeleteName(dirs[0], name(n-2)), tx.PutName(tree.Name{Parent: dirs[0], Name: name(n - 2), Child: inos[n-1], Namespace: ns.ID, Rev: 9}),
			tx.DeleteName(dirs[1], name(n-1)), tx.PutNode(&node), tx.PutName(tree.Name{Parent: dirs[1], Name: name(n - 1), Child: node.Ino, Namespace: ns.ID, Rev: 9}))
		c, err2 := tx.Lookup(dirs[0], name(n-2))
		d, err3 := tx.Lookup(dirs[1], name(n-1))
		if c.Child != inos[n-1] || d.Node.Size != 7 {
			t.Error(c, d)
		}
		return errors.Join(err, err2, err3)
	})
	err := s.View(t.Context(), func(tx tree.Tx) error {
		check(tx, 0, n-100, true)
		check(tx, n-100, n-2, false)
		if tx.DeleteName(ns.Root, name(n-2)) == nil || tx.DeleteNode(inos[n-3]) == nil || tx.PutTomb(ns.ID, tomb(1, 9)) == nil {
			t.Error("a view removes")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
