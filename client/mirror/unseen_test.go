package mirror

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/changes"
)

// closeAt has the local directory name paths that it cannot read.
func (w *world) closeAt(paths ...string) *naming {
	ws := &naming{Workspace: w.local.ws}
	for _, p := range paths {
		ws.paths = append(ws.paths, changes.SkippedPath{Path: p, Error: "permission denied"})
	}
	w.local.ws = ws
	w.restart()
	return ws
}

// unseenCases are changes at the remote where this side has something that it could not read since both agreed.
var unseenCases = map[string]struct{ there, path, closed string }{
	"written":               {"write /d/f theirs", "/d/f", "/d/f"},
	"removed":               {"rm /d/f", "/d/f", "/d/f"},
	"directory removed":     {"rm /d", "/d/f", "/d/f"},
	"directory renamed":     {"mv /d /e", "/d/f", "/d/f"},
	"directory is a file":   {"rm /d; write /d theirs", "/d/f", "/d/f"},
	"becomes a directory":   {"rm /d/f; write /d/f/x theirs", "/d/f", "/d/f"},
	"becomes a link":        {"rm /d/f; ln to /d/f", "/d/f", "/d/f"},
	"new":                   {"write /new theirs", "/new", "/new"},
	"new in directories":    {"write /new/e/w theirs", "/new", "/new"},
	"below a directory":     {"write /closed/f theirs", "/closed/f", "/closed"},
	"new below a directory": {"write /closed/n theirs", "/closed/n", "/closed"},
	"directory goes":        {"rm /closed", "/closed/f", "/closed"},
	"removed below one":     {"rm /closed/f", "/closed/f", "/closed"},
}

// A path that could not be read here when it was looked at first is not taken for what both sides had: no
// policy has it replaced.
func TestUnseenVersionIsNotReplaced(t *testing.T) {
	for name, do := range unseenCases {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold, Fail} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				w := inStep(t, Config{OnConflict: policy}, "write /d/f old", "write /d/g 1", "write /closed/f old", "write /other 1")
				ws := w.closeAt(do.closed)
				had := w.local.hashAt(do.path)
				w.remote.do(lines(do.there)...)
				w.remote.do("write /other 2", "write /more 3")
				theirs := strings.Join(w.remote.list(), "\n")
				for i := range 4 {
					if policy == Fail {
						var failed *ConflictError
						if _, err := w.m.Sync(context.Background()); !errors.As(err, &failed) {
							t.Fatalf("run %d: %v", i, err)
						}
					} else if r := w.sync(); r.Held == 0 || len(r.Here) == 0 || i > 0 && r.moved() {
						t.Errorf("run %d: held %d, %+v", i, r.Held, r)
					}
					if got := w.local.hashAt(do.path); got != had {
						t.Fatalf("run %d: it was replaced", i)
					}
					if got := strings.Join(w.remote.list(), "\n"); got != theirs {
						t.Fatalf("run %d: the remote has %s", i, got)
					}
					for _, path := range []string{"/other", "/more"} {
						if came := w.local.hashAt(path) == w.remote.hashAt(path); came != (policy != Fail) {
							t.Errorf("%s has come: %v", path, came)
						}
					}
					if policy != Fail {
						w.nothingPends()
					}
					if i > 0 {
						w.restart()
					}
				}
				if len(w.conflicts) == 0 && policy != Fail {
					t.Error("no conflict is told of")
				}
				ws.paths = nil
				w.local.do("write " + do.path + " mine")
				w.m.cfg.OnConflict = policy
				for range 3 {
					w.restart()
					if _, err := w.m.Sync(context.Background()); (err != nil) != (policy == Fail) {
						t.Fatal(err)
					}
				}
				w.wantSomewhere("mine")
				if policy.decides() {
					w.same()
				}
			})
		}
	}
}

// A path that was held since it could not be read, and has not changed here, takes the remote's version.
func TestUnseenVersionHasNotChanged(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours} {
		w := inStep(t, Config{OnConflict: policy}, "write /closed/f old", "write /f old")
		ws := w.closeAt("/closed", "/f")
		w.remote.do("write /closed/f theirs", "rm /f")
		if r := w.sync(); r.Held != 2 {
			t.Errorf("%s: %+v", policy, r)
		}
		ws.paths = nil
		if pending, err := w.m.LocalPending(t.Context()); !pending || err != nil {
			t.Errorf("%s: pending: %v, %v", policy, pending, err)
		}
		w.sync()
		w.local.want("/closed/ 755", "/closed/f 644 theirs")
		w.same()
	}
}

// Nothing is held that both sides have as it is, or that nothing comes for.
func TestUnseenVersionStays(t *testing.T) {
	w := inStep(t, Config{OnConflict: Fail}, "write /d/f old", "write /g 1")
	w.closeAt("/d/f")
	w.remote.do("write /d/n 1", "write /g 2")
	w.sync()
	w.wantConflicts()
	w.local.want("/d/ 755", "/d/f 644 old", "/d/n 644 1", "/g 644 2")
}

// A change from here that waited, and is held since there is no room to keep it, is no version that both sides have:
// it is decided as a change also if it could not be read for a while.
func TestUnseenVersionThatWaited(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
		t.Run(policy.String(), func(t *testing.T) {
			w, remote := newSmall(t, Config{OnConflict: policy})
			ws := &tight{Workspace: w.local.ws}
			w.local.ws = ws
			w.restart()
			w.local.do("write /f old", "write /other 1")
			w.sync()
			remote.roomHere = 20
			w.remote.do("write /f " + strings.Repeat("x", 300))
			w.sync()
			w.local.do("write /f mine", "write /other 2")
			w.sync()
			ws.full = map[string]bool{"/f.conflict-" + copyHash("mine"): true}
			remote.roomHere = 1 << 20
			w.restart()
			w.sync()
			if policy == Both {
				if h, _ := w.m.s.held.at("/f"); h.Unkept != "/f" {
					t.Errorf("it is held as %+v", h)
				}
			}
			closed := w.closeAt("/f")
			w.sync()
			closed.paths, ws.full = nil, nil
			if policy != Ours { // else it was sent
				w.remote.do("write /f newer")
			}
			w.again()
			w.wantSomewhere("mine")
			if policy.decides() {
				w.same()
			}
		})
	}
}

// Nor is one that was held because nobody could read it.
func TestUnseenVersionThatWasHeld(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
		t.Run(policy.String(), func(t *testing.T) {
			w := inStep(t, Config{OnConflict: policy}, "write /f old")
			w.local.do("write /f mine")
			w.local.lose("mine")
			w.remote.do("write /f theirs")
			w.sync()
			closed := w.closeAt("/f")
			w.sync()
			closed.paths = nil
			w.local.find("mine")
			w.remote.do("write /f newer")
			w.again()
			w.wantSomewhere("mine")
			if policy.decides() {
				w.same()
			}
		})
	}
}

// wantSomewhere wants a text at one of the ends, in its tree or among its lost versions.
func (w *world) wantSomewhere(text string) {
	w.t.Helper()
	for _, e := range []*end{w.local, w.remote} {
		for _, line := range append(e.list(), e.losers()...) {
			if strings.HasSuffix(line, " "+text) {
				return
			}
		}
	}
	w.t.Errorf("%s is nowhere: here %q, there %q", text, w.local.list(), w.remote.list())
}

// A directory that was held since something in it could not be read goes with its files if none has changed: nothing of
// it counts as changed since revision 0.
func TestUnseenVersionInDirectory(t *testing.T) {
	for there, want := range map[string][]string{"rm /d": {"/other 644 1"}, "rm /d; write /d theirs": {"/d 644 theirs", "/other 644 1"}} {
		for _, policy := range []Policy{Theirs, Both, Ours} {
			t.Run(there+", "+policy.String(), func(t *testing.T) {
				w := inStep(t, Config{OnConflict: policy}, "write /d/f old", "write /d/g 1", "write /other 1")
				ws := w.closeAt("/d/f")
				w.remote.do(lines(there)...)
				w.sync()
				if h, known := w.m.s.held.at("/d"); !known || h.Since < 0 || h.Agreed == "" {
					t.Errorf("it is held as %+v", h)
				}
				w.conflicts = nil
				ws.paths = nil
				w.restart()
				w.sync()
				w.wantConflicts()
				w.local.want(want...)
				w.rest()
			})
		}
	}
}

// A file in a directory that could not be read, which was edited, is in conflict with its removal by the remote.
func TestUnseenVersionIsRemovedBelow(t *testing.T) {
	w := inStep(t, Config{OnConflict: Theirs}, "write /closed/f old", "write /other 1")
	ws := w.closeAt("/closed")
	w.remote.do("rm /closed/f")
	w.sync()
	ws.paths = nil
	w.local.do("write /closed/f mine")
	w.restart()
	w.sync()
	w.local.want("/closed/ 755", "/other 644 1")
	w.wantSomewhere("mine")
	w.rest()
}

// A file in it that changed meanwhile is a conflict, and nothing else is.
func TestUnseenVersionInDirectoryAndChange(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
		t.Run(policy.String(), func(t *testing.T) {
			w := inStep(t, Config{OnConflict: policy}, "write /d/f old", "write /d/g 1", "write /d/e/h 1")
			ws := w.closeAt("/d/f")
			w.remote.do("rm /d")
			w.sync()
			w.local.do("write /d/g mine-g", "write /d/new mine-new")
			w.sync()
			ws.paths = nil
			w.local.do("write /d/f mine-f")
			w.again()
			for _, text := range []string{"mine-f", "mine-g", "mine-new"} {
				w.wantSomewhere(text)
			}
			if policy.decides() {
				w.same()
			}
		})
	}
}

// A version that was overtaken does not go back to a path that could not be read since: it takes no unseen version's
// place.
func TestUnseenVersionIsNotOvertaken(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours, Hold, Fail} {
		t.Run(policy.String(), func(t *testing.T) {
			w := inStep(t, Config{OnConflict: policy}, "write /f old")
			w.local.overtaken("/f", "mine")
			w.closeAt("/f")
			var failed *ConflictError
			if _, err := w.m.Sync(t.Context()); err != nil && (policy != Fail || !errors.As(err, &failed)) {
				t.Fatal(err)
			}
			if got := w.local.line("/f"); got != "/f 644 old" {
				t.Errorf("here is %q", got)
			}
			w.wantSomewhere("mine")
		})
	}
}
