package changes_test

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// An entry is not applied that would take away what its sender has not seen: the others of
// its push are.
func TestF1PushTakesNothingUnseen(t *testing.T) {
	meant := gone(5, "/f")
	x := fileEntry(5, "/f", 0o644, "x")
	meant.Prior = tree.Fingerprint(&x)
	for name, tt := range map[string]struct {
		before, unseen string // what there was when the sender looked, and what came then
		entry          tree.Entry
		conflict       bool
		paths          string
	}{
		"the same path":        {"write /f a", "write /f b", fileEntry(5, "/f", 0o644, "x"), true, "/f /other"},
		"another path":         {"write /f a", "write /g b", fileEntry(5, "/f", 0o644, "x"), false, "/f /g /other"},
		"nothing new":          {"write /f a", "", fileEntry(5, "/f", 0o644, "x"), false, "/f /other"},
		"the same content":     {"write /f a", "write /f x", fileEntry(5, "/f", 0o644, "x"), false, "/f /other"},
		"another mode":         {"write /f x", "chmod /f 600", fileEntry(5, "/f", 0o644, "x"), true, "/f /other"},
		"changed, and removed": {"write /f a", "rm /f", fileEntry(5, "/f", 0o644, "x"), true, "/other"},
		"made on both sides":   {"", "write /f a", fileEntry(5, "/f", 0o644, "x"), true, "/f /other"},
		"removed, and changed": {"write /f a", "write /f b", gone(5, "/f"), true, "/f /other"},
		"removed what is meant": {
			"write /f a", "write /f x", meant, false, "/other",
		},
		"removed on both sides":    {"write /f a", "rm /f", gone(5, "/f"), false, "/other"},
		"a directory with news":    {"write /d/f a", "write /d/e/g b", gone(5, "/d"), true, "/d /d/e /d/e/g /d/f /other"},
		"a directory without news": {"write /d/f a", "write /g b", gone(5, "/d"), false, "/g /other"},
		"a file for a directory":   {"write /d/f a", "write /d/f b", fileEntry(5, "/d", 0o644, "x"), true, "/d /d/f /other"},
		"below a new file":         {"", "write /d a", fileEntry(5, "/d/f", 0o644, "x"), true, "/d /other"},
		"below an old file":        {"write /d a", "", fileEntry(5, "/d/f", 0o644, "x"), false, "/d /d/f /other"},
		"below what is gone":       {"write /d/f a", "rm /d", fileEntry(5, "/d/g", 0o644, "x"), true, "/other"},
		"moved away":               {"write /d/f a", "mv /d /e", fileEntry(5, "/d/f", 0o644, "x"), true, "/e /e/f /other"},
		"a link":                   {"write /f a", "link /l f", fileEntry(5, "/l", 0o644, "x"), true, "/f /l /other"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.keep("x")
			e.do(tt.before)
			e.marks() // from now on there are peers
			base := tree.At(e.marks().CurrentRev)
			e.do(tt.unseen)
			list := []tree.Entry{tt.entry, fileEntry(6, "/other", 0o644, "x")}
			got, err := e.Push(t.Context(), changes.PushInput{SenderRev: 6, Base: &base}, changes.FromSlice(list))
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if tt.conflict {
				want = []string{tt.entry.Path}
			}
			if diff := cmp.Diff(want, got.Conflicts); diff != "" || got.Applied != 2 || got.AppliedPushCursor != tree.At(6) {
				t.Errorf("%+v, conflicts (-want +got):\n%s", got, diff)
			}
			if e.paths() != tt.paths {
				t.Errorf("paths %q, want %q", e.paths(), tt.paths)
			}
		})
	}
}

// What the push itself changes is not unseen, and what there is too much of is refused.
func TestPushWithBase(t *testing.T) {
	e := newEnd(t)
	e.keep("x")
	base := tree.At(e.marks().CurrentRev)
	e.do("write /unseen b")
	in := changes.PushInput{SenderRev: 9, Base: &base}
	got, err := e.Push(t.Context(), in, changes.FromSlice([]tree.Entry{
		fileEntry(7, "/f", 0o644, "x"), fileEntry(8, "/d/g", 0o644, "x"), gone(9, "/f"), gone(9, "/d"),
	}))
	if err != nil || len(got.Conflicts) > 0 || e.paths() != "/unseen" {
		t.Errorf("%+v, %v, %s", got, err, e.paths())
	}

	var many []tree.Entry
	for i := range changes.MaxConflicts + 1 {
		path := "/unseen/" + strings.Repeat("n", i%200+1) + "/" + strings.Repeat("m", i/200+1)
		many = append(many, fileEntry(10, path, 0o644, "x"))
	}
	in.SenderRev = 10
	rev := e.marks().CurrentRev
	if _, err := e.Push(t.Context(), in, changes.FromSlice(many)); changes.Code(err) != changes.CodeProtocol || e.marks().CurrentRev != rev {
		t.Errorf("%v at %+v", err, e.marks())
	}
	got, err = e.Push(t.Context(), in, changes.FromSlice(many[1:]))
	if err != nil || len(got.Conflicts) != changes.MaxConflicts || e.paths() != "/unseen" {
		t.Errorf("%d conflicts, %v, %s", len(got.Conflicts), err, e.paths())
	}
}

// overtaking is a workspace on whose disk there was something in the way of entries.
type overtaking struct {
	changes.Workspace
	versions []tree.Entry
}

func (o *overtaking) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	done, err := o.Workspace.Apply(ctx, entries, how, also)
	if err != nil {
		return done, err
	}
	_, err = o.Tree().Update(ctx, func(e *tree.Edit) error {
		done.Overtaken = nil
		for i := range o.versions {
			v := lost.Version{Path: o.versions[i].Path, At: time.UnixMilli(1795814700123), Why: lost.Overtaken, Entry: o.versions[i]}
			if by, err := e.Entry(v.Path); err == nil {
				v.By = tree.Fingerprint(&by)
			}
			if err := lost.Keep(e, &v); err != nil {
				return err
			}
			done.Overtaken = append(done.Overtaken, v)
		}
		return nil
	})
	return done, err
}

// What was on the disk when entries took its place is answered, and listed.
func TestOvertakenAreAnswered(t *testing.T) {
	e := newEnd(t)
	e.keep("x", "edit")
	o := &overtaking{Workspace: changes.Plain(e.forest, e.tree)}
	e.Server = changes.New(changes.Config{Workspace: o})
	edit := fileEntry(0, "/f", 0o600, "edit")
	for range changes.MaxOvertaken + 2 {
		o.versions = append(o.versions, edit)
	}
	got, err := e.Push(t.Context(), changes.PushInput{SenderRev: 5}, changes.FromSlice([]tree.Entry{fileEntry(5, "/f", 0o644, "x")}))
	if err != nil || len(got.Overtaken) != changes.MaxOvertaken || got.MoreOvertaken != 2 {
		t.Fatalf("%d and %d more, %v", len(got.Overtaken), got.MoreOvertaken, err)
	}
	v := got.Overtaken[1]
	by := fileEntry(5, "/f", 0o644, "x")
	if v.ID != 2 || v.By != tree.Fingerprint(&by) || tree.Fingerprint(&v.Entry) != tree.Fingerprint(&edit) {
		t.Errorf("%+v", v)
	}
	if w := e.marks(); w.Lost != changes.MaxOvertaken+2 {
		t.Errorf("%+v", w)
	}
	for _, tt := range []struct {
		after       int64
		limit       int
		first, last int64
		more        bool
	}{
		{0, 0, 1, changes.MaxLost, true},
		{0, 1, 1, 1, true},
		{changes.MaxLost, 0, changes.MaxLost + 1, changes.MaxLost + 2, false},
		{changes.MaxLost, 2, changes.MaxLost + 1, changes.MaxLost + 2, false},
		{1, changes.MaxLost + 5, 2, changes.MaxLost + 1, true},
	} {
		list, more, err := e.Lost(t.Context(), tt.after, tt.limit)
		if err != nil || more != tt.more || list[0].ID != tt.first || list[len(list)-1].ID != tt.last {
			t.Errorf("after %d, %d: %d, more %t, %v", tt.after, tt.limit, len(list), more, err)
		}
	}
	if list, more, err := e.Lost(t.Context(), 1<<40, 0); len(list) > 0 || more || err != nil {
		t.Error(list, more, err)
	}
	for _, bad := range [][2]int64{{-1, 0}, {0, -1}} {
		if _, _, err := e.Lost(t.Context(), bad[0], int(bad[1])); changes.Code(err) != changes.CodeProtocol {
			t.Errorf("%v: %v", bad, err)
		}
	}

	c := talk(t, e.Server)
	c.Say(`{"id":1,"method":"sync/lost","params":{"after":1,"limit":1}}`)
	c.Want(`{"id":1,"result":{"versions":[{"id":2,"at":1795814700123,"why":"overtaken","by":"` + v.By +
		`","entry":{"kind":"file","rev":0,"path":"/f","mode":384,"mtime":` + strconv.FormatInt(entryTime.UnixMilli(), 10) +
		`,"size":4,"chunks":[{"hash":"` + tree.Sum([]byte("edit")).String() + `","size":4}]}}],"more":true}}`)
	back, err := changes.LostFromWire(changes.LostToWire([]lost.Version{v}))
	if diff := cmp.Diff([]lost.Version{v}, back); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// A push that is to be alone is refused as a whole if there are files that its sender has not seen.
func TestPushAlone(t *testing.T) {
	for name, tt := range map[string]struct {
		before, unseen string
		refused        bool
	}{
		"nothing new":                 {"write /f a", "", false},
		"a directory":                 {"write /f a", "mkdir /d", false},
		"a file":                      {"", "write /f a", true},
		"a link":                      {"", "link /l f", true},
		"a file in an old directory":  {"mkdir /d", "write /d/f a", true},
		"a file that was there":       {"write /f a", "write /f b", true},
		"a file that was there moved": {"write /f a", "mv /f /g", true},
		"a file that is gone":         {"write /f a", "rm /f", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.keep("x")
			if tt.before != "" {
				e.do(tt.before)
			}
			base := tree.At(e.marks().CurrentRev)
			if tt.unseen != "" {
				e.do(tt.unseen)
			}
			before := e.paths()
			for _, alone := range []bool{true, false} {
				_, err := e.Push(t.Context(), changes.PushInput{SenderRev: 6, Base: &base, Alone: alone}, changes.FromSlice([]tree.Entry{fileEntry(6, "/other", 0o644, "x")}))
				if refused := changes.Code(err) == changes.CodeUnseen; refused != (tt.refused && alone) || !refused && err != nil {
					t.Fatalf("alone %v: %v", alone, err)
				}
				if alone && tt.refused && e.paths() != before {
					t.Errorf("it has %q", e.paths())
				}
			}
		})
	}
}
