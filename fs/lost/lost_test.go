package lost_test

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A shelf is a forest with a tree beside which versions are kept.
type shelf struct {
	t      *testing.T
	forest *tree.Forest
	tree   *tree.Tree
	now    time.Time
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	s.forest = tree.New(tree.NewMemory(), tree.Config{Now: func() time.Time { return s.now }})
	var err error
	if s.tree, err = s.forest.Tree(t.Context(), tree.DefaultName); err != nil {
		t.Fatal(err)
	}
	return s
}

// keep keeps a version of a path with some content, and returns its number.
func (s *shelf) keep(path, text string) int64 {
	s.t.Helper()
	parts, err := s.forest.Stage(s.t.Context(), strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	v := lost.Version{Path: path, At: s.now, Why: lost.Overtaken, Entry: tree.Entry{
		Kind: tree.KindFile, Mode: 0o640, MTime: s.now, Size: int64(len(text)), Parts: parts,
	}}
	if _, err := s.tree.Update(s.t.Context(), func(e *tree.Edit) error { return lost.Keep(e, &v) }); err != nil {
		s.t.Fatal(err)
	}
	return v.ID
}

// list is what is kept, in a line each.
func (s *shelf) list(after int64) string {
	s.t.Helper()
	var out []string
	err := lost.List(s.t.Context(), s.forest, after, func(v *lost.Version) error {
		var text []byte
		for _, p := range v.Entry.Parts {
			b, err := s.forest.Chunk(s.t.Context(), p.Hash, nil)
			if err != nil {
				return err
			}
			text = append(text, b...)
		}
		out = append(out, fmt.Sprintf("%d %s %s %o %q", v.ID, v.Entry.Path, v.Why, v.Entry.Mode, text))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

func (s *shelf) want(after int64, want ...string) {
	s.t.Helper()
	if got := s.list(after); got != strings.Join(want, "\n") {
		s.t.Errorf("versions behind %d:\n%s\nwant:\n%s", after, got, strings.Join(want, "\n"))
	}
}

func TestKept(t *testing.T) {
	s := newShelf(t)
	last := func(want int64) {
		t.Helper()
		if id, err := lost.Last(t.Context(), s.forest); id != want || err != nil {
			t.Errorf("the last one is %d, %v, not %d", id, err, want)
		}
	}
	last(0)
	s.want(0)
	// To look makes nothing.
	if _, err := s.forest.Find(t.Context(), lost.Tree); !errors.Is(err, iofs.ErrNotExist) {
		t.Error(err)
	}
	if a, b := s.keep("/workspace/a", "one"), s.keep("/workspace/a", "two"); a != 1 || b != 2 {
		t.Errorf("the numbers are %d and %d", a, b)
	}
	one, two := `1 /workspace/a overtaken 640 "one"`, `2 /workspace/a overtaken 640 "two"`
	s.want(0, one, two)
	s.want(1, two)
	if _, err := s.tree.Update(t.Context(), func(e *tree.Edit) error { return lost.Drop(e, 2) }); err != nil {
		t.Fatal(err)
	}
	s.want(0, one)
	if _, err := lost.Get(t.Context(), s.forest, 2); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a version that was dropped: %v", err)
	}
	last(2)
	if id := s.keep("/workspace/b", "three"); id != 3 {
		t.Errorf("the number of one that was dropped is given again: %d", id)
	}
	last(3)
}

// An edit that fails keeps nothing, of either tree.
func TestKeptWithTheEdit(t *testing.T) {
	s := newShelf(t)
	broken := errors.New("broken")
	v := lost.Version{Path: "/workspace/l", At: s.now, Why: lost.Conflict, By: "ff", Entry: tree.Entry{Kind: tree.KindSymlink, Target: "to", MTime: s.now}}
	_, err := s.tree.Update(t.Context(), func(e *tree.Edit) error {
		if err := lost.Keep(e, &v); err != nil {
			return err
		}
		return broken
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	s.want(0)
	if _, err := s.tree.Update(t.Context(), func(e *tree.Edit) error { return lost.Keep(e, &v) }); err != nil {
		t.Fatal(err)
	}
	got, err := lost.Get(t.Context(), s.forest, v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Entry.Target != "to" || got.By != "ff" || got.Why != lost.Conflict || !got.At.Equal(s.now) {
		t.Errorf("got %+v", got)
	}
	dir := lost.Version{Path: "/workspace/d", Entry: tree.Entry{Kind: tree.KindDir}}
	if _, err := s.tree.Update(t.Context(), func(e *tree.Edit) error { return lost.Keep(e, &dir) }); !errors.Is(err, tree.ErrInvalid) {
		t.Errorf("a directory is kept: %v", err)
	}
}

// The content of what is kept is not collected; that of what is forgotten is.
func TestTrim(t *testing.T) {
	s := newShelf(t)
	s.keep("/workspace/a", "oldest")
	s.now = s.now.Add(24 * time.Hour)
	s.keep("/workspace/b", "older")
	s.keep("/workspace/c", "newest")
	collect := func() int64 {
		t.Helper()
		c, err := s.forest.Collect(context.WithoutCancel(t.Context()), tree.Policy{Grace: -1})
		if err != nil {
			t.Fatal(err)
		}
		return c.Chunks
	}
	s.now = s.now.Add(24 * time.Hour)
	if n := collect(); n != 0 {
		t.Fatalf("%d chunks of what is kept were collected", n)
	}
	trim := func(b lost.Bounds, want lost.Trimmed) {
		t.Helper()
		got, err := lost.Trim(t.Context(), s.forest, b, s.now)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("trim to %+v: %v (-want +got):\n%s", b, err, diff)
		}
	}
	trim(lost.Bounds{}, lost.Trimmed{})
	trim(lost.Bounds{Age: 36 * time.Hour}, lost.Trimmed{Versions: 1, Bytes: 6})
	s.want(0, `2 /workspace/b overtaken 640 "older"`, `3 /workspace/c overtaken 640 "newest"`)
	trim(lost.Bounds{Age: -1, Bytes: 10}, lost.Trimmed{Versions: 1, Bytes: 5, TooLarge: 1, Names: []string{"/workspace/b"}})
	s.want(0, `3 /workspace/c overtaken 640 "newest"`)
	if n := collect(); n != 2 {
		t.Errorf("%d chunks were collected, want 2", n)
	}
}

// However large it is, a version is there for a while after it was lost.
func TestTrimLeavesTheYoung(t *testing.T) {
	s := newShelf(t)
	trim := func(want lost.Trimmed) {
		t.Helper()
		got, err := lost.Trim(t.Context(), s.forest, lost.Bounds{Bytes: 1}, s.now)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	s.keep("/workspace/a", "older")
	s.now = s.now.Add(time.Minute)
	s.keep("/workspace/b", "newest")
	trim(lost.Trimmed{})
	s.now = s.now.Add(lost.Young - time.Minute)
	trim(lost.Trimmed{Versions: 1, Bytes: 5, TooLarge: 1, Names: []string{"/workspace/a"}})
	s.want(0, `2 /workspace/b overtaken 640 "newest"`)
	s.now = s.now.Add(-lost.Young) // the clock was set back
	trim(lost.Trimmed{})
	s.now = s.now.Add(-time.Hour)
	trim(lost.Trimmed{Versions: 1, Bytes: 6, TooLarge: 1, Names: []string{"/workspace/b"}})
	for i := range 7 {
		s.keep(fmt.Sprintf("/workspace/%d", i), "more")
	}
	s.now = s.now.Add(lost.Young)
	names := []string{"/workspace/0", "/workspace/1", "/workspace/2", "/workspace/3", "/workspace/4"}
	trim(lost.Trimmed{Versions: 7, Bytes: 28, TooLarge: 7, Names: names})
}
