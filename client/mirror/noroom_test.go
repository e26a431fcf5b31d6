package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A small remote has room for so many bytes of content. Of a call for which it has none it keeps nothing.
type small struct {
	*changes.Server
	room  int64
	calls int
	// roomHere is how much of a call there is room for here, 0 for all. reason says why there is no more here, and
	// reasonThere at the remote, ENOSPC if it is nil.
	roomHere            int64
	reason, reasonThere error
}

func (r *small) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	r.calls++
	var list []tree.Data
	var size int64
	for d, err := objects.Next(ctx); err == nil; d, err = objects.Next(ctx) {
		list, size = append(list, d), size+int64(len(d.Bytes))
		if size > r.room {
			err = &changes.Error{Code: changes.CodeNoRoom, Err: orNoSpace(r.reasonThere)}
			objects.Close(err)
			return err
		}
	}
	objects.Close(nil)
	r.room -= size
	return r.Server.PushObjects(ctx, changes.FromSlice(list))
}

// FetchObjects fails as the disk here does, when it has no room for what comes.
func (r *small) FetchObjects(ctx context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	objects, err := r.Server.FetchObjects(ctx, hashes)
	left := r.roomHere
	return changes.FromFunc(func(ctx context.Context) (tree.Data, error) {
		d, err := objects.Next(ctx)
		if left -= int64(len(d.Bytes)); r.roomHere > 0 && left < 0 && err == nil {
			err = orNoSpace(r.reason)
		}
		return d, err
	}, func(err error) { objects.Close(err) }), err
}

// orNoSpace is an error, or ENOSPC for none.
func orNoSpace(err error) error {
	if err == nil {
		return syscall.ENOSPC
	}
	return err
}

func newSmall(t *testing.T, c Config) (*world, *small) {
	t.Helper()
	w := newWorld(t, c)
	remote := &small{Server: w.remote.server, room: 1 << 20}
	w.cfg.Remote = remote
	w.restart()
	return w, remote
}

func unwritten(paths ...string) []changes.Skipped { return unwrittenFor(syscall.ENOSPC, paths...) }

func unwrittenFor(reason error, paths ...string) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unwritten, Count: len(paths)}
	for _, p := range paths {
		s.Paths = append(s.Paths, changes.SkippedPath{Path: p, Error: reason.Error()})
	}
	return []changes.Skipped{s}
}

// L1: content for which the remote has no room holds up nothing else. Its path is named each time, and comes
// once there is room, also after a restart.
func TestL1RemoteHasNoRoom(t *testing.T) {
	w, remote := newSmall(t, Config{})
	w.local.do("write /one 1", "write /old large")
	w.sync()
	large := strings.Repeat("x", 300)
	remote.room = 20
	w.local.do("write /big "+large, "write /one 2", "write /d/two 3", "write /old "+large+"y", "write /zzz last")
	for i := range 3 {
		r := w.sync()
		if diff := cmp.Diff(unwritten("/big", "/old"), r.There); diff != "" {
			t.Fatalf("left out (-want +got):\n%s", diff)
		}
		if i == 0 && (r.Pushed != 4 || r.BytesOut != 6) || i > 0 && r.moved() {
			t.Errorf("run %d: %+v", i, r)
		}
		w.remote.want("/d/ 755", "/d/two 644 3", "/old 644 large", "/one 644 2", "/zzz 644 last")
		w.restart()
	}
	// What the remote changes meanwhile is a conflict, and what is changed here fits.
	w.remote.do("write /old theirs")
	w.local.do("write /big small")
	remote.room = 0
	w.cfg.OnConflict = Both
	w.restart()
	if got := w.sync().There; got[0].Count != 2 {
		t.Errorf("left out: %v", got)
	}
	w.wantConflicts("/old: " + hash(large+"y") + " / " + hash("theirs") + ", kept both copy /old.conflict-" + copyHash(large+"y"))
	remote.room = 1 << 20
	w.restart()
	if got := w.sync().There; len(got) != 0 {
		t.Errorf("left out: %v", got)
	}
	w.same()
	w.rest()
}

// L1: content for which there is no room here holds up nothing else, neither what comes nor what is sent. Its
// path is named each time, and comes once there is room. A path that both sides have changed is a conflict
// then, and no change of it is sent before.
func TestL1NoRoomHere(t *testing.T) {
	w, remote := newSmall(t, Config{OnConflict: Both})
	w.local.do("write /one 1", "write /old old")
	w.sync()
	large := strings.Repeat("x", 30)
	remote.roomHere = 20
	w.remote.do("write /big "+large, "write /one 2", "write /d/two 3", "write /old "+large+"y")
	w.local.do("write /mine m", "write /old mine")
	for i := range 3 {
		r := w.sync()
		if diff := cmp.Diff(unwritten("/big", "/old"), r.Here); diff != "" || len(r.There) != 0 {
			t.Fatalf("left out there %v, here (-want +got):\n%s", r.There, diff)
		}
		if i > 0 && r.moved() {
			t.Errorf("run %d: %+v", i, r)
		}
		w.local.want("/d/ 755", "/d/two 644 3", "/mine 644 m", "/old 644 mine", "/one 644 2")
		w.remote.want("/big 644 "+large, "/d/ 755", "/d/two 644 3", "/mine 644 m", "/old 644 "+large+"y", "/one 644 2")
		if i > 0 { // also without a restart
			w.restart()
		}
	}
	w.wantConflicts()
	remote.roomHere = 0
	w.restart()
	if r := w.sync(); len(r.Here) != 0 {
		t.Errorf("left out: %v", r.Here)
	}
	w.wantConflicts("/old: " + hash("mine") + " / " + hash(large+"y") + ", kept both copy /old.conflict-" + copyHash("mine"))
	w.sync()
	w.same()
}

// The reason for which there is no room is named as it is, and all of them wait for room.
func TestL1NamesWhyThereIsNoRoom(t *testing.T) {
	for _, reason := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		w, remote := newSmall(t, Config{OnConflict: Both})
		w.local.do("write /one 1")
		w.sync()
		large := strings.Repeat("x", 30)
		remote.room, remote.roomHere, remote.reason = 20, 20, fmt.Errorf("write: %w", reason)
		remote.reasonThere = errors.New("keep content: write: " + reason.Error()) // as the wire has it
		w.remote.do("write /theirs " + large)
		w.local.do("write /mine " + large + "m")
		for range 2 {
			r := w.sync()
			want := [][]changes.Skipped{unwrittenFor(reason, "/theirs"), unwrittenFor(reason, "/mine")}
			if diff := cmp.Diff(want, [][]changes.Skipped{r.Here, r.There}); diff != "" {
				t.Errorf("%v: left out here and there (-want +got):\n%s", reason, diff)
			}
		}
		remote.room, remote.roomHere = 1<<20, 0
		w.restart()
		w.sync()
		w.same()
	}
}

// Content that fits is found with few questions: the smallest files are sent first.
func TestL1FewCallsWithoutRoom(t *testing.T) {
	w, remote := newSmall(t, Config{})
	w.local.do("write /first 1")
	w.sync()
	for i := range 200 {
		w.local.do("write /f" + strings.Repeat("f", i) + " " + strings.Repeat("x", i+1))
	}
	remote.room, remote.calls = 100*101/2, 0
	r := w.sync()
	if len(r.There) != 1 || r.There[0].Count != 100 || r.Pushed != 100 {
		t.Errorf("%d were sent; left out: %+v", r.Pushed, r.There)
	}
	if remote.calls > 20 {
		t.Errorf("%d calls", remote.calls)
	}
	remote.room = 1 << 20
	w.restart()
	w.sync()
	w.same()
}

// A watch does not send over and over what does not fit, nor fetch it: what has another version is sent at
// once, all else after a pause.
func TestL1WatchPausesWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, remote := newSmall(t, Config{})
		w.local.do("write /one 1")
		w.sync()
		large := strings.Repeat("x", 300)
		remote.room, remote.roomHere = 20, 20
		w.local.do("write /big " + large)
		w.remote.do("write /theirs "+large+"1", "write /theirs2 "+large+"2", "write /theirs3 "+large+"3")
		w.sync()
		pending := func(want bool) {
			t.Helper()
			for name, ask := range map[string]func(context.Context) (bool, error){"local": w.m.LocalPending, "remote": w.m.RemotePending} {
				if got, err := ask(t.Context()); err != nil || got && !want {
					t.Errorf("%s: pending %v, %v", name, got, err)
				} else if got {
					return
				}
			}
			if want {
				t.Error("nothing is pending")
			}
		}
		pending(false)
		calls := remote.calls
		for i := range 3 {
			w.local.do(fmt.Sprintf("write /f%d %d", i, i+5))
			pending(true)
			if r := w.sync(); len(r.There) != 1 || r.There[0].Count != 1 || len(r.Here) != 1 || r.Here[0].Count != 3 {
				t.Errorf("left out here %v, there %v", r.Here, r.There)
			}
			pending(false)
		}
		if n := remote.calls - calls; n != 3 {
			t.Errorf("%d calls with content, want 3", n)
		}
		w.local.do("write /big " + large[:10])
		pending(true)
		if r := w.sync(); len(r.There) != 0 {
			t.Errorf("left out: %v", r.There)
		}
		w.local.do("write /big " + large)
		w.sync()
		pending(false)
		remote.room, remote.roomHere = 1<<20, 0
		w.sync()
		pending(false)
		time.Sleep(maxPause)
		pending(true)
		w.sync()
		if r := w.sync(); len(r.Here)+len(r.There) != 0 {
			t.Errorf("left out here %v, there %v", r.Here, r.There)
		}
		w.same()
		pending(false)
	})
}

// The pause before what does not fit is tried again is short at first, and grows with each try in vain.
func TestL1PauseGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, remote := newSmall(t, Config{})
		large := strings.Repeat("x", 300)
		want := func(pauses ...time.Duration) {
			t.Helper()
			for _, pause := range pauses {
				if got := time.Until(w.m.TriesAgain()); got != pause {
					t.Errorf("it is tried again after %v, want %v", got, pause)
				}
				time.Sleep(pause)
				w.sync()
			}
		}
		remote.room = 20
		w.local.do("write /one 1", "write /big "+large)
		w.sync()
		want(time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, maxPause, maxPause)
		remote.room = 1 << 20
		want(maxPause)
		if at := w.m.TriesAgain(); !at.IsZero() {
			t.Errorf("something is tried again at %v", at)
		}
		w.same()
		remote.room, remote.roomHere = 20, 20
		w.local.do("write /big " + large[1:])
		w.sync()
		want(time.Second)
		w.remote.do("write /theirs " + large + "1")
		w.sync()
		want(time.Second) // there is none here either
	})
}

// A cramped remote has no room for some paths when it applies their entries.
type cramped struct {
	*changes.Server
	full  map[string]bool
	calls int
}

func (r *cramped) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	r.calls++
	var list []tree.Entry
	for e, err := entries.Next(ctx); err == nil; e, err = entries.Next(ctx) {
		list = append(list, e)
	}
	entries.Close(nil)
	for _, e := range list {
		if r.full[e.Path] && e.Kind == tree.KindFile {
			return changes.PushResult{}, &changes.Error{Code: changes.CodeNoRoom, Path: e.Path, Err: syscall.ENOSPC}
		}
	}
	return r.Server.Push(ctx, in, changes.FromSlice(list))
}

// Entries for whose content there is no room when they are applied hold up no others either.
func TestL1NoRoomToApply(t *testing.T) {
	w := newWorld(t, Config{})
	remote := &cramped{Server: w.remote.server}
	w.cfg.Remote = remote
	w.restart()
	w.local.do("write /one 1", "write /big old")
	w.sync()
	remote.full = map[string]bool{"/big": true, "/bigger": true}
	w.local.do("write /one 2", "write /big new", "write /bigger 3", "write /two 4")
	r := w.sync()
	if diff := cmp.Diff(unwritten("/big", "/bigger"), r.There); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	w.remote.want("/big 644 old", "/one 644 2", "/two 644 4")
	remote.full = nil
	w.restart()
	if r := w.sync(); len(r.There) != 0 {
		t.Errorf("left out: %v", r.There)
	}
	w.same()
	w.rest()
}

// A tight Workspace has no room for some paths when it applies their entries. once says that it names all of
// them.
type tight struct {
	changes.Workspace
	full map[string]bool
	once bool
}

func (w *tight) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	return w.Workspace.Apply(ctx, func(e *tree.Edit) iter.Seq2[tree.Entry, error] {
		return func(yield func(tree.Entry, error) bool) {
			var paths []string
			for x, err := range entries(e) {
				if err == nil && w.full[x.Path] && x.Kind == tree.KindFile {
					paths = append(paths, x.Path)
					continue
				}
				if !yield(x, err) {
					return
				}
			}
			if len(paths) == 0 {
				return
			}
			err := &changes.Error{Code: changes.CodeNoRoom, Path: paths[0], Err: syscall.ENOSPC}
			if w.once {
				err.More = paths[1:]
			}
			yield(tree.Entry{}, err)
		}
	}, how, also)
}

// tighten gives the local side no room for some paths.
func (w *world) tighten(once bool, full map[string]bool) *tight {
	ws := &tight{Workspace: w.local.ws, full: full, once: once}
	w.local.ws = ws
	w.restart()
	return ws
}

// Entries for whose content there is no room here when they are applied hold up no others, nor what is sent.
// They are named, and come once there is room.
func TestL1NoRoomToApplyHere(t *testing.T) {
	for name, do := range map[string]struct{ here, there string }{
		"written": {"write /mine 1", "write /d/f theirs"}, "changed here": {"write /d/f mine", "write /d/f theirs"},
		"directory removed here": {"rm /d", "write /d/f theirs"}, "file here": {"rm /d; write /d mine", "write /d/f theirs"},
		"file there": {"write /mine 1", "rm /d; write /d theirs"}, "file there, changed here": {"write /d/f mine", "rm /d; write /d theirs"},
		"file there, more here": {"write /d/x/y mine", "rm /d; write /d theirs"},
		"copied":                {"write /mine 1", "write /d/f theirs; write /e/f theirs"}, "renamed": {"write /mine 1", "mv /d /e; write /d/f theirs"},
	} {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
			for _, once := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, %t", name, policy, once), func(t *testing.T) {
					w := newWorld(t, Config{OnConflict: policy})
					ws := w.tighten(once, map[string]bool{"/d": true, "/d/f": true, "/e/f": true})
					w.local.do("write /d/f old", "write /d/g 1", "write /other 1")
					w.restart()
					w.sync()
					w.local.do(lines(do.here)...)
					w.remote.do(lines(do.there)...)
					w.remote.do("write /other 2", "write /more 3")
					w.local.do("write /sent 4")
					for i := range 3 {
						r := w.sync()
						w.nothingPends()
						if got := w.local.line("/other") + w.local.line("/more") + w.remote.line("/sent"); got != "/other 644 2/more 644 3/sent 644 4" {
							t.Errorf("run %d: %q", i, got)
						}
						if len(r.Here) == 0 && r.Held == 0 && policy != Ours || i > 1 && r.moved() {
							t.Errorf("run %d: %+v", i, r)
						}
						if i > 0 { // also without a restart
							w.restart()
						}
					}
					ws.full = nil
					for range 3 {
						w.restart()
						if r := w.sync(); len(r.Here) != 0 {
							t.Errorf("left out: %+v", r.Here)
						}
					}
					if strings.Contains(do.here, " mine") {
						w.wantSomewhere("mine")
					}
					if policy != Ours {
						w.wantSomewhere("theirs")
					}
					if policy != Hold {
						w.same()
					}
				})
			}
		}
	}
}

// A copy of a version that loses for which there is no room holds up no other conflict. Its path is held
// until there is.
func TestL1NoRoomForCopy(t *testing.T) {
	for _, once := range []bool{false, true} {
		w := newWorld(t, Config{OnConflict: Both})
		ws := w.tighten(once, map[string]bool{"/f.conflict-" + copyHash("mine-f"): true})
		w.local.do("write /f old", "write /g old")
		w.sync()
		w.local.do("write /f mine-f", "write /g mine-g")
		w.remote.do("write /f theirs", "write /g theirs", "write /more 1")
		for i := range 3 {
			r := w.sync()
			if diff := cmp.Diff(unwritten("/f"), r.Here); diff != "" || r.Held != 1 {
				t.Errorf("%d held; left out (-want +got):\n%s", r.Held, diff)
			}
			w.local.want("/f 644 mine-f", "/g 644 theirs", "/g.conflict-"+copyHash("mine-g")+" 644 mine-g", "/more 644 1")
			if i > 0 {
				w.restart()
			}
		}
		ws.full = nil
		w.restart()
		if r := w.sync(); len(r.Here) != 0 || r.Held != 0 {
			t.Errorf("%+v", r)
		}
		w.same()
		if got := w.local.line("/f.conflict-" + copyHash("mine-f")); !strings.HasSuffix(got, " mine-f") {
			t.Errorf("here is %q", w.local.list())
		}
	}
}

// Many versions that lose hold up nothing else either if there is no room for copies of them, and each attempt
// tells of one, or of all.
func TestL1NoRoomForManyCopies(t *testing.T) {
	const files = 20
	for _, once := range []bool{false, true} {
		for name, fits := range map[string]bool{"none fits": false, "one fits": true} {
			t.Run(fmt.Sprint(name, ", ", once), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: Both})
				ws := w.tighten(once, map[string]bool{})
				var left, want []string
				for i := range files {
					path, mine := fmt.Sprintf("/f%02d", i), fmt.Sprint("mine-", i)
					w.local.do("write " + path + " old")
					if fits && i == files/2 {
						want = append(want, path+" 644 theirs", path+".conflict-"+copyHash(mine)+" 644 "+mine)
						continue
					}
					ws.full[path+".conflict-"+copyHash(mine)] = true
					left, want = append(left, path), append(want, path+" 644 "+mine)
				}
				w.sync()
				for i := range files {
					w.local.do(fmt.Sprintf("write /f%02d mine-%d", i, i))
					w.remote.do(fmt.Sprintf("write /f%02d theirs", i))
				}
				w.remote.do("write /other 1")
				want = append(want, "/other 644 1")
				for range 2 {
					r := w.sync()
					if diff := cmp.Diff(unwritten(left...), r.Here); diff != "" || r.Held != len(left) {
						t.Errorf("%d held; left out (-want +got):\n%s", r.Held, diff)
					}
					w.local.want(want...)
					w.restart()
				}
				ws.full = nil
				w.restart()
				if r := w.sync(); len(r.Here) != 0 || r.Held != 0 {
					t.Errorf("%+v", r)
				}
				w.same()
				for i := range files {
					mine := fmt.Sprint("mine-", i)
					if got := w.local.line(fmt.Sprintf("/f%02d.conflict-%s", i, copyHash(mine))); !strings.HasSuffix(got, " "+mine) {
						t.Errorf("here is %q", w.local.list())
					}
				}
			})
		}
	}
}

// A change from here that waited, since there was no room for what the remote had at its path, is a change still
// when the conflict is held.
func TestL1HeldAfterItWaited(t *testing.T) {
	w, remote := newSmall(t, Config{OnConflict: Hold})
	w.local.do("write /f old", "write /other 1")
	w.sync()
	remote.roomHere = 20
	w.remote.do("write /f " + strings.Repeat("x", 300))
	w.sync()
	w.local.do("write /f mine", "write /other 2")
	w.sync()
	remote.roomHere = 1 << 20
	w.restart()
	w.sync()
	e, err := w.m.tree.Entry(t.Context(), "/f")
	if err != nil {
		t.Fatal(err)
	}
	if h, known := w.m.s.held.at("/f"); !known || !h.Conflict || e.Rev <= h.Since {
		t.Errorf("the change %d is held as %+v", e.Rev, h)
	}
}
