package mirror

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

func unread(paths ...string) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unreadable, Count: len(paths)}
	for _, p := range paths {
		s.Paths = append(s.Paths, changes.SkippedPath{Path: p, Error: "its content cannot be read; the change is not sent"})
	}
	return []changes.Skipped{s}
}

// find puts content back into the store that was lost, as when a file can be read again.
func (e *end) find(texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		b := []byte(text)
		if _, err := e.forest.Pack(context.Background(), tree.Data{Hash: tree.Sum(b), Bytes: b}); err != nil {
			e.t.Fatalf("find %q: %v", text, err)
		}
	}
}

// A change whose content cannot be read here holds up nothing else. It stays a change, is named each time,
// and is sent once it can be read, also after a restart.
func TestUnreadableHere(t *testing.T) {
	w := inStep(t, Config{}, "write /old 1", "write /gone 2")
	w.local.do("write /new secret", "write /old hidden", "rm /gone", "write /d/two 3", "write /zzz last")
	w.local.lose("secret")
	w.local.lose("hidden")
	for i := range 3 {
		r := w.sync()
		if diff := cmp.Diff(unread("/new", "/old"), r.Here); diff != "" {
			t.Fatalf("left out (-want +got):\n%s", diff)
		}
		if i == 0 && r.Pushed != 4 || i > 0 && r.moved() {
			t.Errorf("run %d: %+v", i, r)
		}
		w.remote.want("/d/ 755", "/d/two 644 3", "/old 644 1", "/zzz 644 last")
		if i > 0 { // also without a restart
			w.restart()
		}
	}
	w.local.find("secret", "hidden")
	w.restart()
	if r := w.sync(); len(r.Here) != 0 || r.Pushed != 2 {
		t.Errorf("%+v", r)
	}
	w.rest()
	w.wantConflicts()
}

// So does one that is sent while the remote loses what it had of it.
func TestUnreadableHereSentAgain(t *testing.T) {
	w := inStep(t, Config{}, "write /a text")
	w.local.lose("text")
	lost := false
	w.cfg.Remote = &beforePush{w.remote.server, func() {
		if !lost {
			lost = true
			w.remote.do("write /a other")
			w.remote.lose("text")
		}
	}}
	w.restart()
	w.local.do("write /c more")
	w.local.lose("text")
	w.local.do("mv /a /b")
	r := w.sync()
	if diff := cmp.Diff(unread("/b"), r.Here); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	w.remote.want("/a 644 other", "/c 644 more")
	w.local.find("text")
	w.restart()
	w.sync()
	w.rest()
}

// A watch does not try over and over what it cannot read: what has another version at once, all else after
// a pause, and without asking the remote.
func TestUnreadableHereWatchPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inStep(t, Config{}, "write /one 1")
		w.local.do("write /x secret", "write /y hidden")
		w.local.lose("secret")
		w.local.lose("hidden")
		w.sync()
		pending := func(want bool) {
			t.Helper()
			if got, err := w.m.LocalPending(t.Context()); got != want || err != nil {
				t.Errorf("pending: %v, %v, want %v", got, err, want)
			}
		}
		pending(false)
		w.local.do("write /two 2")
		pending(true)
		if r := w.sync(); len(r.Here) != 1 || r.Here[0].Count != 2 || r.Pushed != 1 {
			t.Errorf("%+v", r)
		}
		pending(false)
		time.Sleep(maxPause)
		pending(false)
		w.local.find("secret")
		pending(false)
		time.Sleep(maxPause)
		pending(true)
		if r := w.sync(); len(r.Here) != 1 || r.Here[0].Count != 1 || r.Pushed != 1 {
			t.Errorf("%+v", r)
		}
		pending(false)
		w.local.do("write /y new")
		pending(true)
		if r := w.sync(); len(r.Here) != 0 {
			t.Errorf("left out: %v", r.Here)
		}
		pending(false)
		w.rest()
	})
}

// A naming Workspace names paths that it cannot read.
type naming struct {
	changes.Workspace
	paths   []changes.SkippedPath
	special bool // they are pipes
	waiting bool // they could not be written
}

func (n *naming) Skipped(keep func(string) bool) []changes.Skipped {
	s := changes.Skipped{Why: changes.Unreadable}
	switch {
	case n.special:
		s.Why = changes.Special
	case n.waiting:
		s.Why = changes.Unwritten
	}
	for _, p := range n.paths {
		if keep == nil || keep(p.Path) {
			s.Count++
			s.Paths = append(s.Paths, p)
		}
	}
	if s.Count == 0 {
		return nil
	}
	return []changes.Skipped{s}
}

// Unread has them as files that have changed, but for the directory /closed, or as pipes.
func (n *naming) Unread() (out []tree.Entry) {
	for _, p := range n.paths {
		if n.waiting {
			continue
		}
		kind := tree.KindFile
		switch {
		case n.special:
			kind = 0
		case p.Path == "/closed":
			kind = tree.KindDir
		}
		out = append(out, tree.Entry{Path: p.Path, Kind: kind, Size: 4})
	}
	return out
}

// A path that the workspace names, or one above it, is named once. A watch tries it again once it is
// named no more.
func TestUnreadableHereIsNamedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		ws := w.closeAt()
		w.sync()
		ws.paths = []changes.SkippedPath{{Path: "/d", Error: "permission denied"}, {Path: "/x", Error: "permission denied"}}
		w.local.do("write /x secret", "write /d/e hidden", "write /y other")
		for _, text := range []string{"secret", "hidden", "other"} {
			w.local.lose(text)
		}
		r := w.sync()
		want := unread("/y")
		want[0].Count, want[0].Paths = 3, append(ws.paths[:2:2], want[0].Paths...)
		if diff := cmp.Diff(want, r.Here); diff != "" {
			t.Errorf("left out (-want +got):\n%s", diff)
		}
		ws.paths = ws.paths[:1]
		w.local.find("secret")
		if got, err := w.m.LocalPending(t.Context()); !got || err != nil {
			t.Errorf("pending: %v, %v", got, err)
		}
		w.sync()
		if got := strings.Join(w.remote.list(), " "); got != "/d/ 755 /x 644 secret" {
			t.Errorf("the remote has %q", got)
		}
	})
}

// hashAt is the content of a file here of one chunk, also if it cannot be read.
func (e *end) hashAt(path string) tree.Hash {
	at, err := e.tree.Entry(context.Background(), path)
	if err != nil || len(at.Parts) != 1 {
		return tree.Hash{}
	}
	return at.Parts[0].Hash
}

// A version from here that loses and cannot be read is not replaced: its path is held and named, and all
// else moves. Once it can be read the conflict is decided as if it could have been before.
func TestUnreadableVersionIsNotReplaced(t *testing.T) {
	for name, do := range map[string]struct{ here, there, path string }{
		"written":                      {"write /d/f mine", "write /d/f theirs", "/d/f"},
		"removed":                      {"write /d/f mine", "rm /d/f", "/d/f"},
		"directory removed":            {"write /d/f mine", "rm /d", "/d/f"},
		"directory renamed":            {"write /d/f mine", "mv /d /e", "/d/f"},
		"directory becomes a file":     {"write /d/f mine", "rm /d; write /d theirs", "/d/f"},
		"becomes a directory":          {"write /d/f mine", "rm /d/f; write /d/f/x theirs", "/d/f"},
		"becomes a link":               {"write /d/f mine", "rm /d/f; ln to /d/f", "/d/f"},
		"directory became a file here": {"rm /d; write /d mine", "write /d/f theirs", "/d"},
		"new":                          {"write /new mine", "write /new theirs", "/new"},
		"new in new directories":       {"write /n/e/w mine", "write /n theirs", "/n/e/w"},
	} {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				w := inStep(t, Config{OnConflict: policy}, "write /d/f old", "write /d/g 1", "write /other 1")
				w.local.do(lines(do.here)...)
				w.local.lose("mine")
				w.remote.do(lines(do.there)...)
				w.remote.do("write /other 2", "write /more 3")
				w.local.do("write /sent 4")
				for i := range 4 {
					r := w.sync()
					if got := w.local.hashAt(do.path); got != tree.Sum([]byte("mine")) {
						t.Fatalf("run %d: it was replaced", i)
					}
					if i > 0 && r.moved() {
						t.Errorf("run %d: %+v", i, r)
					}
					w.nothingPends()
					if sent := policy == Ours || policy == Both && do.path == "/d/f" && w.remote.line("/d") != "/d 644 theirs" && w.remote.hashAt("/d/f") == (tree.Hash{}); !sent && r.Held == 0 || policy != Hold && len(r.Here) == 0 {
						t.Errorf("run %d: held %d, left out %+v", i, r.Held, r.Here)
					}
					for _, path := range []string{"/other", "/more"} {
						if w.local.hashAt(path) != w.remote.hashAt(path) {
							t.Errorf("%s has not come", path)
						}
					}
					if got := w.remote.line("/sent"); got != "/sent 644 4" {
						t.Errorf("the remote has %q", got)
					}
					if i > 0 {
						w.restart()
					}
				}
				if len(w.conflicts) > 3 {
					t.Errorf("conflicts: %q", w.conflicts)
				}
				w.local.find("mine")
				w.again()
				w.wantSomewhere("mine")
				if policy != Hold {
					w.same()
				}
			})
		}
	}
}

// nothingPends wants a watch to have nothing to do.
func (w *world) nothingPends() {
	w.t.Helper()
	here, err := w.m.LocalPending(context.Background())
	there, err2 := w.m.RemotePending(context.Background())
	if here || there || err != nil || err2 != nil {
		w.t.Errorf("pending here: %v, %v; there: %v, %v", here, err, there, err2)
	}
}

// A watch decides the conflict once the version can be read.
func TestUnreadableVersionWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inStep(t, Config{OnConflict: Both}, "write /f old")
		w.local.do("write /f mine")
		w.local.lose("mine")
		w.remote.do("write /f theirs")
		w.sync()
		pending := func(want bool) {
			t.Helper()
			here, err := w.m.LocalPending(t.Context())
			there, err2 := w.m.RemotePending(t.Context())
			if got := here || there; got != want || err != nil || err2 != nil {
				t.Errorf("pending: %v, %v, %v, want %v", got, err, err2, want)
			}
		}
		pending(false)
		time.Sleep(maxPause)
		pending(false)
		w.local.find("mine")
		pending(false)
		time.Sleep(maxPause)
		pending(true)
		if r := w.sync(); len(r.Here) != 0 || r.Held != 0 {
			t.Errorf("%+v", r)
		}
		pending(false)
		w.same()
		w.local.want("/f 644 theirs", "/f.conflict-"+copyHash("mine")+" 644 mine")
	})
}

// A version that changes when it is looked at is kept as it is then, and nothing is held.
func TestVersionVanishesBeforeItIsKept(t *testing.T) {
	w := inStep(t, Config{OnConflict: Both}, "write /f old")
	w.local.do("write /f mine")
	w.local.lose("mine")
	w.remote.do("write /f theirs")
	applied := 0
	w.local.ws = &applying{w.local.ws, func() {
		if applied++; applied == 2 {
			w.local.do("write /f newer")
		}
	}}
	w.restart()
	if r := w.sync(); len(r.Here) != 0 || r.Held != 0 {
		t.Errorf("%+v", r)
	}
	w.same()
	w.local.want("/f 644 theirs", "/f.conflict-"+copyHash("newer")+" 644 newer")
}

// An applying Workspace is changed before each Apply.
type applying struct {
	changes.Workspace
	change func()
}

func (a *applying) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	a.change()
	return a.Workspace.Apply(ctx, entries, how, also)
}
