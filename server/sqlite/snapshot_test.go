package sqlite

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A slow store lets something happen in the middle of its next view, which does not see it.
type slow struct {
	tree.Store
	meanwhile func()
}

func (s *slow) View(ctx context.Context, fn func(tree.Tx) error) error {
	do := s.meanwhile
	s.meanwhile = nil
	if do == nil {
		return s.Store.View(ctx, fn)
	}
	return s.Store.View(ctx, func(tx tree.Tx) error {
		if _, err := tx.Namespaces(); err != nil { // from here on it is of one moment
			return err
		}
		do()
		return fn(tx)
	})
}

// A file is opened in a view that is older than a collection which deleted what the file
// then consisted of.
func TestOpenBesideCollection(t *testing.T) {
	clock := &fakeClock{}
	store := &slow{Store: open(t, temporary(t)).Tree()}
	f := tree.New(store, tree.Config{Now: clock.now})
	tr, err := f.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	put := func(text string) {
		if _, err := tr.WriteFile(t.Context(), "/f", strings.NewReader(text), tree.File{}); err != nil {
			t.Error(err)
		}
	}
	put("old")
	store.meanwhile = func() {
		put("new")
		clock.advance()
		if done, err := f.Collect(t.Context(), tree.Policy{Grace: -1}); err != nil || done.Chunks != 1 {
			t.Error(done, err)
		}
	}
	r, err := tr.Open(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	if _, err := r.WriteTo(t.Context(), &out); err != nil || out.String() != "new" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A change stream is read in a view that is older than a change: it tells of that moment,
// and what changed comes with the next stream.
func TestChangesBesideUpdate(t *testing.T) {
	store := &slow{Store: open(t, temporary(t)).Tree()}
	tr, err := tree.New(store, tree.Config{}).Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	write(t, tr, "/f", "old")
	c, err := tr.Changes(t.Context(), tree.ChangesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	store.meanwhile = func() { write(t, tr, "/f", "new") }
	list, err := c.Next(t.Context(), 10)
	if err != nil || len(list) != 1 || list[0].Parts[0].Hash != tree.Sum([]byte("old")) {
		t.Error(list, err)
	}
	if c, err = tr.Changes(t.Context(), tree.ChangesQuery{After: c.Current}); err != nil {
		t.Fatal(err)
	}
	if list, err = c.Next(t.Context(), 10); err != nil || len(list) != 1 || list[0].Parts[0].Hash != tree.Sum([]byte("new")) {
		t.Error(list, err)
	}
}
