package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
)

// contact is what Contact finds; it changes nothing.
func (w *world) contact() *Contact {
	w.t.Helper()
	here, there := w.local.list(), w.remote.list()
	info, err := w.local.tree.Info(context.Background())
	if err != nil {
		w.t.Fatalf("info: %v", err)
	}
	c, err := w.m.Contact(context.Background())
	if err != nil {
		w.t.Fatalf("contact: %v", err)
	}
	now, err := w.local.tree.Info(context.Background())
	if diff := cmp.Diff(here, w.local.list()) + cmp.Diff(there, w.remote.list()); diff != "" || err != nil || now != info {
		w.t.Errorf("it changed something: %v to %v, %v\n%s", info, now, err, diff)
	}
	return c
}

// losers are the lost versions of an end, a line each.
func (e *end) losers() []string {
	e.t.Helper()
	var out []string
	err := lost.List(context.Background(), e.forest, 0, func(v *lost.Version) error {
		text := v.Entry.Target
		for _, p := range v.Entry.Parts {
			b, err := e.forest.Chunk(context.Background(), p.Hash, nil)
			if err != nil {
				return err
			}
			text += string(b)
		}
		out = append(out, fmt.Sprintf("%s %s %s", v.Path, v.Why, text))
		return nil
	})
	if err != nil {
		e.t.Fatalf("list lost versions: %v", err)
	}
	slices.Sort(out)
	return out
}

func (e *end) wantLosers(lines ...string) {
	e.t.Helper()
	if diff := cmp.Diff(lines, e.losers()); diff != "" {
		e.t.Errorf("lost versions (-want +got):\n%s", diff)
	}
}

// strangers are two ends that both have files and were never in step.
func strangers(t tb, cfg Config) *world {
	w := newWorld(t, cfg)
	w.local.do("write /both same", "write /f L", "write /d/here 1", "ln to /l", "mkdir /empty", "write /kind file", "write /x/ignored 1")
	w.remote.do("write /both same", "write /f R", "write /d/there 2", "write /e/f/g 3", "mkdir /kind", "write /kind/in 4", "write /.git/config code")
	return w
}

func TestContact(t *testing.T) {
	w := strangers(t, Config{Ignore: []string{"ignored"}})
	want := &Contact{Here: 2, There: 3, Differ: 2, Same: 1, DifferNames: []string{"/f", "/kind"}, HereNames: []string{"/d/here", "/l"}, ThereNames: []string{"/d/there", "/e/f/g", "/kind/in"}}
	if diff := cmp.Diff(want, w.contact(), cmpopts.IgnoreUnexported(Contact{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.sync()
	if c := w.contact(); c != nil {
		t.Errorf("after a sync: %+v", c)
	}
	w.lose(w.remote, 7000)
	w.remote.do("write /other 1")
	if c := w.contact(); c != nil {
		t.Errorf("after the remote has lost its store: %+v", c)
	}

	for name, script := range map[string][2]string{"nothing there": {"write /f 1", "mkdir /d"}, "nothing here": {"mkdir /d", "write /f 1"}} {
		w := newWorld(t, Config{})
		w.local.do(script[0])
		w.remote.do(script[1])
		c := w.contact()
		if c.Here+c.There != 1 || c.Differ+c.Same != 0 {
			t.Errorf("%s: %+v", name, c)
		}
		w.sync()
		w.local.do("write /g 2")
		w.remote.do("write /h 2")
		if c := w.contact(); c != nil {
			t.Errorf("%s, after a sync: %+v", name, c)
		}
	}
}

// The remote becomes what is here, and its versions are kept here.
func TestFromHere(t *testing.T) {
	w := strangers(t, Config{Undo: true})
	before := w.local.list()
	moves, p, err := w.plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"true delete /e 0", "true delete /e/f/g 0", "true delete /d/there 0", "true file /f 1"} {
		if !slices.Contains(moves, want) {
			t.Errorf("the plan has no %q: %v", want, moves)
		}
	}
	if p.ToLocal != 0 {
		t.Errorf("the plan: %+v", p)
	}
	r := w.sync()
	w.local.want(before...)
	w.remote.want(append([]string{"/.git/ 755", "/.git/config 644 code"}, before...)...)
	if r.Undone != 4 || r.Changed != 0 {
		t.Errorf("%+v", r)
	}
	w.local.wantLosers("/d/there undone 2", "/e/f/g undone 3", "/f undone R", "/kind/in undone 4")
	w.wantConflicts()
}

// Changes of the remote are undone, each kind, also those of paths that have changed here.
func TestUndo(t *testing.T) {
	w := newWorld(t, Config{Undo: true})
	w.local.do("write /a 1", "write /d/b 2", "write /d/c/e 3", "ln to /l", "write /m 4", "write /k 5", "mkdir /dir", "write /gone 6")
	w.sync()
	w.remote.do("rm /a", "rm /d", "write /new/f 7", "rm /l", "ln other /l", "chmod /m 700", "rm /k", "mkdir /k", "write /k/in 8", "rm /dir", "write /dir 9", "write /gone 10")
	w.local.do("write /m here", "rm /gone")
	before := w.local.list()
	w.sync()
	w.local.want(before...)
	w.rest()
	w.local.wantLosers("/dir undone 9", "/gone undone 10", "/k/in undone 8", "/l undone other", "/m undone 4", "/new/f undone 7")
}

// Files that only this side has go, and are kept; ignored ones stay.
func TestFromThere(t *testing.T) {
	w := strangers(t, Config{Ignore: []string{"ignored"}, OnConflict: Theirs, AllowCode: true})
	there := w.remote.list()
	n, err := w.m.Yield(t.Context(), w.contact(), "there")
	if n != 2 || err != nil {
		t.Errorf("%d files were removed, %v", n, err)
	}
	w.sync()
	w.same()
	w.remote.want(append(slices.Clone(there), "/x/ 755")...)
	w.local.want(append(slices.Clone(there), "/x/ 755", "/x/ignored 644 1")...)
	for _, want := range []string{"/d/here undone 1", "/l undone to"} {
		if got := w.local.losers(); !slices.Contains(got, want) {
			t.Errorf("no lost version %q: %v", want, got)
		}
	}
}

// A first run that ends once it has removed what only this side has is gone on with.
func TestFromThereGoesOn(t *testing.T) {
	w := strangers(t, Config{OnConflict: Theirs, First: "there"})
	first := func(want string) {
		t.Helper()
		if got, err := w.m.First(t.Context()); got != want || err != nil {
			t.Errorf("first %q, %v; want %q", got, err, want)
		}
	}
	first("")
	if n, err := w.m.Yield(t.Context(), w.contact(), "there"); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	w.restart()
	first("there")
	w.sync()
	first("")
	w.restart()
	first("")
}

// Work done here after a --from there that was cut off is known as newer, before and after something has come over.
func TestFromThereKnowsNewer(t *testing.T) {
	for _, how := range []string{"removed", "pulled", "pulled, nothing to remove"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Theirs, First: "there"})
			w.local.do("write /f L", "write /d/same 1")
			w.remote.do("write /f R", "write /d/same 1", "write /d/there 2", "write /g 3")
			if how != "pulled, nothing to remove" {
				w.local.do("write /here 1", "mkdir /empty")
			}
			want := func(names ...string) {
				t.Helper()
				w.restart()
				if c := w.contact(); c.Newer != len(names) || !slices.Equal(c.NewerNames, names) {
					t.Errorf("newer are %d, %q; want %q", c.Newer, c.NewerNames, names)
				}
			}
			want()
			if _, err := w.m.Yield(t.Context(), w.contact(), "there"); err != nil {
				t.Fatal(err)
			}
			if how == "removed" {
				want()
				w.local.do("write /f evening", "write /new/work 1", "write /d/there mine")
				want("/f", "/d/there", "/new", "/new/work")
				return
			}
			if _, err := w.m.Pull(t.Context()); err != nil { // it ends before the push
				t.Fatal(err)
			}
			want()
			w.remote.do("write /g 4", "rm /d/there") // what came from there is not newer
			want()
			w.local.do("write /new/work 1", "write /g mine", "write /f mine") // of those the last would be sent
			want("/g", "/new", "/new/work")
		})
	}
}

// Work done at the remote since a --from here that was cut off is known as newer, whatever had moved.
func TestFromHereKnowsNewer(t *testing.T) {
	begun := 0
	defer func() {
		if begun < 10 {
			t.Errorf("only %d runs were cut off after they had begun", begun)
		}
	}()
	for left := 1; left < 40; left++ {
		for _, answer := range []bool{false, true} {
			t.Run(fmt.Sprint(left, " ", answer), func(t *testing.T) {
				w := newWorld(t, Config{Undo: true, First: "here"})
				cut := &cutter{Peer: w.remote.server, left: -1}
				w.cfg.Remote = cut
				w.local.do("write /f L", "write /d/same 1", "write /here 1")
				w.remote.do("write /f R", "write /d/same 1", "write /d/there 2", "write /g 3")
				w.restart()
				cut.set(left, answer)
				_, err := w.m.Sync(t.Context())
				cut.set(-1, false)
				w.restart()
				first, err2 := w.m.First(t.Context())
				if err2 != nil {
					t.Fatal(err2)
				}
				if first == "" { // nothing has begun, or all is done
					return
				}
				if begun++; !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				want := func(names ...string) {
					t.Helper()
					w.restart()
					if c := w.contact(); c.NewerThere != len(names) || !slices.Equal(c.NewerThereNames, names) {
						t.Errorf("newer are %d, %q; want %q", c.NewerThere, c.NewerThereNames, names)
					}
				}
				want()
				w.remote.do("write /here theirs", "write /new/work 1", "write /f evening", "rm /d/same")
				want("/here", "/new", "/new/work", "/f")
				w.sync()
				w.same()
				w.local.want("/d/ 755", "/d/same 644 1", "/f 644 L", "/here 644 1")
				for _, want := range []string{"/here undone theirs", "/new/work undone 1", "/f undone evening"} {
					if got := w.local.losers(); !slices.Contains(got, want) {
						t.Errorf("no lost version %q: %v", want, got)
					}
				}
			})
		}
	}
}

// A file that only this side has and that cannot be read stays, and is named; all else goes.
func TestFromThereUnreadable(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Theirs})
	w.local.do("write /a 1", "write /d/secret text", "write /z 2")
	w.remote.do("write /b 3")
	c := w.contact()
	w.local.lose("text")
	n, err := w.m.Yield(t.Context(), c, "there")
	if n != 2 || err != nil {
		t.Errorf("%d files were removed, %v", n, err)
	}
	r := w.sync()
	if diff := cmp.Diff(unread("/d/secret"), r.Here); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	w.remote.want("/b 644 3", "/d/ 755")
	w.local.wantLosers("/a undone 1", "/z undone 2")
}

// More than MayDelete lets is removed on neither side, and nothing else happens.
func TestMayDelete(t *testing.T) {
	half := func(n, of int) bool { return of <= 6 || 2*n <= of }
	files := func(dir string) (lines []string) {
		for i := range 8 {
			lines = append(lines, fmt.Sprintf("write %s/f%d %d", dir, i, i))
		}
		return lines
	}
	changed := func(dir string) (lines []string) {
		for i := range 7 {
			lines = append(lines, fmt.Sprintf("write %s/f%d changed", dir, i+1))
		}
		return lines
	}
	for name, tt := range map[string]struct {
		here, there []string
		want        *DeletesError // nil: all goes
	}{
		"removed here":              {[]string{"rm /d"}, []string{"write /x 1"}, &DeletesError{Remote: true, Count: 8, Of: 8, Names: []string{"/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4"}}},
		"removed there":             {[]string{"write /x 1"}, []string{"rm /d"}, &DeletesError{Count: 8, Of: 8, Names: []string{"/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4"}}},
		"half of it":                {[]string{"rm /d/f0", "rm /d/f1"}, []string{"rm /d/f2", "rm /d/f3"}, nil},
		"renamed here":              {[]string{"mv /d /e"}, nil, nil},
		"renamed there":             {nil, []string{"mv /d /e"}, nil},
		"renamed, and some of it":   {nil, []string{"mv /d /e", "rm /e/f1"}, nil},
		"replaced here":             {append([]string{"rm /d"}, files("/e")...), nil, nil},
		"removed there, new here":   {files("/new"), []string{"rm /d"}, &DeletesError{Count: 8, Of: 8, Names: []string{"/d/f0", "/d/f1", "/d/f2", "/d/f3", "/d/f4"}}},
		"some removed, all changed": {append(changed("/d"), "rm /d/f0"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{MayDelete: half})
			w.local.do(files("/d")...)
			w.sync()
			w.local.do(tt.here...)
			w.remote.do(tt.there...)
			here, there := w.local.list(), w.remote.list()
			_, p, err := w.plan()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.TooMany); diff != "" {
				t.Errorf("the plan (-want +got):\n%s", diff)
			}
			if tt.want == nil {
				w.sync()
				w.rest()
				return
			}
			_, err = w.m.Sync(t.Context())
			got, _ := errors.AsType[*DeletesError](err)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			w.local.want(here...)
			w.remote.want(there...)
			w.cfg.MayDelete = nil
			w.restart()
			w.sync()
			w.rest()
		})
	}
}

// Undoing what only the remote has is a removal as well.
func TestMayDeleteUndo(t *testing.T) {
	w := newWorld(t, Config{Undo: true, MayDelete: func(n, _ int) bool { return n < 3 }})
	w.local.do("write /f 1")
	w.sync()
	w.remote.do("write /d/a 1", "write /d/b 2", "write /d/c 3")
	_, err := w.m.Sync(t.Context())
	many, _ := errors.AsType[*DeletesError](err)
	if diff := cmp.Diff(&DeletesError{Remote: true, Count: 3, Of: 4, Names: []string{"/d/a", "/d/b", "/d/c"}}, many); diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	w.remote.want("/d/ 755", "/d/a 644 1", "/d/b 644 2", "/d/c 644 3", "/f 644 1")
}

// A fetchCounter counts how often a peer is asked for its changes.
type fetchCounter struct {
	changes.Peer
	n int
}

func (c *fetchCounter) FetchChanges(ctx context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	c.n++
	return c.Peer.FetchChanges(ctx, q)
}

// A pull that is one batch is asked about without another look at the remote; one of more is
// looked at as a whole.
// TestMayDeleteUndo for a directory of the remote's that a file from here takes the place of.
func TestMayDeleteUndoneDirectory(t *testing.T) {
	for name, changed := range map[string]bool{"the file is as it was": false, "the file has changed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Undo: true, MayDelete: func(n, _ int) bool { return n < 3 }})
			w.local.do("write /d file", "write /other 1")
			w.sync()
			w.remote.do("rm /d", "write /d/1 a", "write /d/2 b", "write /d/in/3 c")
			if changed {
				w.local.do("write /d more")
			}
			there, here := w.remote.list(), w.local.list()
			_, err := w.m.Sync(t.Context())
			got, _ := errors.AsType[*DeletesError](err)
			if diff := cmp.Diff(&DeletesError{Remote: true, Count: 3, Of: 4, Names: []string{"/d/1", "/d/2", "/d/in/3"}}, got); diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
			w.remote.want(there...)
			w.cfg.MayDelete = nil
			w.restart()
			w.sync()
			w.remote.want(here...)
			w.rest()
		})
	}
}

func TestMayDeleteFetches(t *testing.T) {
	w := newWorld(t, Config{MayDelete: func(n, of int) bool { return of <= 6 || 2*n <= of }})
	c := &fetchCounter{Peer: w.remote.server}
	w.cfg.Remote = c
	w.smallBlocks()
	var many []string
	for i := range smallEntries + 10 {
		many = append(many, fmt.Sprintf("write /d/f%05d x", i))
	}
	w.remote.do(many...)
	w.sync()
	c.n = 0
	w.remote.do("write /d/f00000 y", "rm /d/f00001")
	w.sync()
	if c.n != 1 {
		t.Errorf("the remote was asked for its changes %d times", c.n)
	}
	w.remote.do("rm /d")
	there := w.local.list()
	_, err := w.m.Sync(t.Context())
	if many, ok := errors.AsType[*DeletesError](err); !ok || many.Count != smallEntries+9 || many.Of != smallEntries+9 {
		t.Errorf("%v: %+v", err, many)
	}
	w.local.want(there...)
}

// A removal is asked about also when all that was in step is compared anew, or was only
// pulled.
func TestMayDeleteBeforePush(t *testing.T) {
	for name, before := range map[string]func(*world){
		"a name is ignored no more": func(w *world) {
			w.cfg.Ignore = []string{"x"}
			w.restart()
			w.sync()
			w.cfg.Ignore = nil
		},
		"it ended behind the pull": func(w *world) {
			if _, err := w.m.Pull(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{MayDelete: func(n, _ int) bool { return n < 3 }})
			w.remote.do("write /d/a 1", "write /d/b 2", "write /d/c 3")
			there := w.remote.list()
			before(w)
			w.restart()
			w.local.do("rm /d")
			_, err := w.m.Sync(t.Context())
			many, _ := errors.AsType[*DeletesError](err)
			if diff := cmp.Diff(&DeletesError{Remote: true, Count: 3, Of: 3, Names: []string{"/d/a", "/d/b", "/d/c"}}, many); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			w.remote.want(there...)
		})
	}
}

// Paths that are ignored, or lie outside of the roots, do not count as those of a side.
func TestMayDeleteOfLookedAt(t *testing.T) {
	for name, side := range map[string]func(*world) *end{
		"here":  func(w *world) *end { return w.local },
		"there": func(w *world) *end { return w.remote },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{
				Ignore: []string{"x"}, LocalRoot: "/w", RemoteRoot: "/w",
				MayDelete: func(n, of int) bool { return 2*n <= of },
			})
			w.local.do("write /w/d/a 1", "write /w/d/b 2", "write /w/c 3")
			for i := range 8 {
				w.local.do(fmt.Sprintf("write /w/x/f%d 1", i), fmt.Sprintf("write /v/f%d 1", i))
			}
			w.sync()
			side(w).do("rm /w/d")
			_, err := w.m.Sync(t.Context())
			many, _ := errors.AsType[*DeletesError](err)
			if diff := cmp.Diff(&DeletesError{Remote: name == "here", Count: 2, Of: 3, Names: []string{"/w/d/a", "/w/d/b"}}, many); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			side(w).do("write /w/d/a 1")
			w.sync()
		})
	}
}

// Removals that a store had which is gone are not asked about again.
func TestMayDeleteAfterLoss(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /d/a 1", "write /d/b 2", "write /d/c 3", "write /f 4")
	w.sync()
	w.local.do("rm /d")
	w.sync()
	w.lose(w.remote, 7000)
	w.remote.do("write /new 5")
	w.cfg.MayDelete = func(n, _ int) bool { return n < 3 }
	w.restart()
	if _, err := w.m.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.remote.do("write /newer 6")
	w.restart()
	w.sync()
	w.rest()
}

// How two sides are brought together is known until they are, and not before anything has
// come over.
func TestFirst(t *testing.T) {
	w := newWorld(t, Config{First: "here", Undo: true})
	w.local.do("write /keep L", "write /late L")
	w.remote.do("write /r/a R", "write /keep R")
	first := func(want string) {
		t.Helper()
		if got, err := w.m.First(t.Context()); got != want || err != nil {
			t.Errorf("it is %q, %v; want %q", got, err, want)
		}
	}
	first("")
	if err := w.m.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	first("")
	w.cfg.First = "other" // another choice
	w.restart()
	if _, err := w.m.Pull(t.Context()); err != nil { // it ends before the push
		t.Fatal(err)
	}
	w.cfg.First = ""
	w.restart()
	first("other")
	if c := w.contact(); c == nil || c.Here != 1 || c.There != 1 || c.Differ != 1 {
		t.Errorf("both sides are in step: %+v", c)
	}
	if _, _, err := w.plan(); err != nil {
		t.Error(err)
	}
	first("other")
	w.sync()
	first("")
	w.remote.want("/keep 644 L", "/late 644 L")
	if c := w.contact(); c != nil {
		t.Errorf("both sides are strangers: %+v", c)
	}
}
