package mirror

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// F3: what comes for a path at which there is a pipe here is held in conflict until that is gone, whatever the policy.
// A removal takes the rest, and holds nothing.
func TestF3PipeIsInTheWay(t *testing.T) {
	for name, do := range map[string]struct {
		there, pipe string
		held        bool
		left        string // what the tree has at the pipe's path, or below it, then
		conflict    bool   // once the pipe has gone, since its path counts as removed here
	}{
		"written":                {"write /f theirs", "/f", true, "/f 644 old", true},
		"becomes a directory":    {"rm /f; write /f/x theirs", "/f", true, "/f 644 old", true},
		"removed":                {"rm /f", "/f", false, "", false},
		"touched nowhere near":   {"write /g theirs", "/f", false, "/f 644 old", false},
		"new":                    {"write /new theirs", "/new", true, "", false},
		"new directory":          {"write /new/x theirs", "/new", true, "", false},
		"below it":               {"write /d/x theirs", "/d", true, "/d/ 755", true},
		"new below it":           {"write /d/e/f theirs", "/d", true, "/d/ 755", false},
		"its directory goes":     {"rm /d", "/d/x", false, "", false},
		"removed below it":       {"rm /d/x", "/d", false, "/d/ 755", false},
		"its directory is moved": {"mv /d /e", "/d/x", false, "", false},
	} {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold, Fail} {
			for _, plain := range []bool{false, true} {
				t.Run(name+", "+policy.String(), func(t *testing.T) {
					w := newWorld(t, Config{OnConflict: policy})
					if plain {
						w.cfg.Remote = w.remote.server.PlainNames()
						w.restart()
					}
					w.local.do("write /f old", "write /d/x old", "write /d/y old")
					w.sync()
					ws := w.closeAt(do.pipe)
					ws.special = true
					w.restart()
					for range 2 {
						if r := w.sync(); r.moved() || r.Held > 0 || len(r.Here) != 1 || r.Here[0].Why != changes.Special {
							t.Errorf("at rest: %+v", r)
						}
					}
					w.remote.do(lines(do.there)...)
					w.remote.do("write /more 3")
					theirs := strings.Join(w.remote.list(), "\n")
					failed := policy == Fail && do.held
					for i := range 3 {
						r, err := w.m.Sync(context.Background())
						if _, is := errors.AsType[*ConflictError](err); is != failed || err != nil && !is {
							t.Fatalf("run %d: %v", i, err)
						}
						if !failed && ((r.Held > 0) != do.held || i > 0 && r.moved()) {
							t.Errorf("run %d: %+v", i, r)
						}
						if got := strings.Join(w.remote.list(), "\n"); got != theirs {
							t.Fatalf("run %d: the remote has %s", i, got)
						}
						got := ""
						for _, line := range w.local.list() {
							if strings.HasPrefix(line, do.pipe+" ") || strings.HasPrefix(line, do.pipe+"/ ") {
								got = line
							}
						}
						if got != do.left {
							t.Errorf("run %d: here is %q, want %q", i, got, do.left)
						}
						w.restart()
					}
					for _, c := range []Policy{Theirs, Ours, Both} {
						if failed || !do.held {
							break
						}
						r, err := w.m.Resolve(context.Background(), do.pipe, c)
						want := []Undecided{{Path: do.pipe, Why: UndecidedSpecial, Of: do.pipe}}
						if err != nil {
							t.Fatal(err)
						}
						if diff := cmp.Diff(want, r.Undecided); diff != "" {
							t.Errorf("undecided (-want +got):\n%s", diff)
						}
					}
					// The pipe goes, and what was there with it.
					ws.paths = nil
					if e, err := w.local.tree.Entry(context.Background(), do.pipe); err == nil && e.Kind != tree.KindDelete {
						w.local.do("rm " + do.pipe)
					}
					for range 3 {
						_, err := w.m.Sync(context.Background())
						if _, is := errors.AsType[*ConflictError](err); is != (policy == Fail && do.conflict) || err != nil && !is {
							t.Fatal(err)
						}
						w.restart()
					}
					if policy.decides() || !do.held || policy == Fail && !do.conflict {
						w.same()
					} else if got := strings.Join(w.remote.list(), "\n"); got != theirs {
						t.Errorf("at the end the remote has %s, want %s", got, theirs)
					}
				})
			}
		}
	}
}
