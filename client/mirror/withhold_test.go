package mirror

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// careful is a world whose mirror tells what it withholds.
type careful struct {
	*world
	told []string
}

// eachPeer runs test with a remote that says what a push changed, and with one that does not.
func eachPeer(t *testing.T, test func(*careful)) {
	for _, mute := range []bool{false, true} {
		t.Run(fmt.Sprintf("mute %t", mute), func(t *testing.T) {
			c := &careful{}
			cfg := Config{Withheld: func(w Withheld) {
				line := fmt.Sprintf("%s %s", w.Path, w.Kind)
				if w.Bits != 0 {
					line += fmt.Sprintf(" %o", w.Bits)
				}
				c.told = append(c.told, line)
			}}
			c.world = newWorld(t, cfg)
			if mute {
				c.cfg.Remote = &cutter{Peer: c.remote.server, left: -1, mute: true}
				c.restart()
			}
			test(c)
		})
	}
}

// wantTold compares what was told to be withheld since the last time.
func (c *careful) wantTold(lines ...string) {
	c.t.Helper()
	got := c.told
	c.told = nil
	slices.Sort(got)
	if diff := cmp.Diff(lines, got); diff != "" {
		c.t.Errorf("withheld (-want +got):\n%s", diff)
	}
}

// still wants another sync, and one of a mirror made anew, to move nothing.
func (c *careful) still() {
	c.t.Helper()
	for _, anew := range []bool{false, true} {
		if anew {
			c.restart()
		}
		before, there := c.local.list(), c.remote.list()
		r := c.sync()
		if r.Changed != 0 || r.Pushed != 0 || r.Withheld != 0 {
			c.t.Errorf("a sync at rest (anew %t) moved %+v", anew, r)
		}
		if diff := cmp.Diff(before, c.local.list()) + cmp.Diff(there, c.remote.list()); diff != "" {
			c.t.Errorf("a sync at rest (anew %t):\n%s", anew, diff)
		}
	}
}

// has wants a tree to have a line, or not to have one that begins so.
func has(t tb, e *end, line string, want bool) {
	t.Helper()
	list := e.list()
	if got := slices.ContainsFunc(list, func(l string) bool { return strings.HasPrefix(l, line) }); got != want {
		t.Errorf("%q in %q: %t", line, list, got)
	}
}

// What runs code does not come over, whatever the remote does with it, and is not undone
// there.
func TestSH8CodeIsWithheld(t *testing.T) {
	eachPeer(t, func(c *careful) {
		c.local.do("mkdir /.git", "write /.git/config mine", "mkdir /.git/hooks", "write /.git/hooks/old mine", "write /.envrc mine", "write /f one")
		c.sync()
		c.remote.do("write /.git/config theirs", "write /.git/hooks/pre-commit theirs", "rm /.git/hooks/old", "chmod /.envrc 755",
			"mkdir /sub", "write /sub/.git gitdir:evil", "mkdir /.vscode", "write /.vscode/tasks.json theirs", "ln evil /.git/modules", "write /f two")
		c.sync()
		c.wantTold("/.envrc file", "/.git/config file", "/.git/hooks/old delete", "/.git/hooks/pre-commit file", "/.git/modules symlink", "/.vscode/tasks.json file", "/sub/.git file")
		c.local.want("/.envrc 644 mine", "/.git/ 755", "/.git/config 644 mine", "/.git/hooks/ 755", "/.git/hooks/old 644 mine", "/.vscode/ 755", "/f 644 two", "/sub/ 755")
		c.still()
		has(t, c.remote, "/.git/config 644 theirs", true)
		has(t, c.remote, "/.git/hooks/pre-commit", true)
		has(t, c.remote, "/.git/hooks/old", false)
		has(t, c.remote, "/.envrc 755", true)

		// A directory with something withheld in it is not removed at the remote, nor is its
		// removal there one here.
		c.local.do("rm /sub", "rm /.vscode")
		c.remote.do("rm /.git")
		c.sync()
		has(t, c.remote, "/sub/.git", true)
		has(t, c.remote, "/.vscode/tasks.json", true)
		has(t, c.local, "/.git/config 644 mine", true)
		c.told = nil
		c.still()
		has(t, c.remote, "/.git", false)

		// A change from here is one, also where something is withheld.
		c.local.do("write /.envrc new", "write /.git/config new")
		c.sync()
		has(t, c.remote, "/.envrc 644 new", true)
		has(t, c.remote, "/.git/config 644 new", true)
		c.still()

		// All of it comes over when it may.
		c.cfg.AllowCode = true
		c.restart()
		c.sync()
		c.same()
		has(t, c.local, "/sub/.git 644 gitdir:evil", true)
		has(t, c.local, "/.git/hooks/old", false)
		has(t, c.local, "/.git/config 644 new", true)
		c.rest()
	})
}

// The bits 07000 do not come over, and are not taken from the remote.
func TestSH8ModesAreWithheld(t *testing.T) {
	eachPeer(t, func(c *careful) {
		c.local.do("write /own one", "chmod /own 4755", "mkdir /d", "write /f one")
		c.sync()
		has(t, c.remote, "/own 4755", true)
		c.still()
		c.wantTold()
		c.remote.do("write /sh evil", "chmod /sh 6755", "chmod /d 2775", "write /own two", "chmod /own 4755")
		c.sync()
		c.wantTold("/d dir 2000", "/own file 4000", "/sh file 6000")
		c.local.want("/d/ 775", "/f 644 one", "/own 755 two", "/sh 755 evil")
		c.still()
		has(t, c.remote, "/sh 6755 evil", true)

		// A change from here keeps what it knows nothing of.
		c.local.do("write /sh new", "chmod /sh 700", "write /d/in x")
		c.sync()
		has(t, c.remote, "/sh 6700 new", true)
		has(t, c.remote, "/d/ 2775", true)
		c.wantTold()
		c.still()
		c.local.do("write /sh newer")
		c.sync()
		has(t, c.remote, "/sh 6", true)

		// Bits that are set here are the last word.
		c.local.do("chmod /sh 1711")
		c.sync()
		has(t, c.remote, "/sh 1711 newer", true)
		c.still()

		c.cfg.AllowModes = true
		c.restart()
		c.sync()
		c.same()
		has(t, c.local, "/d/ 2775", true)
		has(t, c.local, "/own 4755 two", true)
		c.rest()
	})
}

// What is withheld stays so when either store is lost, and when all is compared anew.
func TestSH8WithheldWhenAllIsComparedAnew(t *testing.T) {
	eachPeer(t, func(c *careful) {
		c.local.do("mkdir /.git", "write /.git/config mine", "write /f one", "write /x one")
		c.sync()
		c.remote.do("write /.git/config theirs", "write /.envrc theirs", "write /f two", "chmod /f 4755")
		c.sync()
		c.told = nil
		lost := newEnd(t, 5000)
		lost.do("mkdir /.git", "write /.git/config theirs", "write /.envrc theirs", "write /f two", "chmod /f 4755", "write /x one")
		c.remote = lost
		c.cfg.Remote = lost.server
		c.restart()
		c.sync()
		c.wantTold()
		has(t, c.remote, "/.git/config 644 theirs", true)
		has(t, c.remote, "/.envrc 644 theirs", true)
		has(t, c.remote, "/f 4755 two", true)
		has(t, c.local, "/.git/config 644 mine", true)
		has(t, c.local, "/.envrc", false)
		c.still()
		// One that has nothing gets what is here.
		lost = newEnd(t, 50)
		c.remote, c.cfg.Remote = lost, lost.server
		c.restart()
		c.sync()
		has(t, c.remote, "/.git/config 644 mine", true)
		c.same()
		c.still()
	})
}

// A name that the remote has made and removed, and that was new here meanwhile, is sent as any
// other: there is nothing to withhold. That of a version which both have had is.
func TestSH8CodeThatIsGoneAgain(t *testing.T) {
	eachPeer(t, func(c *careful) {
		c.local.do("write /.mcp.json both")
		c.sync()
		c.local.do("write /.envrc mine", "mkdir /.git", "chmod /.git 700", "write /.git/config mine", "write /.mcp.json mine")
		c.remote.do("write /.envrc theirs", "rm /.envrc", "mkdir /.git", "write /.git/config theirs", "rm /.git", "rm /.mcp.json")
		c.sync()
		c.wantTold("/.mcp.json delete")
		c.remote.want("/.envrc 644 mine", "/.git/ 700", "/.git/config 644 mine")
		c.still()
		c.wantConflicts()
	})
}

// Where both have something of their own from the start, each keeps it.
func TestSH8BothHaveCode(t *testing.T) {
	for policy, want := range map[Policy]string{Theirs: "theirs", Both: "theirs", Ours: "mine"} {
		w := newWorld(t, Config{OnConflict: policy})
		w.local.do("write /.envrc mine", "write /f one")
		w.remote.do("write /.envrc theirs", "write /g two")
		w.sync()
		has(t, w.local, "/.envrc 644 mine", true)
		has(t, w.remote, "/.envrc 644 "+want, true)
		// It is a conflict once it may come over.
		w.conflicts = nil
		w.cfg.AllowCode = true
		w.restart()
		w.sync()
		has(t, w.local, "/.envrc 644 "+want, true)
		if policy == Ours {
			w.wantConflicts()
		} else if len(w.conflicts) != 1 {
			t.Errorf("%v: conflicts %q", policy, w.conflicts)
		}
		w.rest()
	}
	w := newWorld(t, Config{OnConflict: Fail})
	w.local.do("write /.envrc mine")
	w.remote.do("write /.envrc theirs")
	if _, err := w.m.Sync(t.Context()); !isConflict(err) {
		t.Errorf("fail: %v", err)
	}
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*ConflictError](err)
	return ok
}

// A directory that is a repository's own is judged as what it is there.
// A version that did not come over, and that a change from here takes the place of, is kept and named, also where
// that is above it or below.
func TestSH8OverWithheldIsKept(t *testing.T) {
	for name, do := range map[string]struct{ both, there, here, path string }{
		"written":                {"write /.envrc base", "write /.envrc theirs", "write /.envrc mine", "/.envrc"},
		"removed":                {"write /.envrc base", "write /.envrc theirs", "rm /.envrc", "/.envrc"},
		"directory becomes file": {"write /d/f base", "write /d/e/.envrc theirs", "rm /d; write /d mine", "/d/e/.envrc"},
		"directory becomes link": {"write /d/f base", "write /d/.envrc theirs", "rm /d; ln mine /d", "/d/.envrc"},
		"file in place of it":    {"write /d/.envrc base; write /d/f base", "rm /d; write /d theirs", "write /d/f mine", "/d"},
		"file in place of all":   {"write /d/.envrc base; write /d/e/f base", "rm /d; write /d theirs", "write /d/e/g mine", "/d"},
		"replaced, edited here":  {"write /d/f base", "rm /d; write /d theirs", "write /d/.envrc mine", ""},
	} {
		for _, policy := range []Policy{Theirs, Both} {
			t.Run(name+" "+policy.String(), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: policy})
				w.local.do("write /f one")
				w.local.do(lines(do.both)...)
				w.sync()
				w.remote.do(lines(do.there)...)
				if do.path != "" {
					w.sync()
				}
				w.local.do(lines(do.here)...)
				w.sync()
				if do.path == "" {
					w.sync()
					found := slices.ContainsFunc(slices.Concat(w.local.list(), w.remote.list(), w.local.losers()), func(l string) bool { return strings.HasSuffix(l, " theirs") })
					if !found {
						t.Errorf("it is nowhere: here %q, there %q, lost %q", w.local.list(), w.remote.list(), w.local.losers())
					}
					return
				}
				w.local.wantLosers(do.path + " conflict theirs")
				if len(w.conflicts) != 1 || !strings.Contains(w.conflicts[0], hash("theirs")+", kept local") {
					t.Errorf("conflicts: %q", w.conflicts)
				}
				w.sync()
				if len(w.conflicts) != 1 {
					t.Errorf("then: %q", w.conflicts)
				}
				if do.path == "/d" { // the directory was removed there, and comes again as far as it has changed
					w.restart()
				} else {
					w.same()
				}
				top, _, _ := strings.Cut(do.path[1:], "/")
				w.local.do("write /one 1")
				_ = w.local.run("rm /" + top) // or it is removed already
				for range 2 {
					w.sync()
				}
				w.same()
			})
		}
	}
}

func TestSH8BelowGit(t *testing.T) {
	w := newWorld(t, Config{Dir: "/home/u/repo/.git"})
	w.remote.do("mkdir /hooks", "write /hooks/pre-commit evil", "write /config evil", "write /index fine")
	w.sync()
	w.local.want("/index 644 fine")
}

// More than can be remembered is not pulled.
func TestSH8TooManyWithheld(t *testing.T) {
	w := newWorld(t, Config{})
	_, err := w.remote.tree.Update(t.Context(), func(e *tree.Edit) error {
		for i := range maxHeld + 1 {
			if err := e.PutFile(fmt.Sprintf("/d/%05d.code-workspace", i), tree.File{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, ErrWithheld) {
		t.Errorf("got %v", err)
	}
	w.cfg.AllowCode = true
	w.restart()
	w.sync()
	w.same()
}

// A plan tells what would be withheld, and changes nothing.
func TestSH8Plan(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f one")
	w.remote.do("write /.envrc theirs", "write /sh x", "chmod /sh 4755")
	for range 2 {
		var moves []string
		p, err := w.m.Plan(t.Context(), func(m Move) error {
			moves = append(moves, fmt.Sprintf("%t %s", m.ToRemote, m.Path))
			return nil
		})
		want := []Withheld{{Path: "/.envrc", Kind: tree.KindFile}, {Path: "/sh", Kind: tree.KindFile, Bits: 0o4000}}
		if diff := cmp.Diff(want, p.Withheld); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if diff := cmp.Diff([]string{"false /sh", "true /f"}, moves); diff != "" {
			t.Error(diff)
		}
	}
}
