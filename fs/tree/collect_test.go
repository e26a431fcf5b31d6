package tree_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A gate runs something before the next update of a store.
type gate struct {
	tree.Store
	beforeUpdate func()
}

func (g *gate) Update(ctx context.Context, fn func(tree.Tx) error) error {
	if do := g.beforeUpdate; do != nil {
		g.beforeUpdate = nil
		do()
	}
	return g.Store.Update(ctx, fn)
}

// Between the look for garbage and the deletion of it, anything may happen.
func TestCollectRaces(t *testing.T) {
	x := tree.Data{Hash: tree.Sum([]byte("x")), Bytes: []byte("x")}
	for name, meanwhile := range map[string]func(*tree.Forest, *tree.Tree) error{
		"pushed again": func(f *tree.Forest, _ *tree.Tree) error {
			_, err := f.PutChunks(t.Context(), x)
			return err
		},
		"asked for": func(f *tree.Forest, _ *tree.Tree) error {
			_, err := f.Held(t.Context(), []tree.Hash{x.Hash})
			return err
		},
		"referred to": func(_ *tree.Forest, tr *tree.Tree) error {
			_, err := tr.Update(t.Context(), func(e *tree.Edit) error {
				return e.PutFile("/f", tree.File{Parts: []tree.Part{{Hash: x.Hash, Size: 1}}})
			})
			return err
		},
		"collected by another": func(f *tree.Forest, _ *tree.Tree) error {
			_, err := f.Collect(t.Context(), tree.Policy{Grace: -1})
			if err == nil {
				_, err = f.PutChunks(t.Context(), x)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			g := &gate{Store: tree.NewMemory()}
			f := tree.New(g, tree.Config{Now: func() time.Time { return now }})
			tr, err := f.Tree(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.PutChunks(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			now = now.Add(2 * time.Hour)
			ran := false
			g.beforeUpdate = func() {
				ran = true
				if err := meanwhile(f, tr); err != nil {
					t.Error(err)
				}
			}
			done, err := f.Collect(t.Context(), tree.Policy{Grace: -1})
			if err != nil || done != (tree.Collected{}) || !ran {
				t.Errorf("%+v, %v, %v", done, err, ran)
			}
			if _, err := f.Chunk(t.Context(), x.Hash, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// A file is opened after a collection has looked for garbage and before it deletes it.
// (Package server/sqlite has the other order: a view that is older than a collection.)
func TestOpenRaces(t *testing.T) {
	now := time.Now()
	g := &gate{Store: tree.NewMemory()}
	f := tree.New(g, tree.Config{Now: func() time.Time { return now }})
	tr, err := f.Tree(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if _, err := tr.WriteFile(t.Context(), "/f", strings.NewReader(text), tree.File{}); err != nil {
			t.Error(err)
		}
	}
	write("old")
	now = now.Add(2 * time.Hour)
	// The collection has decided, its transaction has not begun: it must see the pin.
	write("new")
	g.beforeUpdate = func() {
		r, err := tr.Open(t.Context(), "/f")
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close()
		var out bytes.Buffer
		if _, err := r.WriteTo(t.Context(), &out); err != nil || out.String() != "new" {
			t.Errorf("%q, %v", out.String(), err)
		}
	}
	if _, err := f.Collect(t.Context(), tree.Policy{Grace: -1}); err != nil {
		t.Error(err)
	}
}
