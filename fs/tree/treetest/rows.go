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
	update := func(t *testing.T, s tree.Store, fn func(tree.Tx) error) {
		t.Helper()
		if err := s.Update(t.Context(), fn); err != nil {
			t.Fatal(err)
		}
	}
	space := func(t *testing.T, s tree.Store) *tree.Namespace {
		t.Helper()
		ns := &tree.Namespace{Name: "n", Rev: 3, Config: "{}"}
		update(t, s, func(tx tree.Tx) error { return tx.PutNamespace(ns) })
		return ns
	}

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
			return errors.Join(err, tx.PutNamespace(&ns), tx.PutNode(&n), tx.PutName(tree.Name{Parent: 1, Name: "x", Child: n.Ino, Namespace: ns.ID}),
				tx.PutTomb(ns.ID, tree.Tomb{Path: "/x", Rev: 1}), tx.PutMove(ns.ID, tree.Move{Rev: 1, OldPath: "/y", Ino: 1}),
				tx.PutPeer(ns.ID, tree.Peer{ID: "p"}), tx.PutParts(n.Ino, 0, []tree.Part{{Hash: tree.Hash{1}, Size: 1}}))
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
				if err := errors.Join(tx.PutNode(&nodes[i]), tx.PutName(name(i)), tx.PutParts(nodes[i].Ino, 0, []tree.Part{part(i), part(i + 1)})); err != nil {
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
			if err := tx.PutNode(&n); err != nil {
				return err
			}
			for i := range byte(9) {
				if is, err := tx.PutChunk(tree.Hash{i}, bytes.Repeat([]byte{i}, int(i)), 100); !is || err != nil {
					t.Error(i, is, err)
				}
			}
			return errors.Join(tx.PutParts(n.Ino, 0, []tree.Part{part(1), part(2), part(3), part(4)}),
				tx.PutParts(n.Ino, 1, []tree.Part{part(6), part(6)}), tx.CutParts(n.Ino, 3))
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
			return errors.Join(err, tx.PutNode(&a), tx.PutNode(&b),
				tx.PutParts(a.Ino, 0, []tree.Part{part(1), part(2), part(1)}), tx.PutParts(b.Ino, 0, []tree.Part{part(1), part(5), part(9)}))
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
			list, err = tx.ReferencedChunks(tree.Hash{}, 101, 10)
			chunks(list, err, placed(1, 7, 5, 100), placed(2, 7, 0, 100), inline)
			list, err = tx.ReferencedChunks(tree.Hash{1}, 101, 1)
			chunks(list, err, placed(2, 7, 0, 100))
			list, err = tx.ReferencedChunks(tree.Hash{}, 100, 10)
			chunks(list, err)
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

	// What a transaction has said that it expects changes nothing of what it finds.
	t.Run("expected chunks", func(t *testing.T) {
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
	})

	// What is removed is gone for all that follows in the transaction, and makes room.
	t.Run("removed and put again", func(t *testing.T) {
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
				err := tx.PutNode(&node)
				inos = append(inos, node.Ino)
				err = errors.Join(err, tx.PutName(tree.Name{Parent: dirs[i%2], Name: name(i), Child: node.Ino, Namespace: ns.ID, Rev: 1}),
					tx.PutParts(node.Ino, 0, []tree.Part{{Hash: tree.Hash{byte(i), byte(i >> 8)}, Size: 1}}))
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
	})

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
