package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A directory that was removed here, and stays at the remote for what only the remote has in it, goes once there is no
// such thing any more.
func TestRemovalIsSentOnceNothingHoldsItUp(t *testing.T) {
	long := "write /d/e/b " + strings.Repeat("x", 30)
	for name, do := range map[string]struct {
		cfg               Config
		both, there, here string // what both have, and then does each side
		then, room        string // what the remote does once the removal was held up
	}{
		"no room, removed":           {there: long, then: "rm /d/e/b"},
		"no room, moved away":        {there: long, then: "mv /d/e/b /b"},
		"no room, moved, then room":  {there: long, then: "mv /d/e/b /b", room: "before"},
		"no room, all above":         {there: long, here: "rm /d", then: "rm /d/e/b"},
		"no room, directory removed": {there: long, here: "rm /d", then: "rm /d/e"},
		"changed, no room":           {both: "write /d/e/b old", there: long, then: "rm /d/e/b"},
		"code":                       {there: "write /d/e/.envrc x", then: "rm /d/e/.envrc"},
		"code, removed here":         {both: "write /d/e/.envrc x", there: "write /d/e/.envrc y", then: "write /other 1"},
		"held":                       {cfg: Config{OnConflict: Hold}, there: "write /d/e/a theirs", then: "rm /d/e/a"},
		"hidden":                     {cfg: Config{Rules: []string{"*.log"}}, there: "write /d/e/b.log x", then: "rm /d/e/b.log"},
		"hidden deep":                {cfg: Config{Rules: []string{"*.log"}}, there: "write /d/e/f/b.log x", then: "rm /d/e/f"},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", restarts), func(t *testing.T) {
				if do.cfg.OnConflict == Theirs {
					do.cfg.OnConflict = Both
				}
				w, remote := newSmall(t, do.cfg)
				w.local.do("write /d/e/a 1", "write /d/c 2", "write /one 3")
				w.local.do(lines(do.both)...)
				w.sync()
				remote.roomHere = 20
				if do.cfg.OnConflict == Hold {
					w.local.do("write /d/e/a mine")
				}
				w.remote.do(lines(do.there)...)
				w.sync()
				if do.here == "" {
					do.here = "rm /d/e"
				}
				w.local.do(do.here)
				if restarts {
					w.restart()
				}
				w.sync()
				w.nothingPends()
				if got := w.remote.line("/d/e/"); got == "" && name != "code, removed here" {
					t.Fatalf("the remote has %q", w.remote.list())
				}
				if do.room == "before" {
					remote.roomHere = 0
				}
				w.remote.do(do.then)
				if restarts {
					w.restart()
				}
				w.sync()
				if got := w.remote.line("/d/e/"); got != "" {
					t.Errorf("the remote has %q, this side %q", w.remote.list(), w.local.list())
				}
				remote.roomHere = 0
				w.restart()
				w.sync()
				w.same()
				w.conflicts = nil
				w.rest()
			})
		}
	}
}

// A change of the remote's to a directory is withheld only as long as the directory has something here that makes
// programs run code.
func TestWithheldUntilCodeIsGone(t *testing.T) {
	for name, do := range map[string]struct{ there, want string }{
		"removed": {there: "rm /d"}, "removed with more": {there: "rm /d/e"}, "replaced": {there: "rm /d; write /d theirs", want: "/d 644 theirs"},
		"link": {there: "rm /d; ln to /d", want: "/d -> to"},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", restarts), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: Both})
				w.local.do("write /d/e/.envrc 1", "write /d/e/a 2", "write /one 3")
				w.sync()
				w.remote.do(lines(do.there)...)
				for range 2 {
					w.sync()
					if got := w.local.line("/d/e/.envrc"); got == "" {
						t.Fatalf("here is %q", w.local.list())
					}
					w.nothingPends()
				}
				w.local.do("rm /d/e/.envrc")
				if restarts {
					w.restart()
				}
				_, plan, err := w.plan()
				if err != nil {
					t.Fatal(err)
				}
				if r := w.sync(); r.Pushed != plan.ToRemote || plan.ToLocal < r.Changed || r.Changed == 0 {
					t.Errorf("%+v, planned %+v", r, plan)
				}
				if do.want != "" && !slices.Contains(w.local.list(), do.want) {
					t.Errorf("here is %q, want %q", w.local.list(), do.want)
				}
				w.same()
				w.wantConflicts()
				w.rest()
			})
		}
	}
}

// A change made here while its path was held in conflict is sent once the remote's version there is withheld instead.
func TestHeldThenWithheld(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Hold})
	w.local.do("write /d/e/a 1", "write /one 1")
	w.sync()
	w.local.do("rm /d")
	w.sync()
	w.remote.do("write /d theirs")
	w.local.do("write /d/e/a mine")
	w.sync()
	w.local.do("write /d/e/.envrc x")
	w.cfg.OnConflict = Both
	w.restart()
	w.sync()
	w.sync()
	w.local.want("/d/ 755", "/d/e/ 755", "/d/e/.envrc 644 x", "/d/e/a 644 mine", "/one 644 1")
	w.local.wantLosers("/d conflict theirs")
	w.same()
	w.rest()
}

// Whether a name is still there that has a change withheld is found without looking through all of the directory each time.
func TestWithheldCostsLittle(t *testing.T) {
	for _, code := range []string{"/d/zz/.envrc", "/d/aa/.envrc"} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, Config{Rules: []string{"modules/"}})
			w.local.do("write "+code+" 1", "write /one 3")
			for i := range 1000 {
				w.local.do(fmt.Sprintf("write /d/modules/%d x", i))
			}
			w.sync()
			w.remote.do("rm /d")
			w.sync()
			cost := testing.AllocsPerRun(3, func() {
				if gone, err := w.m.codeGone(t.Context()); err != nil || len(gone) > 0 {
					t.Fatalf("gone %v, %v", gone, err)
				}
			})
			if cost > 300 {
				t.Errorf("%v allocations", cost)
			}
			// Another name does so too.
			w.local.do("write /d/mm/.envrc 1", "rm "+code)
			if gone, err := w.m.codeGone(t.Context()); err != nil || gone["/d"] {
				t.Fatalf("gone %v, %v", gone, err)
			}
			w.local.do("mv /d/mm/.envrc /d/mm/other")
			if gone, err := w.m.codeGone(t.Context()); err != nil || !gone["/d"] {
				t.Fatalf("gone %v, %v", gone, err)
			}
		})
	}
}
