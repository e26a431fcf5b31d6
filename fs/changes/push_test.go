package changes_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

func TestPush(t *testing.T) {
	e := newEnd(t)
	e.keep("alpha")
	got := e.mustPush(9, dirEntry(7, "/d", 0o700), fileEntry(8, "/d/a", 0o755, "alpha"), linkEntry(9, "/l", "d/a"))
	want := changes.PushResult{Rev: 4, Before: 1, Applied: 3, AppliedPushCursor: tree.At(9)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if e.paths() != "/d /d/a /l" || e.text("/l") != "alpha" || e.all()["/d"] != "dir 700" {
		t.Error(e.all())
	}
	if diff := cmp.Diff(marks{CurrentRev: 4, Fetch: tree.At(9)}, e.marks()); diff != "" {
		t.Error(diff)
	}
	// The same again changes nothing and is acknowledged.
	got = e.mustPush(9, dirEntry(7, "/d", 0o700), fileEntry(8, "/d/a", 0o755, "alpha"), linkEntry(9, "/l", "d/a"))
	if want.Before = 4; !reflect.DeepEqual(got, want) {
		t.Errorf("again: %+v, want %+v", got, want)
	}
	// An older cursor is answered as it was sent, and the stored one stays.
	if got := e.mustPush(5); got.AppliedPushCursor != tree.At(5) || e.marks().Fetch != tree.At(9) {
		t.Errorf("%+v, %+v", got, e.marks())
	}
	at := tree.AtPath(12, "/x")
	got, err := e.Push(t.Context(), changes.PushInput{SenderRev: 20, Cursor: &at}, changes.FromSlice[tree.Entry](nil))
	if err != nil || got.AppliedPushCursor != at || got.Rev != 4 || got.Applied != 0 || e.marks().Fetch != at {
		t.Errorf("%+v, %v, %+v", got, err, e.marks())
	}
}

// Somebody without a revision is no peer: what he sends is news, whatever was there.
func TestPushOfNobody(t *testing.T) {
	e := newEnd(t)
	e.keep("x")
	e.mustPush(3, fileEntry(3, "/f", 0o644, "x"))
	got := e.mustPush(0, fileEntry(8, "/f", 0o644, "x"))
	if want := (changes.PushResult{Rev: 3, Before: 2, Applied: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := brief(e.since(tree.At(2))); got != "file /f" || e.marks().Fetch != tree.At(3) {
		t.Error(got, e.marks())
	}
	if got := e.mustPush(0); !reflect.DeepEqual(got, changes.PushResult{Rev: 3, Before: 3}) {
		t.Errorf("%+v", got)
	}
	// A cursor makes a peer as well.
	at := tree.AtPath(4, "/f")
	got, err := e.Push(t.Context(), changes.PushInput{Cursor: &at}, changes.FromSlice([]tree.Entry{fileEntry(4, "/f", 0o644, "x")}))
	if err != nil || got.Rev != 3 || got.AppliedPushCursor != at {
		t.Errorf("%+v, %v", got, err)
	}
}

// What fails leaves the tree and the cursor as they were.
func TestPushAllOrNothing(t *testing.T) {
	known, unknown := fileEntry(6, "/ok", 0o644, "known"), fileEntry(7, "/bad", 0o644, "unknown")
	lying := fileEntry(7, "/bad", 0o644, "known")
	lying.Parts[0].Size, lying.Size = 4, 4
	wrongSum := fileEntry(7, "/bad", 0o644, "known")
	wrongSum.Size = 6
	short := fileEntry(7, "/bad", 0o644, strings.Repeat("k", tree.ChunkSize)+"known")
	short.Parts[0], short.Parts[1] = short.Parts[1], short.Parts[0]
	for name, tt := range map[string]struct {
		bad              tree.Entry
		code, path, text string
	}{
		"unknown hash":       {unknown, "EUNKNOWN_HASH", "/bad", unknown.Parts[0].Hash.String()},
		"size of a chunk":    {lying, "EINVAL", "/bad", "5 bytes, not 4"},
		"size of the file":   {wrongSum, "EINVAL", "/bad", "5 bytes, the file 6"},
		"short first chunk":  {short, "EINVAL", "/bad", "chunk 0 of 2"},
		"path escape":        {gone(7, "/a/../../etc"), "EINVAL", "/a/../../etc", "canonical"},
		"relative path":      {gone(7, "a"), "EINVAL", "a", "canonical"},
		"long name":          {gone(7, "/"+strings.Repeat("n", 256)), "EINVAL", "/" + strings.Repeat("n", 255) + "…", "255"},
		"NUL":                {gone(7, "/a\x00"), "EINVAL", "/a\x00", "canonical"},
		"no kind":            {tree.Entry{Path: "/a"}, "EINVAL", "/a", "kind"},
		"blank link":         {linkEntry(7, "/l", " "), "EINVAL", "/l", "target"},
		"long link":          {linkEntry(7, "/l", strings.Repeat("t", 4097)), "EINVAL", "/l", "4096"},
		"revision":           {gone(1<<53, "/a"), "EINVAL", "/a", "revision"},
		"negative revision":  {gone(-1, "/a"), "EINVAL", "/a", "revision"},
		"prior":              {tree.Entry{Kind: tree.KindDelete, Path: "/a", Prior: "x"}, "EINVAL", "/a", "prior"},
		"the root, as file":  {fileEntry(7, "/", 0o644, ""), "EPERM", "/", ""},
		"the root, as a gap": {gone(7, "/"), "EPERM", "/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.keep("known", strings.Repeat("k", tree.ChunkSize))
			e.mustPush(5, dirEntry(5, "/d", 0o755))
			was := e.marks()
			_, err := e.push(7, known, tt.bad)
			if changes.Code(err) != tt.code || changes.Path(err) != tt.path || changes.Name(err) != "WorkspaceFsError" || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s, %q: %v", changes.Code(err), changes.Path(err), err)
			}
			if e.paths() != "/d" || e.marks() != was {
				t.Errorf("%s, %+v", e.paths(), e.marks())
			}
			e.mustPush(7, known)
			if e.paths() != "/d /ok" || e.marks().Fetch != tree.At(7) {
				t.Errorf("repaired: %s, %+v", e.paths(), e.marks())
			}
		})
	}
}

func TestPushBadCursors(t *testing.T) {
	e := newEnd(t)
	long, high := tree.AtPath(1, strings.Repeat("x", 5000)), tree.At(1<<53)
	for _, in := range []changes.PushInput{{SenderRev: -1}, {SenderRev: 1 << 53}, {SenderRev: 1, Cursor: &long}, {SenderRev: 1, Cursor: &high}} {
		if _, err := e.Push(t.Context(), in, changes.FromSlice[tree.Entry](nil)); changes.Code(err) != "EINVAL" {
			t.Errorf("%+v: %v", in, err)
		}
	}
}

// A stream that breaks off rejects with its own error, and nothing is applied.
func TestPushBrokenStream(t *testing.T) {
	e := newEnd(t)
	var closed error
	s := failing(errCut, dirEntry(1, "/d", 0o755))
	s = changes.FromFunc(s.Next, func(err error) { closed = err })
	_, err := e.Push(t.Context(), changes.PushInput{SenderRev: 4}, s)
	if !errors.Is(err, errCut) || !errors.Is(closed, errCut) || e.paths() != "" || e.marks() != (marks{CurrentRev: 1}) {
		t.Errorf("%v, %v, %s, %+v", err, closed, e.paths(), e.marks())
	}
}

// A sender that is slow, or does not go on, holds up nobody else.
func TestPushDoesNotWaitForAnother(t *testing.T) {
	e := newEnd(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun, done := make(chan struct{}), make(chan error)
	slow := changes.FromFunc(func(ctx context.Context) (tree.Entry, error) {
		close(begun)
		<-ctx.Done()
		return tree.Entry{}, context.Cause(ctx)
	}, nil)
	go func() {
		_, err := e.Push(ctx, changes.PushInput{SenderRev: 3}, slow)
		done <- err
	}()
	<-begun
	e.mustPush(4, dirEntry(4, "/d", 0o755))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || e.marks().Fetch != tree.At(4) {
		t.Error(err, e.marks())
	}
}

// One path becomes everything, in one batch and in one each.
func TestPushKindsAtOnePath(t *testing.T) {
	steps := []tree.Entry{fileEntry(1, "/p", 0o644, "x"), dirEntry(2, "/p", 0o700), fileEntry(3, "/p/in", 0o644, "x"), linkEntry(4, "/p", "q"), fileEntry(5, "/p", 0o600, "x")}
	together, single := newEnd(t), newEnd(t)
	together.keep("x")
	single.keep("x")
	together.mustPush(5, steps...)
	for _, s := range steps {
		single.mustPush(s.Rev, s)
		if got := single.since(tree.AtPath(single.marks().CurrentRev, ""))[0]; got.Kind != s.Kind || got.Path != s.Path {
			t.Errorf("%s %s was pushed, and is %s %s", s.Kind, s.Path, got.Kind, got.Path)
		}
	}
	for _, e := range []*end{together, single} {
		if e.paths() != "/p" || e.text("/p") != "x" || e.marks().Fetch != tree.At(5) {
			t.Error(e.all(), e.marks())
		}
		// Other peers may have what was in the directory.
		if got := brief(e.since(tree.At(1))); got != "delete /p/in, file /p" {
			t.Error(got)
		}
	}
	// Entries without a peer are applied in the same way.
	e := newEnd(t)
	e.keep("x")
	e.mustPush(1, fileEntry(1, "/d/in", 0o644, "x"))
	e.mustPush(0, fileEntry(0, "/d", 0o644, "x"))
	if got := brief(e.since(tree.At(2))); got != "delete /d/in, file /d" {
		t.Error(got)
	}
}

func TestPushChunkSizes(t *testing.T) {
	for _, n := range []int{0, 1, tree.ChunkSize - 1, tree.ChunkSize, tree.ChunkSize + 1, 3 * tree.ChunkSize} {
		e := newEnd(t)
		content := strings.Repeat("c", n)
		e.keep(content)
		want := fileEntry(5, "/f", 0o644, content)
		e.mustPush(5, want)
		got, err := e.ReadEntry(t.Context(), "/f")
		if err != nil || got == nil {
			t.Fatal(got, err)
		}
		want.Rev = got.Rev // that is ours
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("%d bytes:\n%s", n, diff)
		}
	}
}
