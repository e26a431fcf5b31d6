package mirror

import (
	"context"
	"fmt"
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
	// roomHere is how much of a call there is room for here, 0 for all.
	roomHere int64
}

func (r *small) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	r.calls++
	var list []tree.Data
	var size int64
	for d, err := objects.Next(ctx); err == nil; d, err = objects.Next(ctx) {
		list, size = append(list, d), size+int64(len(d.Bytes))
		if size > r.room {
			err = &changes.Error{Code: changes.CodeNoRoom, Err: syscall.ENOSPC}
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
			err = syscall.ENOSPC
		}
		return d, err
	}, func(err error) { objects.Close(err) }), err
}

func newSmall(t *testing.T, c Config) (*world, *small) {
	t.Helper()
	w := newWorld(t, c)
	remote := &small{Server: w.remote.server, room: 1 << 20}
	w.cfg.Remote = remote
	w.restart()
	return w, remote
}

func unwritten(paths ...string) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unwritten, Count: len(paths)}
	for _, p := range paths {
		s.Paths = append(s.Paths, changes.SkippedPath{Path: p, Error: "no space left on device"})
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
		time.Sleep(noRoomPause)
		pending(true)
		w.sync()
		if r := w.sync(); len(r.Here)+len(r.There) != 0 {
			t.Errorf("left out here %v, there %v", r.Here, r.There)
		}
		w.same()
		pending(false)
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
