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
}

// A path that could not be read here when it was looked at first is not taken for what both sides had: no
// policy has it replaced.
func TestUnseenVersionIsNotReplaced(t *testing.T) {
	for name, do := range unseenCases {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold, Fail} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: policy})
				w.local.do("write /d/f old", "write /d/g 1", "write /closed/f old", "write /other 1")
				w.sync()
				ws := w.closeAt(do.closed)
				had, theirs := w.local.hashAt(do.path), ""
				w.remote.do(lines(do.there)...)
				w.remote.do("write /other 2", "write /more 3")
				theirs = strings.Join(w.remote.list(), "\n")
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
				found := false
				for _, e := range []*end{w.local, w.remote} {
					for _, line := range append(e.list(), e.losers()...) {
						found = found || strings.HasSuffix(line, " mine")
					}
				}
				if !found {
					t.Errorf("it is nowhere: here %q, there %q", w.local.list(), w.remote.list())
				}
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
		w := newWorld(t, Config{OnConflict: policy})
		w.local.do("write /closed/f old", "write /f old")
		w.sync()
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
	w := newWorld(t, Config{OnConflict: Fail})
	w.local.do("write /d/f old", "write /g 1")
	w.sync()
	w.closeAt("/d/f")
	w.remote.do("write /d/n 1", "write /g 2")
	w.sync()
	w.wantConflicts()
	w.local.want("/d/ 755", "/d/f 644 old", "/d/n 644 1", "/g 644 2")
}
