package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A lying Peer says once that what goes back to a path has overtaken a version.
type lying struct {
	changes.Peer
	v    lost.Version
	then func() lost.Version // instead of v, if set
	path string
	done bool
}

func (l *lying) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	var list []tree.Entry
	for e, err := entries.Next(ctx); err == nil; e, err = entries.Next(ctx) {
		list = append(list, e)
	}
	entries.Close(nil)
	res, err := l.Peer.Push(ctx, in, changes.FromSlice(list))
	if err == nil && !l.done && slices.ContainsFunc(list, func(e tree.Entry) bool { return e.Path == l.path }) {
		l.done = true
		if l.then != nil {
			l.v = l.then()
		}
		res.Overtaken = append(res.Overtaken, l.v)
	}
	return res, err
}

// A number or path that no version can have is left out, whatever room there is here: nothing fails, nor does it once
// the remote is an honest one.
func TestOvertakenThatCannotBe(t *testing.T) {
	for _, root := range []string{"", "/r"} {
		for _, id := range []int64{0, -5, 7, 1 << 62, 1<<63 - 1} {
			for _, path := range []string{root + "/f", "/", "", "f", "/r/../x", "/elsewhere/f", root + "/n\x00ul"} {
				for _, room := range []int64{0, 20} {
					t.Run(fmt.Sprintf("%q %d %q %d", root, id, path, room), func(t *testing.T) {
						w, remote := newSmall(t, Config{OnConflict: Both, RemoteRoot: root})
						if root != "" {
							w.remote.do("mkdir /r")
						}
						w.local.do("write /f L")
						w.sync()
						w.remote.overtaken(root+"/f", "R")
						list, _, err := remote.Lost(t.Context(), 0, 0)
						if err != nil {
							t.Fatal(err)
						}
						long := strings.Repeat("R", 30)
						v := list[0]
						if v.Entry.Parts, err = w.remote.forest.Stage(t.Context(), strings.NewReader(long)); err != nil {
							t.Fatal(err)
						}
						v.ID, v.Path, v.Entry.Path, v.Entry.Size = id, path, path, int64(len(long))
						w.cfg.Remote = &lying{Peer: remote, v: v, path: root + "/f"}
						remote.roomHere = room
						w.local.do("write /more 1")
						for range 2 {
							w.restart()
							if _, err := w.m.Sync(t.Context()); err != nil {
								t.Fatal(err)
							}
						}
						remote.roomHere, w.cfg.Remote = 0, remote
						w.restart()
						w.sync()
						if n := w.m.s.notes.Waits; len(n) > 0 {
							t.Errorf("waits %v", n)
						}
						w.remote.check()
					})
				}
			}
		}
	}
}

// A number or path that cannot be is forgotten when it is read from the store.
func TestWaitsThatCannotBe(t *testing.T) {
	w := newWorld(t, Config{LocalRoot: "/l"})
	w.local.do("write /l/f 1")
	w.sync()
	next := w.m.s
	next.notes.Waits = waits{0: "/l/f", -5: "/l/f", 1 << 60: "/l/f", 5: "/f", 6: "/l/../f", 7: "/l/g"}
	if err := w.m.commit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	w.restart()
	s, err := w.m.loadState(t.Context())
	if diff := cmp.Diff(waits{7: "/l/g"}, s.notes.Waits); diff != "" || err != nil {
		t.Errorf("%v, waits (-want +got):\n%s", err, diff)
	}
	w.sync()
}

// A version that waited, and that the remote keeps no more, is a conflict that says so once: it was too old there, or
// the remote's store is another one.
func TestWaitingVersionIsGone(t *testing.T) {
	for name, forget := range map[string]func(t *testing.T, w *world, remote *small){
		"trimmed": func(t *testing.T, w *world, remote *small) {
			list, _, err := remote.Lost(t.Context(), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			w.remote.drop(list[0].ID)
		},
		"another store": func(_ *testing.T, w *world, _ *small) {
			w.remote = newEnd(w.t, 1000)
			w.cfg.Remote = w.remote.server
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, remote, _ := overtakenThere(t, Both)
			w.sync()
			forget(t, w, remote)
			w.restart()
			var told []Conflict
			w.m.cfg.Conflict = func(c Conflict) { told = append(told, c) }
			r := w.sync()
			if len(told) != 1 || r.Conflicts != 1 || len(r.Here) != 0 {
				t.Fatalf("told %+v, conflicts %d, left out %v", told, r.Conflicts, r.Here)
			}
			if c := told[0]; !c.Gone || c.Waits || c.Path != "/f" || c.Kept != KeptLocal || shown(c.Local) != hash("newer") || c.Remote.Kind != tree.KindDelete {
				t.Errorf("told %+v", c)
			}
			w.restart()
			w.conflicts = nil
			w.rest()
			w.wantConflicts()
		})
	}
}

// drop forgets a version that was lost.
func (e *end) drop(id int64) {
	e.t.Helper()
	if _, err := e.tree.Update(context.Background(), func(ed *tree.Edit) error { return lost.Drop(ed, id) }); err != nil {
		e.t.Fatalf("drop: %v", err)
	}
}

// A listing Peer counts how often it is asked for what it has lost, and lists few at once.
type listing struct {
	*small
	calls, versions, most int
}

func (l *listing) Lost(ctx context.Context, after int64, limit int) ([]lost.Version, bool, error) {
	l.calls++
	if limit == 0 || limit > l.most {
		limit = l.most
	}
	list, more, err := l.small.Lost(ctx, after, limit)
	l.versions += len(list)
	return list, more, err
}

// No more versions wait than can be remembered. The others are looked at once some have come: none is lost.
func TestWaitsAreBounded(t *testing.T) {
	for _, first := range []int{maxWaits + 300, maxWaits} { // that are overtaken before the others
		t.Run(fmt.Sprint(first), func(t *testing.T) { tooManyWait(t, first, maxWaits+300) })
	}
}

func tooManyWait(t *testing.T, first, all int) {
	t.Helper()
	w, remote := newSmall(t, Config{OnConflict: Both})
	w.local.do("write /f L")
	w.sync()
	long := strings.Repeat("R", 30)
	overtake := func(from, to int) {
		for i := from; i < to; i++ {
			w.remote.overtaken("/f", fmt.Sprint(long, i))
		}
		w.remote.do("write /f newer")
	}
	remote.roomHere = 20
	w.cfg.Remote = &listing{small: remote, most: 200}
	told := map[string]bool{}
	run := func() Result {
		w.restart()
		w.m.cfg.Conflict = func(c Conflict) {
			if !c.Waits && c.Lost == 0 {
				t.Errorf("told %+v", c)
			}
			told[c.Remote.Hash] = true
		}
		return w.sync()
	}
	overtake(0, first)
	for i := range 3 {
		r := run()
		if n := len(w.m.s.notes.Waits); n != maxWaits {
			t.Fatalf("%d versions wait", n)
		}
		if diff := cmp.Diff(unwritten("/f"), r.Here); diff != "" {
			t.Errorf("left out (-want +got):\n%s", diff)
		}
		if i == 0 && first < all {
			w.local.do("write /f L2")
			run()
			overtake(first, all)
		}
	}
	w.local.want("/f 644 newer")
	remote.roomHere = 0
	run()
	if n := len(w.local.losers()); n != all || len(told) != n {
		t.Errorf("kept %d, told %d", n, len(told))
	}
	if n := w.m.s.notes; len(n.Waits) > 0 || n.Pass != nil {
		t.Errorf("remembered %+v", n)
	}
	w.restart()
	w.rest()
}

// A version that one that went back had overtaken is dealt with before its turn, and kept once, however few versions
// are dealt with at once.
func TestOvertakenBackIsKeptOnce(t *testing.T) {
	for _, most := range []int{1, 1000} { // that the remote lists at once
		t.Run(fmt.Sprint(most), func(t *testing.T) { overtakenBack(t, most) })
	}
}

func overtakenBack(t *testing.T, most int) {
	t.Helper()
	w, remote := newSmall(t, Config{OnConflict: Both})
	w.local.do("write /f L", "write /g L")
	w.sync()
	w.remote.overtaken("/f", "R")
	w.remote.overtaken("/g", "R")
	l := &lying{Peer: &listing{small: remote, most: most}, path: "/f", then: func() lost.Version {
		w.remote.overtaken("/f", "R2")
		w.remote.do("write /f newest")
		list, _, err := w.remote.server.Lost(t.Context(), 2, 0)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0]
	}}
	w.cfg.Remote = l
	w.restart()
	if err := w.m.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := w.m.s
	next.notes.Waits = waits{}
	for i := range int64(maxWaits - 2) {
		next.notes.Waits[1000+i] = fmt.Sprint("/w", i)
		w.m.fullHere.add(next.notes.Waits[1000+i], "")
	}
	if err := w.m.commit(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	moved, err := w.m.giveBack(t.Context(), w.m.s.peer.Fetch, &Result{})
	if n := w.m.s.notes; err != nil || !moved || !l.done || n.TheirLost != 4 || n.Pass != nil {
		t.Errorf("moved %v, %v, next %d, pass %+v", moved, err, n.TheirLost, n.Pass)
	}
	w.local.wantLosers("/f conflict R2")
	w.remote.want("/f 644 newest", "/g 644 R")
}

// Versions that wait are asked for by their numbers, not with all that are between them.
func TestWaitingVersionsAreAskedForAlone(t *testing.T) {
	w, remote, long := overtakenThere(t, Both)
	w.sync()
	for i := range 2000 {
		w.remote.overtaken(fmt.Sprint("/x", i), "")
	}
	w.sync()
	w.local.do("write /g L")
	w.sync()
	w.remote.overtaken("/g", long+"2")
	w.remote.do("write /g newer")
	w.restart()
	w.sync()
	if n := len(w.m.s.notes.Waits); n != 2 {
		t.Fatalf("%d versions wait", n)
	}
	l := &listing{small: remote, most: 1000}
	w.cfg.Remote = l
	remote.roomHere = 0
	w.restart()
	w.sync()
	if l.calls != 2 || l.versions != 2 {
		t.Errorf("%d versions in %d calls", l.versions, l.calls)
	}
	w.local.wantLosers("/f conflict "+long, "/g conflict "+long+"2")
}

// An endless Peer lists versions of a path without an end.
type endless struct {
	changes.Peer
	v     lost.Version
	lists int
}

func (p *endless) Watermarks(ctx context.Context, settle bool) (changes.Watermarks, error) {
	wm, err := p.Peer.Watermarks(ctx, settle)
	wm.Lost = tree.MaxRev
	return wm, err
}

func (p *endless) Lost(_ context.Context, after int64, _ int) ([]lost.Version, bool, error) {
	p.lists++
	var list []lost.Version
	for i := range int64(3) {
		v := p.v
		v.ID = after + 1 + i
		list = append(list, v)
	}
	return list, true, nil
}

// A remote that lists lost versions without an end keeps no call going: each fails after so many lists, and the next goes on.
func TestLostWithoutAnEnd(t *testing.T) {
	for _, path := range []string{"/f", "/other", "/none", "/"} { // overtaken, changed since, not here, none
		t.Run(path, func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Both})
			l := standard
			l.lost = 5
			w.limits = &l
			w.local.do("write /f L", "write /other L")
			w.restart()
			w.sync()
			w.remote.overtaken("/f", "R")
			list, _, err := w.remote.server.Lost(t.Context(), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			p := &endless{Peer: w.remote.server, v: list[0]}
			p.v.Path = path
			w.cfg.Remote = p
			for run := range 3 {
				w.restart()
				w.local.do("write /more 1")
				from := w.stored().notes.TheirLost
				p.lists = 0
				if _, err := w.m.Sync(t.Context()); !errors.Is(err, ErrLost) || p.lists != l.lost {
					t.Fatalf("run %d: %d lists, %v", run, p.lists, err)
				}
				if next := w.stored().notes.TheirLost; next != from+int64(3*l.lost) {
					t.Errorf("run %d: it goes on from %d, and went from %d", run, next, from)
				}
			}
			w.cfg.Remote = nil
			w.restart()
			w.sync()
			w.same()
		})
	}
}

// stored is the state that is stored.
func (w *world) stored() state {
	w.t.Helper()
	s, err := w.m.loadState(context.Background())
	if err != nil {
		w.t.Fatalf("load the state: %v", err)
	}
	return s
}
