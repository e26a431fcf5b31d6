package changes_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// counted is n entries that are made as they are read.
func counted(n int) changes.Stream[tree.Entry] {
	i := 0
	return changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if i == n {
			return tree.Entry{}, errCut
		}
		i++
		return gone(int64(i), fmt.Sprintf("/some/path/of/%d", i)), nil
	}, nil)
}

// A stream of entries that never ends is given up at the cap, in little memory, and
// leaves nothing behind.
func TestEndlessEntries(t *testing.T) {
	dir := t.TempDir()
	e := endOn(t, tree.NewMemory(), changes.Config{SpoolDir: dir, MaxSpooledBytes: 32 << 20})
	before := heap()
	_, err := e.Push(t.Context(), changes.PushInput{SenderRev: 5}, counted(1<<40))
	if changes.Code(err) != "EPROTOCOL" || !strings.Contains(err.Error(), "8388608") {
		t.Error(err)
	}
	if grown := heap() - before; grown > 6<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if e.marks() != (marks{CurrentRev: 1}) {
		t.Error(e.marks())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
	// The room is given back.
	for range 3 {
		e.mustPush(9, gone(8, "/x"))
		if _, err := e.Push(t.Context(), changes.PushInput{SenderRev: 5}, counted(100_000)); changes.Code(err) != "" {
			t.Error(err)
		}
	}
}

// A push that has taken all its room and does not go on leaves room for others.
func TestStalledPushLeavesRoom(t *testing.T) {
	e := endOn(t, tree.NewMemory(), changes.Config{SpoolDir: t.TempDir(), MaxSpooledBytes: 4 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	stalled, done := make(chan struct{}), make(chan error)
	many := counted(10_000)
	push := func() {
		_, err := e.Push(ctx, changes.PushInput{SenderRev: 5}, changes.FromFunc(func(ctx context.Context) (tree.Entry, error) {
			entry, err := many.Next(ctx)
			if !errors.Is(err, errCut) {
				return entry, err
			}
			close(stalled)
			<-ctx.Done()
			return entry, context.Cause(ctx)
		}, nil))
		done <- err
	}
	go push()
	<-stalled
	if _, err := e.Push(t.Context(), changes.PushInput{SenderRev: 5}, counted(10_000)); !errors.Is(err, errCut) {
		t.Error(err) // and not EPROTOCOL
	}
	e.mustPush(9, dirEntry(8, "/x", 0o755))
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What goes through the file comes out as it went in.
func TestSpooledEntries(t *testing.T) {
	e := endOn(t, tree.NewMemory(), changes.Config{SpoolDir: t.TempDir()})
	const n = 30_000
	i := 0
	entries := changes.FromFunc(func(context.Context) (tree.Entry, error) {
		if i++; i > n {
			return tree.Entry{}, io.EOF
		}
		return dirEntry(int64(i), fmt.Sprintf("/%d/%d", i/1000, i), 0o700), nil
	}, nil)
	out, err := e.Push(t.Context(), changes.PushInput{SenderRev: n}, entries)
	if err != nil || out.Applied != n {
		t.Fatal(out, err)
	}
	info, err := e.tree.Info(t.Context())
	if err != nil || info.Dirs != n+31+1 {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := changes.New(changes.Config{Workspace: changes.Plain(e.forest, e.tree), SpoolDir: t.TempDir() + "/none"}).
		Push(t.Context(), changes.PushInput{}, counted(100_000)); err == nil || !strings.Contains(err.Error(), "spool entries") {
		t.Error(err)
	}
}

// drawEntry is any entry that CheckEntry lets pass.
var drawEntry = rapid.Custom(func(t *rapid.T) tree.Entry {
	e := tree.Entry{
		Kind: rapid.SampledFrom([]tree.Kind{tree.KindFile, tree.KindDir, tree.KindSymlink, tree.KindDelete}).Draw(t, "kind"),
		Rev:  rapid.Int64Range(0, tree.MaxRev).Draw(t, "rev"),
		Path: "/" + rapid.StringMatching(`[a-z\x{10000}\n" ]{1,20}(/[^/.\x00]{1,9}){0,3}`).Draw(t, "path"),
	}
	if e.Kind == tree.KindDelete {
		if rapid.Bool().Draw(t, "with prior") {
			e.Prior = tree.Sum([]byte(e.Path)).String()
		}
		if rapid.Bool().Draw(t, "renamed") {
			e.RenamedTo = "/to" + e.Path
		}
		return e
	}
	e.Mode = rapid.Uint32Range(0, 0o7777).Draw(t, "mode")
	e.MTime = time.UnixMilli(rapid.Int64Range(-1<<50, 1<<50).Draw(t, "mtime"))
	switch e.Kind {
	case tree.KindSymlink:
		e.Target = rapid.StringMatching(`[^ \x00]{1,30}`).Filter(func(s string) bool { return strings.TrimSpace(s) != "" }).Draw(t, "target")
	case tree.KindFile:
		n := rapid.IntRange(0, 3).Draw(t, "chunks")
		for i := range n {
			p := tree.Part{Hash: tree.Sum([]byte{byte(i)}), Size: tree.ChunkSize}
			if i == n-1 {
				p.Size = rapid.Int64Range(1, tree.ChunkSize).Draw(t, "size")
			}
			e.Size += p.Size
			e.Parts = append(e.Parts, p)
		}
	default:
	}
	return e
})

// applied records what comes to be applied.
type applied struct {
	changes.Workspace
	got []tree.Entry
}

func (a *applied) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], _ tree.ApplyMode, _ func(*tree.Edit) error) (changes.Applied, error) {
	_, err := a.Tree().Update(ctx, func(e *tree.Edit) error {
		a.got = nil
		for entry, err := range entries(e) {
			if err != nil {
				return err
			}
			a.got = append(a.got, entry)
		}
		return nil
	})
	return changes.Applied{}, err
}

func TestSpoolRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		want := rapid.SliceOfN(drawEntry, 1, 20).Draw(rt, "entries")
		if rapid.IntRange(0, 9).Draw(rt, "through the file") == 0 {
			for range 300 {
				want = append(want, gone(1, strings.Repeat("/0123456789abcdef", 240)))
			}
			want = append(want, want[0])
		}
		e := newEnd(t)
		a := &applied{Workspace: changes.Plain(e.forest, e.tree)}
		s := changes.New(changes.Config{Workspace: a, SpoolDir: dir})
		if _, err := s.Push(t.Context(), changes.PushInput{}, changes.FromSlice(want)); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, a.got); diff != "" {
			rt.Error(diff)
		}
	})
}
