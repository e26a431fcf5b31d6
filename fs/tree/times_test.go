package tree_test

import (
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
)

func TestSameTime(t *testing.T) {
	at := time.Unix(1_577_836_800, 123_456_789)
	for _, c := range []struct {
		a, b time.Time
		same bool
	}{
		{at, at, true},
		{at, at.Truncate(time.Millisecond), true},
		{at.Truncate(time.Millisecond), at, true},
		{at, at.Add(1), false},
		{at, at.Truncate(time.Microsecond), false},
		{at, at.Truncate(time.Second), false},
		{time.Unix(-5, 999_999_999), time.Unix(-5, 999_000_000), true},
		{time.Unix(-5, 999_999_999), time.Unix(-4, 0), false},
	} {
		if got := tree.SameTime(c.a, c.b); got != c.same {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}

// C-071: a file that is the same but for its time gets the time of an entry if that is asked
// for, with one revision, and one that is the same gets none.
func TestC071SetTimes(t *testing.T) {
	ctx := t.Context()
	forest := tree.New(tree.NewMemory(), tree.Config{FirstRev: 1})
	tr, err := forest.Tree(ctx, tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	was := time.Unix(1_577_836_800, 123_456_789)
	if _, err := tr.WriteFile(ctx, "/f", strings.NewReader("x"), tree.File{MTime: was}); err != nil {
		t.Fatal(err)
	}
	entry, err := tr.Entry(ctx, "/f")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mtime   time.Time
		how     tree.ApplyMode
		changed bool
	}{
		{was.Add(time.Hour), tree.SkipSame, false},
		{was, tree.SkipSame | tree.SetTimes, false},
		{was.Truncate(time.Millisecond), tree.SkipSame | tree.SetTimes, false},
		{was.Add(time.Hour), tree.SkipSame | tree.SetTimes, true},
	} {
		entry.MTime = c.mtime
		changed := false
		rev, err := tr.Update(ctx, func(e *tree.Edit) (err error) {
			changed, err = e.Apply(&entry, c.how)
			return err
		})
		info, err2 := tr.Lstat(ctx, "/f")
		want := was
		if c.changed {
			want = c.mtime
		}
		if err != nil || err2 != nil || changed != c.changed || !info.MTime.Equal(want) || changed && info.Rev != rev {
			t.Errorf("%v, %b: changed %v at %d, %+v, %v, %v", c.mtime, c.how, changed, rev, info, err, err2)
		}
	}
}
