package tree_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A looking Store counts the names and tombs that are looked up.
type looking struct {
	tree.Store
	n int
}

func (s *looking) View(ctx context.Context, fn func(tree.Tx) error) error {
	return s.Store.View(ctx, func(tx tree.Tx) error { return fn(&lookingTx{tx, s}) })
}

type lookingTx struct {
	tree.Tx
	of *looking
}

func (tx *lookingTx) Lookup(parent int64, name string) (tree.Child, error) {
	tx.of.n++
	return tx.Tx.Lookup(parent, name)
}

func (tx *lookingTx) Tomb(ns int64, path string) (tree.Tomb, error) {
	tx.of.n++
	return tx.Tx.Tomb(ns, path)
}

// Removals are listed as they were found, and not looked up one by one, unless the tree has changed
// since: then as they are.
func TestRemovalsAreNotLookedUp(t *testing.T) {
	ctx := t.Context()
	s := &looking{Store: tree.NewMemory()}
	forest := tree.New(s, tree.Config{FirstRev: 100})
	tr, err := forest.Tree(ctx, tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	prior := map[string]string{}
	for i := range 20 {
		path := fmt.Sprintf("/d/f%02d", i)
		if _, err := tr.WriteFile(ctx, path, strings.NewReader(path), tree.File{}); err != nil {
			t.Fatal(err)
		}
		e, err := tr.Entry(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		prior[path] = tree.Fingerprint(&e)
	}
	if err := tr.Share(ctx); err != nil {
		t.Fatal(err)
	}
	was, err := tr.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Update(ctx, func(e *tree.Edit) error { return e.Remove("/d", true) }); err != nil {
		t.Fatal(err)
	}
	s.n = 0
	list, err := tr.Changes(ctx, tree.ChangesQuery{After: tree.At(was.Rev)})
	if err != nil {
		t.Fatal(err)
	}
	entries, err := list.Next(ctx, 10)
	if err != nil || len(entries) != 10 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Kind != tree.KindDelete || e.Path != "/d" && e.Prior != prior[e.Path] {
			t.Errorf("got %+v", e)
		}
	}
	if s.n != 0 {
		t.Errorf("%d were looked up", s.n)
	}
	if _, err := tr.WriteFile(ctx, "/d/f15", strings.NewReader("again"), tree.File{}); err != nil {
		t.Fatal(err)
	}
	if entries, err = list.Next(ctx, 20); err != nil || len(entries) != 10 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Path == "/d/f15" || e.Kind != tree.KindDelete || e.Prior != prior[e.Path] {
			t.Errorf("got %+v", e)
		}
	}
}

// Removed tells of removals and renamed directories behind a cursor, and of nothing else.
func TestRemoved(t *testing.T) {
	ctx := t.Context()
	tr, err := tree.New(tree.NewMemory(), tree.Config{FirstRev: 100}).Tree(ctx, tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string) func(*tree.Tree) error {
		return func(tr *tree.Tree) error {
			_, err := tr.WriteFile(ctx, path, strings.NewReader(path), tree.File{})
			return err
		}
	}
	edit := func(fn func(*tree.Edit) error) func(*tree.Tree) error {
		return func(tr *tree.Tree) error {
			_, err := tr.Update(ctx, fn)
			return err
		}
	}
	for _, path := range []string{"/a/f", "/b/f", "/.git/f"} {
		if err := write(path)(tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.Share(ctx); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name string
		do   func(*tree.Tree) error
		want bool
	}{
		{"nothing", func(*tree.Tree) error { return nil }, false},
		{"a new file", write("/new"), false},
		{"a changed file", write("/a/f"), false},
		{"an ignored file goes", edit(func(e *tree.Edit) error { return e.Remove("/.git/f", false) }), false},
		{"a renamed directory", edit(func(e *tree.Edit) error { return e.Rename("/b", "/c") }), true},
		{"a removed file", edit(func(e *tree.Edit) error { return e.Remove("/a/f", false) }), true},
	} {
		before, err := tr.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := step.do(tr); err != nil {
			t.Fatal(err)
		}
		is, err := tr.Removed(ctx, tree.At(before.Rev), []string{".git"})
		if is != step.want || err != nil {
			t.Errorf("%s: %v, %v", step.name, is, err)
		}
		// Old paths of renamed directories become tombs.
		if _, err := tr.Changes(ctx, tree.ChangesQuery{After: tree.At(before.Rev)}); err != nil {
			t.Fatal(err)
		}
		if is, err = tr.Removed(ctx, tree.At(before.Rev), []string{".git"}); is != step.want || err != nil {
			t.Errorf("%s, listed: %v, %v", step.name, is, err)
		}
		now, err := tr.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if is, err = tr.Removed(ctx, tree.At(now.Rev), nil); is || err != nil {
			t.Errorf("behind %s: %v, %v", step.name, is, err)
		}
	}
}
