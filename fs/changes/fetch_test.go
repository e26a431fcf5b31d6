package changes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

func TestFetchChanges(t *testing.T) {
	e := newEnd(t)
	e.mustPush(7)
	e.do("write /a 1\nwrite /b 2\nrm /b\nwrite /c 3")
	through, beyond := tree.At(3), tree.At(99)
	for name, tt := range map[string]struct {
		q       changes.FetchQuery
		current tree.Cursor
		want    string
	}{
		"all":         {changes.FetchQuery{}, tree.At(5), "file /a, delete /b, file /c"},
		"later":       {changes.FetchQuery{After: tree.At(2)}, tree.At(5), "delete /b, file /c"},
		"a window":    {changes.FetchQuery{Through: &through}, tree.At(3), "file /a"},
		"up to later": {changes.FetchQuery{After: tree.AtPath(4, "/b"), Through: &beyond}, tree.At(5), "file /c"},
		"nothing":     {changes.FetchQuery{After: tree.At(5)}, tree.At(5), ""},
		"too late":    {changes.FetchQuery{After: tree.At(9)}, tree.At(5), ""},
		"empty path":  {changes.FetchQuery{After: tree.AtPath(4, "")}, tree.At(5), "delete /b, file /c"},
	} {
		f, err := e.FetchChanges(t.Context(), tt.q)
		if err != nil {
			t.Fatal(err)
		}
		list, err := changes.Collect(t.Context(), f.Entries)
		if err != nil || f.Current != tt.current || f.AppliedPush != tree.At(7) || brief(list) != tt.want {
			t.Errorf("%s: %v, %v, %s, %v", name, f.Current, f.AppliedPush, brief(list), err)
		}
	}
}

func TestFetchChangesBadQueries(t *testing.T) {
	e := newEnd(t)
	high := tree.At(1 << 53)
	for name, tt := range map[string]struct {
		q    changes.FetchQuery
		code string
	}{
		"revision":         {changes.FetchQuery{After: tree.At(-1)}, "EINVAL"},
		"through":          {changes.FetchQuery{Through: &high}, "EINVAL"},
		"path":             {changes.FetchQuery{After: tree.AtPath(1, "/\xff")}, "EINVAL"},
		"too many ignored": {changes.FetchQuery{Ignore: make([]string, changes.MaxIgnored+1)}, "EPROTOCOL"},
	} {
		if _, err := e.FetchChanges(t.Context(), tt.q); changes.Code(err) != tt.code {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.FetchChangePack(t.Context(), changes.PackQuery{FetchQuery: tt.q}); changes.Code(err) != tt.code {
			t.Errorf("%s, as a pack: %v", name, err)
		}
	}
}

// Within one revision of many paths a reader can stop anywhere, and go on there.
func TestResumeWithinARevision(t *testing.T) {
	e := newEnd(t)
	e.mustPush(1) // there is a peer
	for i := range 300 {
		e.do(fmt.Sprintf("write /d/%d/%d x%d", i%7, i, i))
	}
	was := e.marks().CurrentRev
	e.do("mv /d /e")
	var got []tree.Entry
	for at := tree.At(was); ; {
		f, err := e.FetchChanges(t.Context(), changes.FetchQuery{After: at})
		if err != nil {
			t.Fatal(err)
		}
		var n int
		for n < 37 {
			entry, err := f.Entries.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, entry)
			n++
		}
		f.Entries.Close(nil)
		if n == 0 {
			break
		}
		at = changes.After(&got[len(got)-1])
	}
	if diff := cmp.Diff(e.since(tree.At(was)), got); diff != "" || len(got) != 2*308 {
		t.Errorf("%d entries\n%s", len(got), diff)
	}
	// The order is that of UTF-16.
	if !slices.IsSortedFunc(got, func(a, b tree.Entry) int { return changes.After(&a).Compare(changes.After(&b)) }) {
		t.Error("not in the order of cursors")
	}
}

func TestOrderAcrossPlanes(t *testing.T) {
	e := newEnd(t)
	e.mustPush(1)
	e.do("write /d/\U0001F600 1\nwrite /d/\uFF5E 2\nwrite /d/\uD7FF 3\nwrite /d/\uE000 4")
	was := tree.At(e.marks().CurrentRev)
	e.do("mv /d /e")
	want := "delete /d, delete /d/\uD7FF, delete /d/\U0001F600, delete /d/\uE000, delete /d/\uFF5E, " +
		"dir /e, file /e/\uD7FF, file /e/\U0001F600, file /e/\uE000, file /e/\uFF5E"
	if got := brief(e.since(was)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := brief(e.since(tree.AtPath(was.Rev+1, "/e/\U0001F600"))); got != "file /e/\uE000, file /e/\uFF5E" {
		t.Error(got)
	}
}

// A path that is written while a stream is open comes with the next one.
func TestRewrittenWhileOpen(t *testing.T) {
	e := newEnd(t)
	for i := range 600 {
		e.do(fmt.Sprintf("write /%03d a", i))
	}
	f, err := e.FetchChanges(t.Context(), changes.FetchQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Entries.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.do("write /599 b\nrm /598\nwrite /new c")
	rest, err := changes.Collect(t.Context(), f.Entries)
	if err != nil || len(rest) != 597 {
		t.Errorf("%d entries, %v", len(rest), err)
	}
	if got := brief(e.since(f.Current)); got != "file /599, delete /598, file /new" {
		t.Error(got)
	}
}

// unsettled is a workspace that cannot be settled.
type unsettled struct {
	changes.Workspace
	err error
}

func (u *unsettled) Settle(context.Context) error { return u.err }

func TestSettle(t *testing.T) {
	store := tree.NewMemory()
	e := endOn(t, store, changes.Config{})
	var log strings.Builder
	u := &unsettled{changes.Plain(e.forest, e.tree), io.ErrUnexpectedEOF}
	s := changes.New(changes.Config{Workspace: u, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := s.Watermarks(t.Context(), true); !errors.Is(err, u.err) {
		t.Error(err)
	}
	if w, err := s.Watermarks(t.Context(), false); err != nil || w.CurrentRev != 1 {
		t.Error(w, err)
	}
	e.do("write /f x")
	f, err := s.FetchChanges(t.Context(), changes.FetchQuery{})
	if err != nil || !strings.Contains(log.String(), "not settled") {
		t.Fatal(err, log.String())
	}
	if list, err := changes.Collect(t.Context(), f.Entries); err != nil || brief(list) != "file /f" {
		t.Error(brief(list), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.FetchChanges(ctx, changes.FetchQuery{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReadEntry(t *testing.T) {
	e := newEnd(t)
	e.mustPush(1)
	e.do("write /d/f x\nlink /l d\nlink /d/l f\nwrite /gone y\nrm /gone")
	for path, want := range map[string]string{
		"/": "dir /", "/d": "dir /d", "/d/f": "file /d/f", "/l": "symlink /l", "/d/l": "symlink /d/l", "/gone": "delete /gone",
		"/l/f": "", "/never": "", "/d/f/x": "", "//d/": "dir /d", "/d/./f": "file /d/f", "/d/../d/f/": "file /d/f",
	} {
		got, err := e.ReadEntry(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		text := ""
		if got != nil {
			text = brief([]tree.Entry{*got})
		}
		if text != want {
			t.Errorf("%s: %q, want %q", path, text, want)
		}
	}
	for _, path := range []string{"", "d", "./d", "../d", "/..", "/d/../../etc", "/a\x00", "/\xff", "/" + strings.Repeat("x", 256), strings.Repeat("/x", 2049)} {
		if got, err := e.ReadEntry(t.Context(), path); got != nil || changes.Code(err) != "EINVAL" || changes.Path(err) == "" && path != "" {
			t.Errorf("%.20q: %v, %v", path, got, err)
		}
	}
}

// Watermarks wait for no change that is under way. (A memory store has one lock for all;
// TestWatermarksBesideAPush of a database is in sqlite_test.go.)
func TestWatermarksDoNotChange(t *testing.T) {
	e := newEnd(t)
	first := e.marks()
	if first != (marks{CurrentRev: 1}) {
		t.Errorf("%+v", first)
	}
	for range 3 {
		if again := e.marks(); again != first {
			t.Errorf("%+v", again)
		}
	}
	// The first call has noted that there is a peer: directories that move leave tombs.
	e.do("write /d/x 1\nmv /d /e")
	if got := brief(e.since(tree.At(2))); got != "delete /d, delete /d/x, dir /e, file /e/x" {
		t.Error(got)
	}
}
