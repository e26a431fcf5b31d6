package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// overtakenThere is a world whose remote has lost a long version of /f to a push from here, and has /f changed once
// more since, so that it cannot go back. There is no room here for a long version.
func overtakenThere(t *testing.T, policy Policy) (w *world, remote *small, long string) {
	t.Helper()
	w, remote = newSmall(t, Config{OnConflict: policy})
	w.local.do("write /f L")
	w.sync()
	long = strings.Repeat("R", 30)
	w.remote.overtaken("/f", long)
	w.remote.do("write /f newer", "write /other 1")
	w.local.do("write /more 1")
	remote.roomHere = 20
	w.restart()
	return w, remote, long
}

// waitsLine is how the conflict of a version is shown for which there is no room here.
func waitsLine(c Conflict) string {
	line := conflictLine(c)
	if c.Waits {
		line += " waits"
	}
	if c.Lost != 0 {
		line += " lost"
	}
	return line
}

// tells has conflicts shown with what becomes of the version that lost.
func (w *world) tells(told *[]string) {
	w.m.cfg.Conflict = func(c Conflict) { *told = append(*told, waitsLine(c)) }
}

// L1: without room here for a version that was overtaken at the remote, it is reported once and stays there. All
// else moves. It is kept here, and reported with its number, once there is room.
func TestL1NoRoomForOvertakenThere(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours, Hold, Fail} {
		for again, reason := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
			t.Run(fmt.Sprint(policy, " ", reason), func(t *testing.T) {
				w, remote, long := overtakenThere(t, policy)
				remote.reason = reason
				var told []string
				for i := range 3 {
					w.tells(&told)
					r := w.sync()
					if diff := cmp.Diff(unwrittenFor(reason, "/f"), r.Here); diff != "" {
						t.Errorf("run %d: left out (-want +got):\n%s", i, diff)
					}
					if i > 0 && r.moved() {
						t.Errorf("run %d moved %+v", i, r)
					}
					w.nothingPends()
					if again > 0 {
						w.restart()
					}
				}
				want := []string{fmt.Sprintf("/f: %s / %s, kept local waits", hash("L"), hash(long))}
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
				w.local.want("/f 644 newer", "/more 644 1", "/other 644 1")
				w.same()
				remote.roomHere, told = 0, nil
				w.restart()
				w.tells(&told)
				if r := w.sync(); len(r.Here) != 0 {
					t.Errorf("left out: %v", r.Here)
				}
				want = []string{fmt.Sprintf("/f: %s / %s, kept local lost", hash("newer"), hash(long))}
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
				w.local.wantLosers("/f conflict " + long)
				w.restart()
				w.rest()
			})
		}
	}
}

// An overtaking Peer loses a version to the first push.
type overtaking struct {
	changes.Peer
	end   *end
	texts []string // in their order; the last one is at the path in the end
	done  bool
}

func (o *overtaking) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	res, err := o.Peer.Push(ctx, in, entries)
	if err != nil || o.done {
		return res, err
	}
	o.done = true
	for _, text := range o.texts {
		o.end.overtaken("/f", text)
	}
	o.end.do("write /f newer")
	list, _, err := o.end.server.Lost(ctx, 0, 0)
	res.Overtaken = list
	return res, err
}

// So it is of versions that the answer to a push names. Those that fit are kept, however many do not.
func TestL1NoRoomForSomeOvertakenByAPush(t *testing.T) {
	w, remote := newSmall(t, Config{})
	w.local.do("write /f base")
	w.sync()
	long := strings.Repeat("R", 30)
	remote.roomHere = 20
	w.cfg.Remote = &overtaking{Peer: remote, end: w.remote, texts: []string{long, "short", long + "2"}}
	w.restart()
	var told []string
	w.tells(&told)
	w.local.do("write /f L", "write /g L")
	if r := w.sync(); len(r.Here) != 1 {
		t.Errorf("left out: %v", r.Here)
	}
	w.local.want("/f 644 newer", "/g 644 L")
	line := func(text, becomes string) string {
		return fmt.Sprintf("/f: %s / %s, kept local %s", hash("L"), hash(text), becomes)
	}
	want := []string{line(long, "waits"), line("short", "lost"), line(long+"2", "waits")}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	w.local.wantLosers("/f conflict short")
	remote.roomHere = 0
	w.restart()
	w.sync()
	w.local.wantLosers("/f conflict "+long, "/f conflict "+long+"2", "/f conflict short")
	w.rest()
}

// A mirror that is cut off at any moment keeps each version once, and loses none.
func TestL1NoRoomForOvertakenThereCut(t *testing.T) {
	for room := range 2 {
		for left := range 40 {
			for _, answer := range []bool{false, true} {
				t.Run(fmt.Sprint(room, " ", left, " ", answer), func(t *testing.T) {
					w, remote, long := overtakenThere(t, Both)
					if room == 1 {
						w.sync()
						remote.roomHere = 0
					}
					cut := &cutter{Peer: remote, left: -1}
					w.cfg.Remote = cut
					w.restart()
					cut.set(left, answer)
					_, err := w.m.Sync(t.Context())
					if err != nil && !errors.Is(err, errCut) {
						t.Fatal(err)
					}
					cut.set(-1, false)
					remote.roomHere = 0
					w.restart()
					w.sync()
					w.same()
					w.local.wantLosers("/f conflict " + long)
					if !slices.ContainsFunc(w.conflicts, func(line string) bool { return strings.Contains(line, hash(long)) }) {
						t.Errorf("told %q", w.conflicts)
					}
				})
			}
		}
	}
}

// A version that went back at the remote just before the mirror was killed is a conflict all the same.
func TestWentBackBeforeAKill(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	w.local.do("write /f L", "write /g 1")
	w.sync()
	w.remote.overtaken("/f", "R")
	w.cfg.Remote = &deaf{w.remote.server}
	w.restart()
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	w.cfg.Remote = nil
	w.restart()
	w.sync()
	w.local.want("/f 644 R", "/f.conflict-"+copyHash("L")+" 644 L", "/g 644 1")
	w.conflicts = nil
	w.rest()
}

// Without room at the remote for what goes back there, it is kept here, and all else moves.
func TestL1NoRoomToGiveBack(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprint(named), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Both})
			w.local.do("write /f L", "write /g L")
			w.sync()
			w.remote.overtaken("/f", "R")
			w.remote.overtaken("/g", "R2")
			w.local.do("write /more 1")
			w.cfg.Remote = &noRoomFor{w.remote.server, "/f", named}
			w.restart()
			w.sync()
			if named {
				w.local.want("/f 644 L", "/g 644 R2", "/g.conflict-"+copyHash("L")+" 644 L", "/more 644 1")
				w.local.wantLosers("/f conflict R")
			} else {
				w.local.want("/f 644 L", "/g 644 L", "/more 644 1")
				w.local.wantLosers("/f conflict R", "/g conflict R2")
			}
			if len(w.conflicts) != 2 {
				t.Errorf("told %q", w.conflicts)
			}
			w.conflicts = nil
			w.restart()
			w.rest()
		})
	}
}

// noRoomFor is a Peer that has no room for a path.
type noRoomFor struct {
	changes.Peer
	path  string
	named bool
}

func (n *noRoomFor) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	var list []tree.Entry
	for e, err := entries.Next(ctx); err == nil; e, err = entries.Next(ctx) {
		list = append(list, e)
	}
	entries.Close(nil)
	if slices.ContainsFunc(list, func(e tree.Entry) bool { return e.Path == n.path }) {
		err := &changes.Error{Code: changes.CodeNoRoom, Err: errors.New("no room")}
		if n.named {
			err.Path = n.path
		}
		return changes.PushResult{}, err
	}
	return n.Peer.Push(ctx, in, changes.FromSlice(list))
}

// Without room here for a version of the remote's that was withheld, the change from here that takes its place is not
// sent, and all else is. The version is named each time.
func TestL1NoRoomForWithheld(t *testing.T) {
	long := strings.Repeat("R", 30)
	for name, do := range map[string]struct{ both, there, here, path, then string }{
		"changed":                {there: "write /.envrc " + long, here: "write /.envrc mine", path: "/.envrc"},
		"below":                  {there: "write /.envrc " + long, here: "mkdir /.envrc; write /.envrc/f mine", path: "/.envrc"},
		"directory becomes file": {both: "write /d/f base", there: "write /d/e/.envrc " + long, here: "rm /d; write /d mine", path: "/d/e/.envrc"},
		"directory becomes link": {both: "write /d/f base", there: "write /d/e/.envrc " + long, here: "rm /d; ln to /d", path: "/d/e/.envrc"},
		"file in the place":      {both: "write /d/.envrc base; write /d/f base", there: "rm /d; write /d " + long, here: "write /d/f mine", path: "/d", then: "write /d/.envrc mine"},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", restarts), func(t *testing.T) {
				w, remote := newSmall(t, Config{})
				w.local.do("write /one 1")
				w.local.do(lines(do.both)...)
				w.sync()
				w.remote.do(lines(do.there)...)
				w.sync()
				w.local.do(lines(do.here)...)
				w.local.do("write /more 1")
				*w.local.clock = w.local.clock.Add(2 * tree.DefaultUnseen)
				if _, err := w.local.forest.Collect(t.Context(), tree.Policy{Grace: -1}); err != nil {
					t.Fatal(err)
				}
				remote.roomHere = 20
				for i := range 3 {
					r := w.sync()
					if diff := cmp.Diff(unwritten(do.path), r.Here); diff != "" {
						t.Errorf("run %d: left out (-want +got):\n%s", i, diff)
					}
					if got := w.remote.line(do.path); got != do.path+" 644 "+long || w.remote.line("/more") == "" {
						t.Errorf("run %d: the remote has %q", i, w.remote.list())
					}
					w.nothingPends()
					if restarts {
						w.restart()
					}
				}
				w.wantConflicts()
				remote.roomHere = 0
				w.restart()
				if r := w.sync(); len(r.Here) > 0 {
					t.Errorf("left out: %v", r.Here)
				}
				w.local.wantLosers(do.path + " conflict " + long)
				if len(w.conflicts) != 1 {
					t.Errorf("told %q", w.conflicts)
				}
				if do.then != "" {
					w.local.do(do.then)
					w.sync()
				}
				w.rest()
			})
		}
	}
}

// Of the versions that one change takes the place of, none is kept or reported until there is room for all. Versions
// that other changes take the place of are kept.
func TestL1NoRoomForSomeWithheld(t *testing.T) {
	w, remote := newSmall(t, Config{OnConflict: Both})
	long := strings.Repeat("R", 30)
	w.local.do("write /d/f base", "write /one 1")
	w.sync()
	w.remote.do("write /d/e/.envrc short", "write /d/g/.envrc "+long, "write /.envrc other")
	w.sync()
	w.local.do("rm /d", "write /d mine", "write /.envrc my")
	remote.roomHere = 20
	for i := range 4 {
		r := w.sync()
		if diff := cmp.Diff(unwritten("/d/g/.envrc"), r.Here); diff != "" {
			t.Errorf("run %d: left out (-want +got):\n%s", i, diff)
		}
		w.restart()
	}
	w.local.wantLosers("/.envrc conflict other")
	if len(w.conflicts) != 1 {
		t.Errorf("told %q", w.conflicts)
	}
	remote.roomHere, w.conflicts = 0, nil
	w.restart()
	w.sync()
	w.local.wantLosers("/.envrc conflict other", "/d/e/.envrc conflict short", "/d/g/.envrc conflict "+long)
	if len(w.conflicts) != 2 {
		t.Errorf("told %q", w.conflicts)
	}
	w.rest()
}

// A mirror that is cut off keeps and reports a withheld version once that it takes the place of, and does so again for
// another one.
func TestWithheldIsKeptOnce(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	w.remote.do("write /.envrc theirs")
	w.sync()
	w.local.do("write /.envrc mine")
	cut := &noPush{Peer: w.remote.server}
	w.cfg.Remote = cut
	w.restart()
	for range 3 {
		if _, err := w.m.Sync(t.Context()); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		w.restart()
	}
	w.local.wantLosers("/.envrc conflict theirs")
	if len(w.conflicts) != 1 {
		t.Errorf("told %q", w.conflicts)
	}
	w.remote.do("write /.envrc newer")
	if _, err := w.m.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.local.do("write /.envrc more")
	for range 2 {
		if _, err := w.m.Sync(t.Context()); !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	// One that is kept no more is kept again.
	w.local.wantLosers("/.envrc conflict newer", "/.envrc conflict theirs")
	last, err := lost.Last(t.Context(), w.local.forest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.local.tree.Update(t.Context(), func(e *tree.Edit) error { return lost.Drop(e, last) }); err != nil {
		t.Fatal(err)
	}
	w.cfg.Remote = nil
	w.restart()
	w.sync()
	w.local.wantLosers("/.envrc conflict newer", "/.envrc conflict theirs")
	w.rest()
}

// noPush is a Peer whose connection breaks at each push.
type noPush struct{ changes.Peer }

func (*noPush) Push(_ context.Context, _ changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	entries.Close(errCut)
	return changes.PushResult{}, errCut
}

// Withheld versions that are to be kept are read beside each other, up to a bound.
func TestWithheldIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{OnConflict: Both})
		w.local.do("write /d/f 1", "write /one 1")
		w.sync()
		for i := range 10 * maxLooks {
			w.remote.do(fmt.Sprintf("write /d/%d/.envrc x%d", i, i))
		}
		w.sync()
		w.local.do("rm /d", "write /d mine")
		w.cfg.Remote = &slowReads{w.remote.server}
		w.restart()
		begin := time.Now()
		w.sync()
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if n := len(w.local.losers()); n != 10*maxLooks {
			t.Errorf("kept %d", n)
		}
	})
}

// slowReads is a Peer that is a second away if asked for an entry.
type slowReads struct{ changes.Peer }

func (s *slowReads) ReadEntry(ctx context.Context, path string) (*tree.Entry, error) {
	time.Sleep(time.Second)
	return s.Peer.ReadEntry(ctx, path)
}
