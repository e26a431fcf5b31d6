package mirror

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/lost"
)

// kept is the paths and contents of the versions that an end keeps.
func (e *end) kept() []string {
	e.t.Helper()
	ctx := e.context()
	var out []string
	err := lost.List(ctx, e.forest, 0, func(v *lost.Version) error {
		line := fmt.Sprintf("%s %o %s", v.Path, v.Entry.Mode, v.Entry.Target)
		for _, p := range v.Entry.Parts {
			b, err := e.forest.Chunk(ctx, p.Hash, nil)
			if err != nil {
				return err
			}
			line += string(b)
		}
		out = append(out, line+" "+string(v.Why))
		return nil
	})
	if err != nil {
		e.t.Fatalf("list what is kept: %v", err)
	}
	return out
}

// held lists what is held in conflict.
func (w *world) held() []string {
	w.t.Helper()
	list, err := w.m.Conflicts(w.local.context())
	if err != nil {
		w.t.Fatalf("list conflicts: %v", err)
	}
	var out []string
	for _, c := range list {
		if !c.Held {
			w.t.Errorf("not held: %+v", c)
		}
		out = append(out, c.Path+": "+shown(c.Local)+" / "+shown(c.Remote))
	}
	return out
}

// Each begins with /f, /d/g and /d/h on both sides, and with what was done on both; then the
// conflict is held, something else changes, and it is resolved.
func TestHold(t *testing.T) {
	base := "/d/ 755; /d/g 644 base; /d/h 644 h"
	for _, tt := range []struct {
		local, remote   string
		held            string // the paths
		here, there     string // as it is held
		ours, theirs    string
		keptBy, keptFor string // what is kept here with ours, and with theirs
	}{
		{
			"write /f L", "write /f R", "/f", "/f 644 L;" + base, "/f 644 R;" + base,
			"/f 644 L;" + base, "/f 644 R;" + base, "/f 644 R", "/f 644 L",
		},
		{
			"rm /f", "write /f R", "/f", base, "/f 644 R;" + base,
			base, "/f 644 R;" + base, "/f 644 R", "",
		},
		{
			"write /f L", "rm /f", "/f", "/f 644 L;" + base, base,
			"/f 644 L;" + base, base, "", "/f 644 L",
		},
		{
			"chmod /f 600", "chmod /f 755", "/f", "/f 600 base;" + base, "/f 755 base;" + base,
			"/f 600 base;" + base, "/f 755 base;" + base, "/f 755 base", "/f 600 base",
		},
		{
			"write /d/g L; write /d/n N", "rm /d", "/d/g", "/f 644 base; /d/ 755; /d/g 644 L; /d/n 644 N", "/f 644 base; /d/ 755; /d/n 644 N",
			"/f 644 base; /d/ 755; /d/g 644 L; /d/n 644 N", "/f 644 base; /d/ 755; /d/n 644 N", "", "/d/g 644 L",
		},
		{
			"write /d/g L", "rm /d", "/d", "/f 644 base; /d/ 755; /d/g 644 L; /d/h 644 h", "/f 644 base",
			"/f 644 base; /d/ 755; /d/g 644 L", "/f 644 base", "", "/d/g 644 L",
		},
		{
			"write /d/g L", "rm /d; write /d R", "/d", "/f 644 base; /d/ 755; /d/g 644 L", "/f 644 base; /d 644 R",
			"/f 644 base; /d/ 755; /d/g 644 L", "/f 644 base; /d 644 R", "/d 644 R", "/d/g 644 L",
		},
		{
			"rm /d; write /d L", "write /d/n R", "/d", "/f 644 base; /d 644 L", "/f 644 base; /d/ 755; /d/g 644 base; /d/h 644 h; /d/n 644 R",
			"/f 644 base; /d 644 L", "/f 644 base; /d/ 755; /d/g 644 base; /d/h 644 h; /d/n 644 R", "/d/n 644 R", "/d 644 L",
		},
		{
			"rm /d", "write /d/g R", "/d/g", "/f 644 base", "/f 644 base; /d/ 755; /d/g 644 R",
			"/f 644 base", "/f 644 base; /d/ 755; /d/g 644 R", "/d/g 644 R", "",
		},
		{
			"chmod /d 700; write /d/g L", "chmod /d 711; write /d/h R", "/d", "/f 644 base; /d/ 700; /d/g 644 L; /d/h 644 R", "/f 644 base; /d/ 711; /d/g 644 L; /d/h 644 R",
			"/f 644 base; /d/ 700; /d/g 644 L; /d/h 644 R", "/f 644 base; /d/ 711; /d/g 644 L; /d/h 644 R", "", "",
		},
	} {
		for _, policy := range []Policy{Ours, Theirs} {
			for _, later := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, %s, later %t", tt.local, tt.remote, policy, later), func(t *testing.T) {
					w := newWorld(t, Config{OnConflict: Hold})
					w.local.do("write /f base", "write /d/g base", "write /d/h h", "write /o 1")
					w.sync()
					w.local.do(lines(tt.local)...)
					w.remote.do(lines(tt.remote)...)
					_, plan, err := w.plan()
					if err != nil {
						t.Fatal(err)
					}
					r := w.sync()
					if r.Held != len(lines(tt.held)) || len(plan.Conflicts) != r.Conflicts || !plan.Conflicts[0].Held || r.Pushed != plan.ToRemote {
						t.Errorf("%+v; planned %+v", r, plan)
					}
					for _, line := range w.conflicts {
						if !strings.Contains(line, "kept none") {
							t.Error(line)
						}
					}
					w.conflicts = nil
					w.local.do("write /o 2")
					w.remote.do("write /p 3")
					w.restart()
					if r = w.sync(); r.Held != len(lines(tt.held)) || r.Conflicts != 0 {
						t.Errorf("again: %+v", r)
					}
					want := func(e *end, list string) {
						t.Helper()
						all := append(lines(list), "/o 644 2", "/p 644 3")
						sortLines(all)
						if diff := cmp.Diff(all, e.list()); diff != "" {
							t.Errorf("(-want +got):\n%s", diff)
						}
					}
					want(w.local, tt.here)
					want(w.remote, tt.there)
					var held []string
					for _, line := range w.held() {
						path, _, _ := strings.Cut(line, ":")
						held = append(held, path)
					}
					if !slices.Equal(held, lines(tt.held)) {
						t.Fatalf("held %q", held)
					}
					if later { // by a run with a policy that decides
						w.cfg.OnConflict = policy
						w.restart()
						w.sync()
					} else if _, err := w.m.Resolve(t.Context(), held[0], policy); err != nil {
						t.Fatal(err)
					}
					kept := tt.ours
					lost := tt.keptBy
					if policy == Theirs {
						kept, lost = tt.theirs, tt.keptFor
					}
					want(w.local, kept)
					if len(w.conflicts) == 0 {
						t.Error("it is not reported")
					}
					w.conflicts = nil
					var gone []string
					for _, line := range lines(lost) {
						gone = append(gone, line+" conflict")
					}
					sorted := w.local.kept()
					sortLines(sorted)
					if diff := cmp.Diff(gone, sorted); diff != "" {
						t.Errorf("kept (-want +got):\n%s", diff)
					}
					if list := w.held(); list != nil {
						t.Errorf("still held: %q", list)
					}
					w.rest()
				})
			}
		}
	}
}

// What changes on either side of a path that is held stays there; what comes to be the same
// is held no longer.
func TestHeldGoesOn(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold})
	w.local.do("write /f base", "write /g base")
	w.sync()
	w.local.do("write /f L", "write /g L")
	w.remote.do("write /f R", "write /g R")
	w.sync()
	w.conflicts = nil
	w.local.do("write /f L2", "rm /g")
	w.remote.do("write /f R2", "mkdir /g.d")
	w.sync()
	w.local.want("/f 644 L2", "/g.d/ 755")
	w.remote.want("/f 644 R2", "/g 644 R", "/g.d/ 755")
	if diff := cmp.Diff([]string{"/f: " + hash("L2") + " / " + hash("R2"), "/g: delete / " + hash("R")}, w.held()); diff != "" {
		t.Error(diff)
	}
	w.wantConflicts()

	// With fail nothing moves as long as something is held.
	w.cfg.OnConflict = Fail
	w.restart()
	w.local.do("write /new L")
	var failed *ConflictError
	if _, err := w.m.Sync(t.Context()); !errors.As(err, &failed) || len(failed.Conflicts) != 2 || !failed.Conflicts[1].Held {
		t.Fatalf("%v, %+v", err, failed)
	}
	if _, _, err := w.plan(); !errors.As(err, &failed) {
		t.Fatal(err)
	}
	w.remote.want("/f 644 R2", "/g 644 R", "/g.d/ 755")

	w.cfg.OnConflict = Hold
	w.restart()
	w.remote.do("write /f L2")
	w.sync()
	if diff := cmp.Diff([]string{"/g: delete / " + hash("R")}, w.held()); diff != "" {
		t.Error(diff)
	}
	// The directory above, too, is held as long as something in it is.
	for _, path := range []string{"/f", "/g/x", "/nowhere"} {
		_, err := w.m.Resolve(t.Context(), path, Theirs)
		if e, ok := errors.AsType[*NotHeldError](err); !ok || e.Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, policy := range []Policy{Hold, Fail} {
		if _, err := w.m.Resolve(t.Context(), "/g", policy); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if _, err := w.m.Resolve(t.Context(), "/", Both); err != nil {
		t.Fatal(err)
	}
	w.wantConflicts("/g: delete / " + hash("R") + ", kept remote")
	w.rest()
}

// A directory that is removed here, or that something else takes the place of, does not take
// along at the remote what is held in it.
func TestHeldBelow(t *testing.T) {
	for _, do := range []string{"rm /d", "rm /d; write /d L2", "mv /d /e"} {
		t.Run(do, func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: Hold})
			w.local.do("write /d/f base", "write /d/g base")
			w.sync()
			w.local.do("write /d/f L")
			w.remote.do("write /d/f R")
			w.sync()
			w.local.do(lines(do)...)
			w.sync()
			if got := w.remote.list(); !slices.Contains(got, "/d/f 644 R") {
				t.Fatalf("remote %q", got)
			}
			w.cfg.OnConflict = Ours
			w.restart()
			w.sync()
			if got := w.remote.list(); slices.Contains(got, "/d/f 644 R") {
				t.Errorf("remote %q", got)
			}
			if got := w.local.kept(); !slices.Contains(got, "/d/f 644 R conflict") {
				t.Errorf("kept %q", got)
			}
			w.conflicts = nil
			w.rest()
		})
	}
}

// A held conflict outlives the loss of the remote's store, and interrupted resolving.
func TestHeldIsNotLost(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold})
	w.local.do("write /f base", "write /g base")
	w.sync()
	w.local.do("write /f L")
	w.remote.do("write /f R")
	cut := &cutter{Peer: w.remote.server, left: -1}
	w.cfg.Remote = cut
	w.restart()
	w.sync()
	for left := 1; ; left++ {
		cut.set(left, left%2 == 0)
		_, err := w.m.Resolve(t.Context(), "/f", Theirs)
		cut.set(-1, false)
		if err == nil {
			break
		}
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if w.local.line("/f") == "/f 644 R" {
			w.sync() // it had been decided
			break
		}
		w.sync()
		if diff := cmp.Diff([]string{"/f: " + hash("L") + " / " + hash("R")}, w.held()); diff != "" {
			t.Fatalf("after %d: %s", left, diff)
		}
	}
	w.local.want("/f 644 R", "/g 644 base")
	w.conflicts = nil
	w.rest()

	w.local.do("write /g L")
	w.remote.do("write /g R")
	w.sync()
	w.conflicts = nil
	w.cfg.Remote = nil
	w.lose(w.remote, 9000)
	w.sync()
	w.local.want("/f 644 R", "/g 644 L")
	w.rest()
}

// Too many conflicts are not held: nothing is pulled.
func TestHeldTooMany(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold})
	w.local.do("write /f base", "write /g base")
	w.sync()
	w.local.do("write /f L")
	w.remote.do("write /f R")
	full := map[string]*held{}
	for i := range maxHeld {
		full[fmt.Sprintf("/held/%d", i)] = &held{Conflict: true}
	}
	if _, err := w.m.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.m.s.held = w.m.s.held.with(full)
	w.local.do("write /g L")
	w.remote.do("write /g R")
	if _, err := w.m.Pull(t.Context()); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
	w.local.want("/f 644 L", "/g 644 L")
}

// The version that loses a conflict is kept, once, with a number that is told.
func TestLosersAreKept(t *testing.T) {
	for _, tt := range []struct {
		policy        Policy
		local, remote string
		kept          string
	}{
		{Theirs, "write /f L", "write /f R", "/f 644 L"},
		{Ours, "write /f L", "write /f R", "/f 644 R"},
		{Both, "write /f L", "write /f R", ""},
		{Theirs, "write /f L", "rm /f", "/f 644 L"},
		{Ours, "rm /f", "write /f R", "/f 644 R"},
		{Both, "rm /f", "write /f R", ""},
		{Theirs, "write /d/a L; write /d/b L", "rm /d", "/d/a 644 L; /d/b 644 L"},
		{Ours, "rm /d; write /d L", "write /d/a R; write /d/n R", "/d/a 644 R; /d/n 644 R"},
		{Theirs, "rm /l; ln L /l", "rm /l; ln R /l", "/l 777 L"},
		{Theirs, "chmod /f 600", "chmod /f 755", "/f 600 base"},
		{Ours, "write /.envrc L", "write /.envrc R", "/.envrc 644 R"},
	} {
		t.Run(fmt.Sprint(tt.policy, tt.local, tt.remote), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: tt.policy})
			w.local.do("write /f base", "write /d/a base", "write /d/b base", "ln f /l")
			w.sync()
			w.local.do(lines(tt.local)...)
			w.remote.do(lines(tt.remote)...)
			var told []Conflict
			w.restart()
			w.m.cfg.Conflict = func(c Conflict) { told = append(told, c) }
			w.sync()
			var want []string
			for _, line := range lines(tt.kept) {
				want = append(want, line+" conflict")
			}
			got := w.local.kept()
			sortLines(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			numbers := map[int64]bool{}
			for _, c := range told {
				numbers[c.Lost] = true
				if tt.kept == "" && c.Lost != 0 || tt.kept != "" && c.Lost == 0 {
					t.Errorf("%+v", c)
				}
				if c.OfModes() != strings.HasPrefix(tt.local, "chmod") || c.OfModes() && c.Local.Mode == c.Remote.Mode {
					t.Errorf("of modes %t: %+v", c.OfModes(), c)
				}
			}
			if tt.kept != "" && len(numbers) != len(got) {
				t.Errorf("%d versions are kept, and %d are named", len(got), len(numbers))
			}
		})
	}
}

// A held conflict at a path that is ignored now is nothing that Fail fails for.
func TestFailIgnoresHeld(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold})
	w.local.do("write /x/a 0")
	w.sync()
	w.local.do("write /x/a 1")
	w.remote.do("write /x/a 2")
	w.sync()
	w.cfg.OnConflict = Fail
	w.restart()
	if _, err := w.m.Sync(t.Context()); err == nil {
		t.Error("what is held is let pass")
	}
	w.cfg.Ignore = []string{"x"}
	w.restart()
	w.conflicts = nil
	w.local.do("write /q 1")
	if _, _, err := w.plan(); err != nil {
		t.Errorf("plan: %v", err)
	}
	w.sync()
	w.remote.want("/q 644 1", "/x/ 755", "/x/a 644 2")
	w.cfg.Ignore = nil
	w.restart()
	if _, err := w.m.Sync(t.Context()); err == nil {
		t.Error("what is held is let pass when it is ignored no more")
	}
}
