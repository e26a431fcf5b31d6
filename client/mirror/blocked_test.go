package mirror

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
)

// keptTexts is the contents of an end's files and lost versions.
func keptTexts(e *end) map[string]bool {
	out := map[string]bool{}
	for _, text := range texts(e) {
		out[text] = true
	}
	err := lost.List(context.Background(), e.forest, 0, func(v *lost.Version) error {
		var text strings.Builder
		for _, p := range v.Entry.Parts {
			data, err := e.forest.Chunk(context.Background(), p.Hash, nil)
			if err != nil {
				return err
			}
			text.Write(data)
		}
		out[text.String()] = true
		return nil
	})
	if err != nil {
		e.t.Fatalf("list what was lost: %v", err)
	}
	return out
}

const (
	dirsIgnored  = "d/\n"
	filesIgnored = "/d\n!/d/\n/a/d\n!/a/d/\n"
)

// What was not sent, since the remote had something of another kind there that rules hide, is a
// change from here like any other once the remote has something there that they do not hide.
func TestBlocked(t *testing.T) {
	for _, tt := range []struct {
		name, rules         string
		there, here, theirs []string // made before, then not sent, then what comes
		path                string   // whose version from here it is
		link                bool
	}{
		{"file", dirsIgnored, []string{"write /d/x x"}, []string{"write /d mine"}, []string{"rm /d", "write /d theirs"}, "/d", false},
		{"file by link", dirsIgnored, []string{"write /d/x x"}, []string{"write /d mine"}, []string{"rm /d", "ln theirs /d"}, "/d", false},
		{"link", dirsIgnored, []string{"write /d/x x"}, []string{"ln mine /d"}, []string{"rm /d", "write /d theirs"}, "/d", true},
		{"above", dirsIgnored, []string{"write /a/d/x x", "write /a/k k"}, []string{"write /a/d mine"}, []string{"rm /a", "write /a theirs"}, "/a/d", false},
		{"above at once", dirsIgnored, []string{"write /a/d/x x", "write /a/k k"}, []string{"write /a/d mine"}, []string{"write /b theirs", "rm /a", "mv /b /a"}, "/a/d", false},
		{"below", filesIgnored, []string{"write /d x"}, []string{"write /d/f mine"}, []string{"rm /d", "write /d/f theirs"}, "/d/f", false},
		{"below, the directory last", filesIgnored, []string{"write /d x"}, []string{"write /d/f mine"}, []string{"rm /d", "write /d/f theirs", "chmod /d 700"}, "/d/f", false},
		{"below a file", filesIgnored, []string{"write /d x"}, []string{"write /d/f/g mine"}, []string{"rm /d", "write /d/f theirs"}, "/d/f/g", false},
		{"below, by a file above", filesIgnored, []string{"write /a/d x", "write /a/k k"}, []string{"write /a/d/f mine"}, []string{"rm /a", "write /a theirs"}, "/a/d/f", false},
		{"below, link by file", filesIgnored, []string{"write /d x"}, []string{"mkdir /d", "ln mine /d/f"}, []string{"rm /d", "write /d/f theirs"}, "/d/f", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, policy := range []Policy{Theirs, Ours, Both, Fail, Hold} {
				for _, restart := range []bool{false, true} {
					t.Run(fmt.Sprint(policy, restart), func(t *testing.T) {
						w, _ := ignoring(t, Config{Rules: []string{tt.rules}, OnConflict: policy})
						w.remote.do(tt.there...)
						w.local.do("write /other o")
						w.sync()
						w.local.do(tt.here...)
						w.sync()
						w.wantConflicts()
						mine := w.local.line(tt.path)
						if mine == "" || w.remote.line(tt.path) == mine {
							t.Fatalf("here %v, there %v", w.local.list(), w.remote.list())
						}
						if restart {
							w.restart()
						}
						w.remote.do(tt.theirs...)
						there := w.remote.list()
						before := w.local.list()
						_, err := w.m.Plan(t.Context(), func(Move) error { return nil })
						if failed := err != nil; failed != (policy == Fail) {
							t.Errorf("plan: %v", err)
						}
						_, err = w.m.Sync(t.Context())
						if failed := err != nil; failed != (policy == Fail) {
							t.Fatalf("sync: %v", err)
						}
						if policy != Fail && len(w.conflicts) == 0 {
							t.Error("no conflict")
						}
						here := w.local.list()
						switch policy {
						case Fail, Hold:
							if w.local.line(tt.path) != mine || !slices.Equal(w.remote.list(), there) || policy == Fail && !slices.Equal(here, before) {
								t.Errorf("here %v, there %v", here, w.remote.list())
							}
						case Ours:
							if w.local.line(tt.path) != mine {
								t.Errorf("here %v", here)
							}
							w.same()
						case Both:
							if !slices.ContainsFunc(here, func(l string) bool { return strings.Contains(l, ".conflict-") }) {
								t.Errorf("here %v", here)
							}
							w.same()
						case Theirs:
							if !slices.Equal(w.remote.list(), there) {
								t.Errorf("there %v", w.remote.list())
							}
							w.same()
						}
						if !tt.link && (!keptTexts(w.local)["mine"] || policy != Fail && policy != Hold && !strings.Contains(tt.name, "by link") && !keptTexts(w.local)["theirs"]) {
							t.Errorf("kept here %v", keptTexts(w.local))
						}
						// It is a change once.
						if policy == Fail || policy == Hold {
							return
						}
						w.conflicts = nil
						w.rest()
						w.remote.do("rm "+tt.path[:2], "write /late 1")
						w.sync()
						w.wantConflicts()
						if list := w.local.list(); slices.Contains(list, mine) {
							t.Errorf("what was removed is here: %v", list)
						}
						w.rest()
					})
				}
			}
		})
	}
}

// The same of a mirror that takes nothing: it is sent again, or held.
func TestBlockedOneWay(t *testing.T) {
	for _, cfg := range []Config{{Undo: true, OnConflict: Ours}, {Guard: true, OnConflict: Hold}} {
		cfg.Rules = []string{dirsIgnored}
		w, _ := ignoring(t, cfg)
		w.remote.do("write /d/x x")
		w.sync()
		w.local.do("write /d mine")
		w.sync()
		w.remote.do("rm /d", "write /d theirs")
		w.sync()
		w.local.want("/d 644 mine")
		if cfg.Guard {
			w.remote.want("/d 644 theirs")
			if _, err := w.m.Resolve(t.Context(), "/d", Ours); err != nil {
				t.Fatal(err)
			}
		}
		w.remote.want("/d 644 mine")
		if !keptTexts(w.local)["theirs"] && !keptTexts(w.remote)["theirs"] {
			t.Error("theirs is not kept")
		}
		w.rest()
	}
}

// What comes at a path that was not sent once is no conflict for ever: after a conflict both sides have
// the same, and changes of one side come over.
func TestBlockedOnce(t *testing.T) {
	w, _ := ignoring(t, Config{Rules: []string{dirsIgnored}, OnConflict: Theirs})
	w.remote.do("write /d/x x")
	w.sync()
	w.local.do("write /d mine")
	w.sync()
	w.remote.do("rm /d", "write /d theirs")
	w.sync()
	w.wantConflicts("/d: " + hash("mine") + " / " + hash("theirs") + ", kept remote")
	for i := range 3 {
		w.restart()
		w.remote.do(fmt.Sprint("write /d theirs", i))
		w.sync()
		w.wantConflicts()
		w.local.want(fmt.Sprint("/d 644 theirs", i))
	}
	w.remote.do("rm /d", "write /d/x x")
	w.sync()
	w.local.do("write /d again")
	w.sync()
	w.local.do("rm /d") // nothing from here is there any more
	w.sync()
	w.remote.do("rm /d", "write /d last")
	w.sync()
	w.wantConflicts()
	w.local.want("/d 644 last")
	w.rest()
}

// A directory at the remote that becomes a file, becomes one that is hidden again, and is removed: a
// removal of what the remote had in between takes nothing away here.
func TestBlockedRemovedAgain(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both, Fail, Hold} {
		w, _ := ignoring(t, Config{Rules: []string{filesIgnored}, OnConflict: policy})
		w.remote.do("write /d x")
		w.sync()
		w.local.do("write /d/f mine")
		w.sync()
		w.remote.do("rm /d", "write /d/f theirs", "rm /d", "write /d y")
		w.sync()
		w.local.want("/d/ 755", "/d/f 644 mine")
		w.remote.do("rm /d")
		w.sync()
		w.same()
		w.local.want("/d/ 755", "/d/f 644 mine")
		w.rest()
	}
}

// Rules of .gitignore files that a pull brings block, and free, what is here.
func TestBlockedGitIgnore(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both, Hold} {
		w, _ := ignoring(t, Config{GitIgnore: true, OnConflict: policy})
		w.remote.do("write /.gitignore d/", "write /d/x x")
		w.sync()
		w.local.do("write /d mine")
		w.sync()
		w.remote.want("/.gitignore 644 d/", "/d/ 755", "/d/x 644 x")
		w.remote.do("rm /d", "write /d theirs", "rm /.gitignore", "write /new n")
		w.sync()
		if len(w.conflicts) == 0 || !keptTexts(w.local)["mine"] {
			t.Errorf("%v: conflicts %q, here %v", policy, w.conflicts, w.local.list())
		}
	}
}

// Small blocks, and a server of another make, change nothing of it.
func TestBlockedManyPaths(t *testing.T) {
	for _, other := range []bool{false, true} {
		cfg := Config{Rules: []string{dirsIgnored}, OnConflict: Theirs}
		if other {
			cfg.Remote = &otherMake{}
		}
		w, _ := ignoring(t, cfg)
		if other {
			cfg.Remote.(*otherMake).Peer = w.remote.server
		}
		l := standard
		l.entries, l.plain = 2, 2
		w.limits = &l
		w.restart()
		for i := range 9 {
			w.remote.do(fmt.Sprintf("write /%d/d/x x", i))
		}
		w.sync()
		for i := range 9 {
			w.local.do(fmt.Sprintf("write /%d/d mine%d", i, i), fmt.Sprintf("write /%d/e e", i))
		}
		w.sync()
		for i := range 9 {
			w.remote.do(fmt.Sprintf("rm /%d/d", i), fmt.Sprintf("write /%d/d theirs", i))
		}
		w.sync()
		if len(w.conflicts) != 9 {
			t.Errorf("other make %v: conflicts %q", other, w.conflicts)
		}
		for i := range 9 {
			if !keptTexts(w.local)[fmt.Sprint("mine", i)] {
				t.Errorf("other make %v: mine%d is gone", other, i)
			}
		}
		w.rest()
	}
}

// The words about it: it is no removal.
func TestBlockedStayed(t *testing.T) {
	var got []Stayed
	w := newWorld(t, Config{Rules: []string{filesIgnored}, Stayed: func(s Stayed) { got = append(got, s) }})
	w.remote.do("write /d x")
	w.sync()
	w.local.do("write /d/f mine")
	w.sync()
	if len(got) != 1 || !got[0].NotSent || !got[0].AtRemote || got[0].Path != "/d" || !slices.Equal(got[0].Names, []string{"/d"}) {
		t.Errorf("%+v", got)
	}
}

// Random changes under .gitignore files that change on both sides: no content goes that the other side
// never had.
func TestBlockedRandom(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { blockedRandom(t, rand.New(rand.NewPCG(seed, 46))) })
	}
}

func blockedRandom(t *testing.T, r *rand.Rand) {
	w, _ := ignoring(t, Config{OnConflict: Both, GitIgnore: true})
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string {
		return pick("/a", "/b", "/a/x", "/a/x/y", "/b/y", "/b/x/y", "/c", "/a/d", "/a/d/f", "/d", "/d/f", "/c/d/z", "/c/d", "/b/.gitignore", "/.gitignore", "/.gitignore")
	}
	rule := func() string {
		return pick("d/", "/a/x/", "y", "/d", "!/d/", "x/", "d/\n!/d/", "/d\n!/d/", "z", "/c/d\n!/c/d/")
	}
	var log []string
	seen := map[*end]map[string]bool{w.local: {}, w.remote: {}}
	look := func() {
		for e, s := range seen {
			for _, text := range texts(e) {
				s[text] = true
			}
		}
	}
	for round := range 14 {
		for n := range r.IntN(5) {
			e, side := w.local, "here"
			if r.IntN(2) == 0 {
				e, side = w.remote, "there"
			}
			path, line := name(), ""
			switch r.IntN(7) {
			case 0, 1, 2, 3:
				text := fmt.Sprint("v", round, "-", n)
				if strings.HasSuffix(path, "/.gitignore") {
					text = rule()
					_, err := e.tree.WriteFile(t.Context(), path, strings.NewReader(text), tree.File{MTime: *e.clock})
					if err == nil {
						log = append(log, fmt.Sprintf("%s: %s is %q", side, path, text))
					}
					continue
				}
				if r.IntN(2) == 0 && e.line(path+"/") != "" { // in its place
					_ = e.run("rm " + path)
					log = append(log, side+": rm "+path)
				}
				line = "write " + path + " " + text
			case 4, 5:
				line = "rm " + path
			case 6:
				line = "mv " + path + " " + name()
			}
			e.tick()
			if e.run(line) == nil {
				log = append(log, side+": "+line)
			}
			look()
		}
		if r.IntN(10) == 0 {
			changeOften(t, w, maxShownRules+2)
			log = append(log, "rules change often")
		}
		w.cfg.OnConflict = []Policy{Both, Theirs, Ours}[r.IntN(3)]
		w.restart()
		log = append(log, fmt.Sprint("sync ", w.cfg.OnConflict))
		before := map[*end]map[string]string{w.local: texts(w.local), w.remote: texts(w.remote)}
		res, err := w.m.Sync(t.Context())
		if err != nil || !res.InStep {
			t.Fatalf("sync: %+v, %v\n%s", res, err, strings.Join(log, "\n"))
		}
		after := keptTexts(w.local)
		maps.Copy(after, keptTexts(w.remote))
		for e, other := range map[*end]*end{w.local: w.remote, w.remote: w.local} {
			for path, text := range before[e] {
				if !strings.HasSuffix(path, "/.gitignore") && !seen[other][text] && !after[text] {
					t.Fatalf("%s (%s) is gone, local %v\n%s\nhere %v\nthere %v", text, path, e == w.local, strings.Join(log, "\n"), w.local.list(), w.remote.list())
				}
			}
		}
		look()
	}
}

// What is ignored here makes way for what comes below its path, also if the directory comes later.
func TestBlockedMakesWay(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both, Fail, Hold} {
		for _, small := range []bool{false, true} {
			w, stayed := ignoring(t, Config{Rules: []string{filesIgnored}, OnConflict: policy})
			if small {
				l := standard
				l.entries = 1
				w.limits = &l
				w.restart()
			}
			w.local.do("write /d mine")
			w.sync()
			w.remote.do("write /d/f theirs", "write /d/g/h theirs", "chmod /d 700")
			w.sync()
			w.remote.want("/d/ 700", "/d/f 644 theirs", "/d/g/ 755", "/d/g/h 644 theirs")
			if list := w.local.list(); len(list) != 5 || !keptTexts(w.local)["mine"] || !strings.HasPrefix(list[0], "/d.conflict-") {
				t.Errorf("%v: here %v", policy, list)
			}
			wantStayed(t, stayed, "here /d [/d] 0")
		}
	}
}
