package tree_test

import (
	"errors"
	iofs "io/fs"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// What is touched is in the change stream once more, as it is, and nothing else is.
func TestTouch(t *testing.T) {
	ctx := t.Context()
	forest := tree.New(tree.NewMemory(), tree.Config{FirstRev: 1})
	if _, err := forest.Find(ctx, tree.DefaultName); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a tree that nobody has made: %v", err)
	}
	tr, err := forest.Tree(ctx, tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := forest.Find(ctx, tree.DefaultName); err != nil || found.Name() != tr.Name() {
		t.Errorf("%v, %v", found, err)
	}
	if err := tr.Share(ctx); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/d/f", "/gone", "/m/f"} {
		if _, err := tr.WriteFile(ctx, path, strings.NewReader("x"), tree.File{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err = tr.Update(ctx, func(e *tree.Edit) error {
		return errors.Join(e.Remove("/gone", false), e.Symlink("d", "/l"), e.Link("/d/f", "/hard"), e.Rename("/m", "/moved"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/d/f": "file /d/f, file /hard", "/d": "dir /d", "/l": "symlink /l", "/gone": "delete /gone", "/m/f": "delete /m/f", "/": "dir /", "/moved/f": "file /moved/f",
	} {
		info, err := tr.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		before, err := tr.Entry(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		var got tree.Entry
		_, err = tr.Update(ctx, func(e *tree.Edit) error {
			got, err = e.Touch(path)
			return err
		})
		if err != nil || got.Rev != info.Rev+1 || tree.Fingerprint(&got) != tree.Fingerprint(&before) || got.Prior != before.Prior {
			t.Errorf("%s: %+v, %v", path, got, err)
		}
		changes, err := tr.Changes(ctx, tree.ChangesQuery{After: tree.At(info.Rev)})
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for e, err := range changes.All(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			told = append(told, e.Kind.String()+" "+e.Path)
		}
		if strings.Join(told, ", ") != want {
			t.Errorf("%s: %q, want %q", path, told, want)
		}
	}
	if _, err := tr.Update(ctx, func(e *tree.Edit) error { _, err := e.Touch("/never"); return err }); !errors.Is(err, iofs.ErrNotExist) {
		t.Error(err)
	}
	// What nothing has can be said to be gone.
	info, err := tr.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	prior := strings.Repeat("ab", 32)
	_, err = tr.Update(ctx, func(e *tree.Edit) error {
		got, err := e.Bury("/d/f/below", prior)
		if got.Kind != tree.KindDelete || got.Rev != info.Rev+1 || got.Prior != prior {
			t.Errorf("%+v", got)
		}
		if _, err := e.Bury("/d/f", ""); !errors.Is(err, iofs.ErrExist) {
			t.Error(err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := tr.Entry(ctx, "/d/f/below"); err != nil || e.Kind != tree.KindDelete || e.Prior != prior {
		t.Errorf("%+v, %v", e, err)
	}
	if err := forest.Check(ctx); err != nil {
		t.Error(err)
	}
}
