package changes_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
)

// An answer names what fits into it, and counts the rest.
func TestSkippedIsBounded(t *testing.T) {
	long := strings.Repeat("n", 4000)
	in := []changes.Skipped{{Why: changes.Special, Count: 500}, {Why: changes.Unwritten, Count: 1, Paths: []changes.SkippedPath{{Path: "/f", Error: "e"}}}}
	for range 100 {
		in[0].Paths = append(in[0].Paths, changes.SkippedPath{Path: long})
	}
	wire := changes.SkippedToWire(in)
	if n := len(wire[0].Paths); n != 8 || wire[0].Count != 500 {
		t.Errorf("%d are named of %d", n, wire[0].Count)
	}
	if diff := cmp.Diff(in[1:], changes.SkippedFromWire(wire[1:])); diff != "" {
		t.Error(diff)
	}
	// A server that counts fewer than it names.
	odd := []protocol.SkippedPaths{{Why: "new", Count: -3, Paths: []protocol.SkippedPath{{Path: "/f"}}}}
	if got := changes.SkippedFromWire(odd); got[0].Count != 1 {
		t.Errorf("%+v", got)
	}
}

// partlyDisk cannot write all of what is applied.
type partlyDisk struct {
	changes.Workspace
	how    tree.ApplyMode
	partly bool
}

func (p *partlyDisk) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	p.how = how
	done, err := p.Workspace.Apply(ctx, entries, how, also)
	if err == nil {
		err = &changes.PendingError{Err: errors.New("no room"), Partly: p.partly}
	}
	return done, err
}

func (p *partlyDisk) Skipped(func(string) bool) []changes.Skipped {
	return []changes.Skipped{{Why: changes.Unwritten, Count: 1, Paths: []changes.SkippedPath{{Path: "/d", Error: "no room"}}}}
}

// A push of which something is not on the disk fails, unless its sender reads of that in the
// watermarks.
func TestC052PushPartly(t *testing.T) {
	e := newEnd(t)
	for _, c := range []struct{ asked, partly, fails bool }{{false, true, true}, {true, true, false}, {true, false, true}} {
		ws := &partlyDisk{Workspace: changes.Plain(e.forest, e.tree), partly: c.partly}
		s := changes.New(changes.Config{Workspace: ws})
		entries := changes.FromSlice([]tree.Entry{{Kind: tree.KindDir, Path: "/d", Mode: 0o755, Rev: 1}})
		_, err := s.Push(t.Context(), changes.PushInput{SenderRev: 1, Partly: c.asked}, entries)
		if (err != nil) != c.fails {
			t.Errorf("%+v: %v", c, err)
		}
		if (ws.how&changes.AnyRoom != 0) != c.asked {
			t.Errorf("%+v: applied as %b", c, ws.how)
		}
		w, err := s.Watermarks(t.Context(), false)
		if err != nil || len(w.Skipped) != 1 {
			t.Errorf("%+v, %v", w, err)
		}
		talked := talk(t, s)
		talked.Say(`{"id":1,"method":"sync/watermarks","params":{"settle":true}}`)
		if got := talked.Hear(); !strings.Contains(got, `"skipped":[{"why":"unwritten","count":1,"paths":[{"path":"/d","error":"no room"}]}]`) {
			t.Error(got)
		}
	}
}
