package treetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// Rows holds a store against what the methods of Tx say, with rows that make no tree: no
// invariants hold when it is done.
func Rows(t *testing.T, open func(testing.TB) tree.Store) {
	t.Run("all or nothing", func(t *testing.T) {
		s := open(t)
		space(t, s)
		bad := errors.New("bad")
		change := func(tx tree.Tx) error {
			ns, err := tx.Namespace("n")
			if err != nil {
				return err
			}
			ns.Rev = 99
			n := tree.Node{Namespace: ns.ID, Kind: tree.KindFile}
			_, err = tx.PutChunk(tree.Hash{1}, []byte("x"), 1)
			return errors.Join(err, tx.PutNamespace(&ns), tx.PutFile(&n, nil, []tree.Part{{Hash: tree.Hash{1}, Size: 1}}),
				tx.PutName(tree.Name{Parent: 1, Name: "x", Child: n.Ino, Namespace: ns.ID}),
				tx.PutTomb(ns.ID, tree.Tomb{Path: "/x", Rev: 1}), tx.PutMove(ns.ID, tree.Move{Rev: 1, OldPath: "/y", Ino: 1}),
				tx.PutPeer(ns.ID, tree.Peer{ID: "p"}))
		}
		if err := s.Update(t.Context(), func(tx tree.Tx) error { return errors.Join(change(tx), bad) }); !errors.Is(err, bad) {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_ = s.Update(t.Context(), func(tx tree.Tx) error {
				if err := change(tx); err != nil {
					return err
				}
				panic("it happens")
			})
		}()
		err := s.View(t.Context(), func(tx tree.Tx) error {
			found := errors.New("a row was kept")
			ns, err := tx.Namespace("n")
			moves, err2 := tx.Moves(ns.ID)
			_, err3 := tx.Peer(ns.ID, "p")
			_, err4 := tx.Chunk(tree.Hash{1})
			_, err5 := tx.Tomb(ns.ID, "/x")
			_, err6 := tx.Lookup(1, "x")
			if ns.Rev != 3 || len(moves) != 0 || !noRow(err3, err4, err5, err6) {
				t.Error(ns, moves, err3, err4, err5, err6)
			}
			err = errors.Join(err, err2,
				tx.EachNode(func(tree.Node) error { return found }), tx.EachName(func(tree.Name) error { return found }),
				tx.EachPart(func(int64, int, tree.Part) error { return found }), tx.EachChunk(func(tree.Chunk, int64) error { return found }),
				tx.EachPeer(func(int64, tree.Peer) error { return found }))
			return err
		})
		if err != nil {
			t.Error(err)
		}
		update(t, s, func(tree.Tx) error { return nil }) // it still works
	})

	t.Run("views do not write", func(t *testing.T) {
		s := open(t)
		ns := space(t, s)
		for name, fn := range map[string]func(tree.Tx) error{
			"namespace": func(tx tree.Tx) error { n := *ns; return tx.PutNamespace(&n) },
			"node":      func(tx tree.Tx) error { return tx.PutNode(&tree.Node{Namespace: ns.ID, Kind: tree.KindDir}) },
			"name":      func(tx tree.Tx) error { return tx.PutName(tree.Name{Parent: 1, Name: "x", Child: 1, Namespace: ns.ID}) },
			"unname":    func(tx tree.Tx) error { return tx.DeleteName(1, "x") },
			"tomb":      func(tx tree.Tx) error { return tx.PutTomb(ns.ID, tree.Tomb{Path: "/x", Rev: 1}) },
			"chunk":     func(tx tree.Tx) error { _, err := tx.PutChunk(tree.Hash{1}, []byte("x"), 1); return err },
			"peer":      func(tx tree.Tx) error { return tx.PutPeer(ns.ID, tree.Peer{ID: "p"}) },
		} {
			if err := s.View(t.Context(), fn); err == nil {
				t.Errorf("%s: written", name)
			}
		}
	})

	t.Run("contexts", func(t *testing.T) {
		s := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		fn := func(tree.Tx) error { t.Error("called"); return nil }
		if err := s.View(ctx, fn); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := s.Update(ctx, fn); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})

	t.Run("nodes and names", func(t *testing.T) {
		s := open(t)
		ns := space(t, s)
		full := tree.Node{
			Namespace: ns.ID, Kind: tree.KindFile, Mode: 0o4755, Size: 1 << 40, Links: 2, MTime: -5, BTime: 1 << 60, Rev: 1 << 52,
			MIME: "a/b", Manifest: tree.Hash{9}, Mount: 4,
		}
		stub := tree.Node{Namespace: ns.ID, Kind: tree.KindFile, Size: 7, Links: 1, Stub: true, Rev: 2}
		link := tree.Node{Namespace: ns.ID, Kind: tree.KindSymlink, Mode: 0o777, Links: 1, Target: "t\n", Rev: 1}
		update(t, s, func(tx tree.Tx) error {
			for _, n := range []*tree.Node{&full, &stub, &link} {
				if err := tx.PutNode(n); err != nil {
					return err
				}
			}
			for _, n := range []tree.Name{
				{Parent: 77, Name: "b", Child: full.Ino, Rev: 5},
				{Parent: 77, Name: "a", Child: stub.Ino, Rev: 6},
				{Parent: 77, Name: "\U0001F600", Child: link.Ino, Rev: 7},
				{Parent: 77, Name: "\uFF5E", Child: full.Ino, Rev: 8},
				{Parent: 78, Name: "a", Child: 1234, Rev: 9},
			} {
				n.Namespace = ns.ID
				if err := tx.PutName(n); err != nil {
					return err
				}
			}
			return tx.DeleteName(78, "a")
		})
		if full.Ino == 0 || stub.Ino == full.Ino || link.Ino == stub.Ino {
			t.Error(full.Ino, stub.Ino, link.Ino)
		}
		err := s.View(t.Context(), func(tx tree.Tx) error {
			for _, want := range []tree.Node{full, stub, link} {
				if got, err := tx.Node(want.Ino); err != nil || got != want {
					t.Errorf("%v, %v; want %v", got, err, want)
				}
			}
			var some []tree.Node
			if err := tx.Nodes([]int64{link.Ino, 999, full.Ino}, func(n tree.Node) error { some = append(some, n); return nil }); err != nil {
				return err
			}
			slices.SortFunc(some, func(a, b tree.Node) int { return int(a.Ino - b.Ino) })
			if !slices.Equal(some, []tree.Node{
				{Ino: full.Ino, Kind: full.Kind, Mode: full.Mode, Size: full.Size, MTime: full.MTime},
				{Ino: link.Ino, Kind: link.Kind, Mode: link.Mode, Target: link.Target},
			}) {
				t.Error(some)
			}
			_, err := tx.Node(999)
			_, err2 := tx.Lookup(77, "c")
			_, err3 := tx.Lookup(78, "a")
			if !noRow(err, err2, err3) {
				t.Error(err, err2, err3)
			}
			list, err := tx.Children(77, "", 10)
			if err != nil {
				return err
			}
			var got []string
			for _, c := range list {
				got = append(got, c.Name.Name)
			}
			// Bytes, not UTF-16.
			if diff := cmp.Diff([]string{"a", "b", "\uFF5E", "\U0001F600"}, got); diff != "" {
				t.Error(diff)
			}
			if list, err = tx.Children(77, "a", 2); err != nil || len(list) != 2 || list[0].Name.Name != "b" || list[0].Node != full {
				t.Error(list, err)
			}
			if list, err = tx.Children(999, "", 2); err != nil || len(list) != 0 {
				t.Error(list, err)
			}
			names, err := tx.NamesOf(full.Ino)
			if err != nil || len(names) != 2 || names[0].Name != "b" || names[1].Name != "\uFF5E" || names[0].Rev != 5 {
				t.Error(names, err)
			}
			got = nil
			collect := func(c tree.Child) error {
				of := map[int64]tree.Node{full.Ino: full, stub.Ino: stub, link.Ino: link}[c.Child]
				if c.Node != (tree.Node{Ino: of.Ino, Kind: of.Kind, Rev: of.Rev, Stub: of.Stub}) {
					t.Error(c)
				}
				got = append(got, c.Name.Name)
				return nil
			}
			if err := tx.NodesAfter(ns.ID, 5, collect); err != nil {
				return err
			}
			// Not its other name, which NamesAfter has.
			if diff := cmp.Diff([]string{"b"}, got); diff != "" {
				t.Error(diff)
			}
			got = nil
			if err := tx.NamesAfter(ns.ID, 6, collect); err != nil {
				return err
			}
			slices.Sort(got)
			if diff := cmp.Diff([]string{"\uFF5E", "\U0001F600"}, got); diff != "" {
				t.Error(diff)
			}
			stop := errors.New("stop")
			if err := tx.NamesAfter(ns.ID, 0, func(tree.Child) error { return stop }); !errors.Is(err, stop) {
				t.Error(err)
			}
			return tx.NamesAfter(ns.ID+1, 0, func(tree.Child) error { return errors.New("of another namespace") })
		})
		if err != nil {
			t.Error(err)
		}
		// A number is never used again.
		update(t, s, func(tx tree.Tx) error { return tx.DeleteNode(link.Ino) })
		update(t, s, func(tx tree.Tx) error {
			n := tree.Node{Namespace: ns.ID, Kind: tree.KindDir}
			err := tx.PutNode(&n)
			if n.Ino <= link.Ino {
				t.Errorf("number %d after %d", n.Ino, link.Ino)
			}
			return err
		})
	})

	manyNew := func(t *testing.T, newDir bool) {
		s := open(t)
		ns := space(t, s)
		const n = 200
		dir := tree.Node{Ino: 5, Namespace: ns.ID, Kind: tree.KindDir}
		nodes := make([]tree.Node, n)
		name := func(i int) tree.Name {
			return tree.Name{Parent: dir.Ino, Name: fmt.Sprintf("%03d", i), Child: nodes[i].Ino, Namespace: ns.ID, Rev: 1}
		}
		part := func(i int) tree.Part { return tree.Part{Hash: tree.Hash{byte(i)}, Size: int64(i)} }
		// What was put is there for the next call, whichever it is.
		looks := []func(tx tree.Tx, i int) (bool, error){
			func(tx tree.Tx, i int) (bool, error) {
				c, err := tx.Lookup(dir.Ino, name(i).Name)
				return c == tree.Child{Name: name(i), Node: nodes[i]}, err
			},
			func(tx tree.Tx, i int) (bool, error) {
				got, err := tx.Node(nodes[i].Ino)
				return got == nodes[i], err
			},
			func(tx tree.Tx, i int) (bool, error) {
				got, err := tx.Parts(nodes[i].Ino)
				return slices.Equal(got, []tree.Part{part(i), part(i + 1)}), err
			},
			func(tx tree.Tx, i int) (bool, error) {
				got, err := tx.NamesOf(nodes[i].Ino)
				return slices.Equal(got, []tree.Name{name(i)}), err
			},
			func(tx tree.Tx, i int) (bool, error) {
				got, err := tx.Children(dir.Ino, name(i).Name, n)
				return len(got) == 0, err
			},
			func(tx tree.Tx, i int) (bool, error) {
				is, err := tx.Referenced(part(i + 1).Hash)
				return is, err
			},
			func(tx tree.Tx, i int) (bool, error) {
				_, err := tx.Lookup(dir.Ino, "none")
				return errors.Is(err, tree.ErrNoRow), nil
			},
		}
		update(t, s, func(tx tree.Tx) error {
			if newDir {
				dir.Ino = 0
				if err := tx.PutNode(&dir); err != nil {
					return err
				}
			}
			for i := range nodes {
				nodes[i] = tree.Node{Namespace: ns.ID, Kind: tree.KindFile, Size: int64(i), Links: 1, Rev: 1}
				if err := errors.Join(tx.PutFile(&nodes[i], nil, []tree.Part{part(i), part(i + 1)}), tx.PutName(name(i))); err != nil {
					return err
				}
				if i > 0 && nodes[i].Ino <= nodes[i-1].Ino {
					t.Errorf("number %d after %d", nodes[i].Ino, nodes[i-1].Ino)
				}
				// At first only the name is looked for, and then that of another.
				look := looks[0]
				switch {
				case i >= n/2:
					look = looks[i%len(looks)]
				case i%3 != 0:
					look = looks[len(looks)-1]
				}
				if ok, err := look(tx, i); !ok || err != nil {
					t.Errorf("after %d: %v", i, err)
				}
			}
			// A name that has just been given is given to another, and taken away.
			again, gone := name(n-1), name(n-2)
			again.Child = nodes[0].Ino
			return errors.Join(tx.PutName(again), tx.DeleteName(gone.Parent, gone.Name))
		})
		err := s.View(t.Context(), func(tx tree.Tx) error {
			list, err := tx.Children(dir.Ino, "", 2*n)
			for i, c := range list {
				want := tree.Child{Name: name(i), Node: nodes[i]}
				if i == n-2 {
					want = tree.Child{Name: name(n - 1), Node: nodes[0]}
					want.Name.Child = nodes[0].Ino
				}
				if c != want {
					t.Errorf("%v; want %v", c, want)
				}
			}
			if len(list) != n-1 {
				t.Errorf("%d names", len(list))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	t.Run("many new rows in an old directory", func(t *testing.T) { manyNew(t, false) })
	t.Run("many new rows in a new directory", func(t *testing.T) { manyNew(t, true) })

	t.Run("tombs and moves", func(t *testing.T) {
		s := open(t)
		ns := space(t, s)
		prior := bytes.Repeat([]byte{7}, 32)
		update(t, s, func(tx tree.Tx) error {
			return errors.Join(tx.PutTomb(ns.ID, tree.Tomb{Path: "/a", Rev: 5, Prior: prior}), tx.PutTomb(ns.ID, tree.Tomb{Path: "/a", Rev: 4}),
				tx.PutTomb(ns.ID, tree.Tomb{Path: "/b", Rev: 6}), tx.PutTomb(ns.ID, tree.Tomb{Path: "/b", Rev: 7}),
				tx.PutMove(ns.ID, tree.Move{Rev: 1, OldPath: "/m", Ino: 3}), tx.PutMove(ns.ID, tree.Move{Rev: 2, OldPath: "/m", Ino: 3}),
				tx.DeleteMove(ns.ID, tree.Move{Rev: 1, OldPath: "/m", Ino: 3}))
		})
		err := s.View(t.Context(), func(tx tree.Tx) error {
			a, err := tx.Tomb(ns.ID, "/a")
			if diff := cmp.Diff(tree.Tomb{Path: "/a", Rev: 5, Prior: prior}, a); diff != "" || err != nil {
				t.Error(diff, err)
			}
			var after []tree.Tomb
			if err := tx.TombsAfter(ns.ID, 5, func(t tree.Tomb) error { after = append(after, t); return nil }); err != nil {
				return err
			}
			if diff := cmp.Diff([]tree.Tomb{{Path: "/b", Rev: 7}}, after); diff != "" {
				t.Error(diff)
			}
			moves, err := tx.Moves(ns.ID)
			if diff := cmp.Diff([]tree.Move{{Rev: 2, OldPath: "/m", Ino: 3}}, moves); diff != "" {
				t.Error(diff)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})

	t.Run("parts and chunks", func(t *testing.T) {
		s := open(t)
		ns := space(t, s)
		n := tree.Node{Namespace: ns.ID, Kind: tree.KindFile}
		part := func(i byte) tree.Part { return tree.Part{Hash: tree.Hash{i}, Size: int64(i)} }
		update(t, s, func(tx tree.Tx) error {
			before := []tree.Part{part(1), part(2), part(3), part(4)}
			if err := tx.PutFile(&n, nil, before); err != nil {
				return err
			}
			for i := range byte(9) {
				if is, err := tx.PutChunk(tree.Hash{i}, bytes.Repeat([]byte{i}, int(i)), 100); !is || err != nil {
					t.Error(i, is, err)
				}
			}
			return tx.PutFile(&n, before, []tree.Part{part(1), part(6), part(6)})
		})
		update(t, s, func(tx tree.Tx) error {
			parts, err := tx.Parts(n.Ino)
			if diff := cmp.Diff([]tree.Part{part(1), part(6), part(6)}, parts); diff != "" || err != nil {
				t.Error(diff, err)
			}
			var sizes []int64
			err = tx.PartsOf([]int64{999, n.Ino}, func(ino int64, p tree.Part) error { sizes = append(sizes, ino-n.Ino, p.Size); return nil })
			if !slices.Equal(sizes, []int64{0, 1, 0, 6, 0, 6}) || err != nil {
				t.Error(sizes, err)
			}
			// The bytes that were there first stay.
			if is, err := tx.PutChunk(tree.Hash{2}, []byte("other"), 50); is || err != nil {
				t.Error(is, err)
			}
			if err := tx.MarkChunk(tree.Hash{3}, 200, 300); err != nil {
				return err
			}
			if err := tx.MarkChunk(tree.Hash{99}, 200, 300); !noRow(err) {
				t.Error(err)
			}
			c, err := tx.Chunk(tree.Hash{3})
			if err != nil || c != (tree.Chunk{Hash: tree.Hash{3}, Size: 3, Where: tree.ChunkInline, Seen: 200, Dead: 300}) {
				t.Error(c, err)
			}
			if _, err := tx.PutChunk(tree.Hash{3}, nil, 150); err != nil {
				return err
			}
			if c, err = tx.Chunk(tree.Hash{3}); err != nil || c.Seen != 200 || c.Dead != 0 {
				t.Error(c, err)
			}
			data, err := tx.ChunkBytes(tree.Hash{2}, []byte("<"))
			if err != nil || string(data) != "<\x02\x02" {
				t.Errorf("%q, %v", data, err)
			}
			for i, want := range map[byte]bool{1: true, 2: false, 6: true, 99: false} {
				if is, err := tx.Referenced(tree.Hash{i}); is != want || err != nil {
					t.Error(i, is, err)
				}
			}
			list, err := tx.Unreferenced(tree.Hash{1, 5}, 200, 3)
			var got []byte
			for _, c := range list {
				got = append(got, c.Hash[0])
			}
			if !bytes.Equal(got, []byte{2, 4, 5}) || err != nil {
				t.Error(got, err)
			}
			if err := errors.Join(tx.DeleteChunk(tree.Hash{4}), tx.DeleteNode(n.Ino)); err != nil {
				return err
			}
			_, err = tx.Chunk(tree.Hash{4})
			_, err2 := tx.ChunkBytes(tree.Hash{4}, nil)
			if parts, err3 := tx.Parts(n.Ino); !noRow(err, err2) || len(parts) != 0 || err3 != nil {
				t.Error(err, err2, parts, err3)
			}
			return nil
		})
	})

	t.Run("chunks in objects", func(t *testing.T) {
		s := open(t)
		ns := space(t, s)
		a, b := tree.Node{Namespace: ns.ID, Kind: tree.KindFile}, tree.Node{Namespace: ns.ID, Kind: tree.KindFile}
		part := func(i byte) tree.Part { return tree.Part{Hash: tree.Hash{i}, Size: int64(i)} }
		placed := func(i byte, object, offset, seen int64) tree.Chunk {
			return tree.Chunk{Hash: tree.Hash{i}, Size: int64(i), Where: tree.ChunkObject, At: tree.Place{Object: object, Offset: offset}, Seen: seen}
		}
		update(t, s, func(tx tree.Tx) error {
			for _, c := range []tree.Chunk{placed(1, 7, 5, 100), placed(2, 7, 0, 100), placed(3, 8, 0, 100), placed(4, 1<<52, 1<<40, 100)} {
				if is, err := tx.PutPlaced(c.Hash, c.Size, c.At, c.Seen); !is || err != nil {
					t.Error(c, is, err)
				}
			}
			is, err := tx.PutChunk(tree.Hash{5}, []byte("12345"), 100)
			if !is {
				t.Error("an inline chunk was there")
			}
			return errors.Join(err, tx.PutFile(&a, nil, []tree.Part{part(1), part(2), part(1)}), tx.PutFile(&b, nil, []tree.Part{part(1), part(5), part(9)}))
		})
		chunks := func(got []tree.Chunk, err error, want ...tree.Chunk) {
			t.Helper()
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		look := func(fn func(tx tree.Tx)) {
			t.Helper()
			if err := s.View(t.Context(), func(tx tree.Tx) error { fn(tx); return nil }); err != nil {
				t.Error(err)
			}
		}
		inline := tree.Chunk{Hash: tree.Hash{5}, Size: 5, Where: tree.ChunkInline, Seen: 100}
		look(func(tx tree.Tx) {
			c, err := tx.Chunk(tree.Hash{4})
			chunks([]tree.Chunk{c}, err, placed(4, 1<<52, 1<<40, 100))
			if _, err := tx.ChunkBytes(tree.Hash{4}, nil); !noRow(err) {
				t.Error("the store has bytes of an object:", err)
			}
			// By their offset, and no more than asked for.
			list, err := tx.ChunksIn(7, 10)
			chunks(list, err, placed(2, 7, 0, 100), placed(1, 7, 5, 100))
			list, err = tx.ChunksIn(7, 1)
			chunks(list, err, placed(2, 7, 0, 100))
			list, err = tx.ChunksIn(99, 10)
			chunks(list, err)
			// Those that parts name and that have a row, by their hash.
			list, err = tx.ReferencedChunks(tree.Hash{}, 10)
			chunks(list, err, placed(1, 7, 5, 100), placed(2, 7, 0, 100), inline)
			list, err = tx.ReferencedChunks(tree.Hash{1}, 1)
			chunks(list, err, placed(2, 7, 0, 100))
			list, err = tx.Unreferenced(tree.Hash{}, 101, 10)
			chunks(list, err, placed(3, 8, 0, 100), placed(4, 1<<52, 1<<40, 100))
			objects, err := tx.Objects()
			slices.SortFunc(objects, func(a, b tree.Object) int { return int(a.Number - b.Number) })
			if diff := cmp.Diff([]tree.Object{{Number: 7, Bytes: 3}, {Number: 8, Bytes: 3}, {Number: 1 << 52, Bytes: 4}}, objects); diff != "" || err != nil {
				t.Error(diff, err)
			}
			uses := func(h tree.Hash, limit int) []tree.Use {
				list, err := tx.Uses(h, limit)
				if err != nil {
					t.Error(err)
				}
				slices.SortFunc(list, func(a, b tree.Use) int { return int(a.Ino-b.Ino)*1000 + a.Index - b.Index })
				return list
			}
			if diff := cmp.Diff([]tree.Use{{Ino: a.Ino, Index: 0}, {Ino: a.Ino, Index: 2}, {Ino: b.Ino, Index: 0}}, uses(tree.Hash{1}, 10)); diff != "" {
				t.Error(diff)
			}
			// Also of what has no row: only files have it.
			if diff := cmp.Diff([]tree.Use{{Ino: b.Ino, Index: 2}}, uses(tree.Hash{9}, 10)); diff != "" {
				t.Error(diff)
			}
			if n, none := len(uses(tree.Hash{1}, 2)), len(uses(tree.Hash{3}, 2)); n != 2 || none != 0 {
				t.Error(n, none)
			}
			for _, limit := range []int{1, 2, 10} {
				got := map[tree.Hash]int{}
				err := tx.CountUses([]tree.Hash{{1}, {2}, {3}, {9}, {99}}, limit, func(h tree.Hash, n int) error {
					got[h] += n
					return nil
				})
				if diff := cmp.Diff(map[tree.Hash]int{{1}: min(limit, 3), {2}: 1, {9}: 1}, got); diff != "" || err != nil {
					t.Error(limit, diff, err)
				}
			}
			stop := errors.New("stop")
			if err := tx.CountUses([]tree.Hash{{1}}, 1, func(tree.Hash, int) error { return stop }); !errors.Is(err, stop) {
				t.Error(err)
			}
		})
		update(t, s, func(tx tree.Tx) error {
			// One that is there stays where it is: it is only seen again.
			if err := tx.MarkChunk(tree.Hash{3}, 100, 300); err != nil {
				return err
			}
			for _, h := range []tree.Hash{{3}, {5}} {
				if is, err := tx.PutPlaced(h, 77, tree.Place{Object: 70}, 200); is || err != nil {
					t.Error(h, is, err)
				}
			}
			if is, err := tx.PutChunk(tree.Hash{4}, []byte("1234"), 50); is || err != nil {
				t.Error(is, err)
			}
			// Bytes go from the store to an object, and from one object to another.
			if err := tx.PlaceChunk(tree.Hash{99}, tree.Place{Object: 9}); !noRow(err) {
				t.Error(err)
			}
			return errors.Join(tx.PlaceChunk(tree.Hash{5}, tree.Place{Object: 9, Offset: 1}), tx.PlaceChunk(tree.Hash{1}, tree.Place{Object: 8, Offset: 3}),
				tx.DeleteChunk(tree.Hash{2}))
		})
		look(func(tx tree.Tx) {
			list, err := tx.ChunksIn(8, 10)
			chunks(list, err, placed(3, 8, 0, 200), placed(1, 8, 3, 100))
			list, err = tx.ChunksIn(9, 10)
			chunks(list, err, placed(5, 9, 1, 200))
			list, err = tx.ChunksIn(7, 10)
			chunks(list, err)
			list, err = tx.ChunksIn(70, 10)
			chunks(list, err)
			c, err := tx.Chunk(tree.Hash{4})
			chunks([]tree.Chunk{c}, err, placed(4, 1<<52, 1<<40, 100))
			if _, err := tx.ChunkBytes(tree.Hash{5}, nil); !noRow(err) {
				t.Error("the store still has the bytes:", err)
			}
			// No part is lost with a chunk.
			if is, err := tx.Referenced(tree.Hash{2}); !is || err != nil {
				t.Error(is, err)
			}
			if err := tx.EachChunk(func(c tree.Chunk, stored int64) error {
				if c.Where != tree.ChunkObject || stored != -1 {
					t.Error(c, stored)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("expected chunks", func(t *testing.T) { expectedChunks(t, open) })

	t.Run("removed and put again", func(t *testing.T) { removedAndPutAgain(t, open) })

	t.Run("peers", func(t *testing.T) {
		s := open(t)
		ns := space(t, s)
		want := tree.Peer{ID: "p", Push: tree.AtPath(2, ""), Fetch: tree.At(9), Seen: 4}
		update(t, s, func(tx tree.Tx) error {
			return errors.Join(tx.PutPeer(ns.ID, tree.Peer{ID: "p"}), tx.PutPeer(ns.ID, want))
		})
		err := s.View(t.Context(), func(tx tree.Tx) error {
			got, err := tx.Peer(ns.ID, "p")
			if got != want || err != nil {
				t.Error(got, err)
			}
			if _, err := tx.Peer(ns.ID, "q"); !noRow(err) {
				t.Error(err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func noRow(errs ...error) bool {
	return !slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, tree.ErrNoRow) })
}

func update(t *testing.T, s tree.Store, fn func(tree.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// space makes a namespace.
func space(t *testing.T, s tree.Store) *tree.Namespace {
	t.Helper()
	ns := &tree.Namespace{Name: "n", Rev: 3, Config: "{}"}
	update(t, s, func(tx tree.Tx) error { return tx.PutNamespace(ns) })
	return ns
}
