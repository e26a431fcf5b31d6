package changes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// database opens a new database, which is closed when the test ends.
func database(t testing.TB) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Check(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return db
}

// TestModelSQLite is TestModel with the server's store in a database.
func TestModelSQLite(t *testing.T) {
	n := "40"
	if raceEnabled {
		n = "6"
	}
	withChecks(t, n)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlan.Draw(rt, "plan")
		t.Run("plan", func(t *testing.T) {
			if err := play(t, p, func() tree.Store { return database(t).Tree() }); err != nil {
				t.Fatalf("%v\n%s, blocks of %d\n%v", err, p.Style, p.Block, p.Steps)
			}
		})
		if t.Failed() {
			rt.Fatal("see above")
		}
	})
}

// held is a workspace whose updates last until they are let go.
type held struct {
	changes.Workspace
	begun, end chan struct{}
}

func (h *held) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	return h.Workspace.Apply(ctx, entries, how, func(e *tree.Edit) error {
		close(h.begun)
		<-h.end
		return also(e)
	})
}

// While a push is applied, watermarks and streams are answered, with what was before.
func TestWatermarksBesideAPush(t *testing.T) {
	db := database(t)
	e := endOn(t, db.Tree(), changes.Config{})
	h := &held{changes.Plain(e.forest, e.tree), make(chan struct{}), make(chan struct{})}
	s := changes.New(changes.Config{Workspace: h})
	e.keep("x")
	e.mustPush(2, dirEntry(1, "/d", 0o755))
	was := e.marks()
	done := make(chan error)
	go func() {
		_, err := s.Push(context.Background(), changes.PushInput{SenderRev: 9}, changes.FromSlice([]tree.Entry{fileEntry(3, "/f", 0o644, "x")}))
		done <- err
	}()
	<-h.begun
	if w, err := s.Watermarks(t.Context(), true); err != nil || w.CurrentRev != was.CurrentRev || w.Fetch != was.Fetch {
		t.Errorf("%+v, %v; want %+v", w, err, was)
	}
	f, err := s.FetchChanges(t.Context(), changes.FetchQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if list, err := changes.Collect(t.Context(), f.Entries); err != nil || brief(list) != "dir /d" || f.AppliedPush != tree.At(2) {
		t.Error(brief(list), err)
	}
	if got, err := s.ReadEntry(t.Context(), "/f"); got != nil || err != nil {
		t.Error(got, err)
	}
	if got, err := s.HasObjects(t.Context(), []tree.Hash{object("x").Hash}); err != nil || len(got) != 1 {
		t.Error(got, err)
	}
	close(h.end)
	if err := <-done; err != nil || e.marks().Fetch != tree.At(9) {
		t.Error(err, e.marks())
	}
}

// Two sessions push at once: each is applied as a whole, and the cursor is the greatest.
func TestPushesAtOnce(t *testing.T) {
	e := endOn(t, database(t).Tree(), changes.Config{})
	e.keep("x")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := range 5 {
				rev := int64(10*k + i + 1)
				var list []tree.Entry
				for n := range 20 {
					f := fileEntry(rev, fmt.Sprintf("/shared/%d", n), 0o600+uint32(i), "x")
					list = append(list, f)
				}
				if out, err := e.push(rev, list...); err != nil || out.Rev-out.Before > 21 {
					t.Errorf("%+v, %v", out, err)
				}
			}
		})
	}
	all.Wait()
	modes := map[string]bool{}
	for _, entry := range e.since(tree.Cursor{}) {
		if entry.Kind == tree.KindFile {
			modes[fmt.Sprintf("%o", entry.Mode)] = true
		}
	}
	if len(modes) != 1 || e.marks().Fetch != tree.At(48) {
		t.Errorf("the files are of %v; %+v", modes, e.marks())
	}
}

// A baseline of 100,000 entries in bounded memory: pushed through the spool, fetched as a
// stream, and as a pack whose content is never together.
func TestBaseline(t *testing.T) {
	n := 100_000
	if raceEnabled {
		n = 5_000
	}
	e := endOn(t, tree.NewMemory(), changes.Config{SpoolDir: t.TempDir()})
	e.keep("x")
	i := 0
	entries := changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if i++; i > n {
			return tree.Entry{}, io.EOF
		}
		return fileEntry(int64(i), fmt.Sprintf("/dir%d/file%d", i%100, i), 0o644, "x"), nil
	}, nil)
	if out, err := e.Push(t.Context(), changes.PushInput{SenderRev: int64(n)}, entries); err != nil || out.Applied != n {
		t.Fatal(out, err)
	}
	base, peak := heap(), int64(0)
	f, err := e.FetchChanges(t.Context(), changes.FetchQuery{})
	if err != nil {
		t.Fatal(err)
	}
	peak = max(peak, heap()-base)
	count := 0
	for _, err := range changes.All(t.Context(), f.Entries) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count%20_000 == 0 {
			peak = max(peak, heap()-base)
		}
	}
	if count != n+100 {
		t.Errorf("%d entries", count)
	}
	p, err := e.FetchChangePack(t.Context(), changes.PackQuery{MaxEntries: 1 << 30, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if p.Entries != min(count, changes.MaxPackEntries) {
		t.Errorf("%d entries in the pack", p.Entries)
	}
	peak = max(peak, heap()-base)
	for _, err := range changes.All(t.Context(), p.Pieces) {
		if err != nil {
			t.Fatal(err)
		}
		peak = max(peak, heap()-base)
	}
	if t.Logf("the heap grew by %d KiB", peak>>10); peak > 64<<20 {
		t.Errorf("the heap grew by %d bytes", peak)
	}
}

// A peer that opens streams and reads none of them holds nobody up: no view of the store
// is open between two reads.
func TestPeerThatNeverReads(t *testing.T) {
	e := endOn(t, database(t).Tree(), changes.Config{SpoolDir: t.TempDir()})
	for i := range 20 {
		e.do(fmt.Sprintf("write /%d x%d", i, i))
	}
	for range 50 {
		f, err := e.FetchChanges(t.Context(), changes.FetchQuery{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Entries.Close(nil)
		o, err := e.FetchObjects(t.Context(), []tree.Hash{object("x1").Hash})
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close(nil)
		p, err := e.FetchChangePack(t.Context(), packQuery(100, 1000))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Pieces.Close(nil)
	}
	e.keep("x")
	e.mustPush(5, fileEntry(5, "/new", 0o644, "x"))
	e.do("write /1 y")
	if got := brief(e.since(tree.At(21))); got != "file /new, file /1" {
		t.Error(got)
	}
	if _, err := e.forest.Collect(t.Context(), tree.Policy{}); err != nil {
		t.Error(err)
	}
}
