package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A crampedStore has no room for some content.
type crampedStore struct {
	tree.Store
	full map[tree.Hash]bool
}

func (s *crampedStore) Update(ctx context.Context, fn func(tree.Tx) error) error {
	return s.Store.Update(ctx, func(tx tree.Tx) error { return fn(&crampedTx{tx, s.full}) })
}

type crampedTx struct {
	tree.Tx
	full map[tree.Hash]bool
}

func (tx *crampedTx) PutChunk(h tree.Hash, data []byte, now int64) (bool, error) {
	if tx.full[h] {
		return false, syscall.ENOSPC
	}
	return tx.Tx.PutChunk(h, data, now)
}

// crampedRules is a world whose local side has no room for a file with rules that the remote makes or changes, either
// for its content or when it is applied. room makes some.
func crampedRules(t *testing.T, cfg Config, file, text string, content bool) (w *world, room func()) {
	t.Helper()
	w = newWorld(t, cfg)
	store := &crampedStore{Store: tree.NewMemory()}
	w.local.open(store, 100)
	ws := &tight{Workspace: w.local.ws}
	w.local.ws = ws
	w.restart()
	if content {
		store.full = map[tree.Hash]bool{tree.Sum([]byte(text)): true}
	} else {
		ws.full = map[string]bool{}
	}
	return w, func() {
		if ws.full != nil && len(ws.full) == 0 {
			ws.full[file] = true
			return
		}
		store.full, ws.full = nil, nil
	}
}

// writeText writes a text that may have any bytes.
func (e *end) writeText(path, text string) {
	e.t.Helper()
	e.tick()
	if _, err := e.tree.WriteFile(e.context(), path, strings.NewReader(text), tree.File{MTime: *e.clock}); err != nil {
		e.t.Fatalf("write %s: %v", path, err)
	}
}

// The rules that count here, and those that come.
const wasRules, isRules = "*.env\n", "*.key\n!no.key\n"

// rulesCome is a world in which rules come for which there is no room here, with changes on both sides of what they hide.
// before says that others were there: they hide a path that both sides have.
func rulesCome(t *testing.T, cfg Config, file string, content, before bool) (w *world, room func()) {
	t.Helper()
	w, room = crampedRules(t, cfg, file, isRules, content)
	if before {
		w.local.writeText(file, wasRules)
	} else {
		w.local.do("write /d/none 1")
	}
	w.local.do("write /d/old.key 1", "write /d/sent.key 1", "write /d/changed.key 1", "write /other 1", "write /d/no.key 1")
	w.sync()
	if before {
		w.local.do("write /d/x.env L")
		w.remote.do("write /d/x.env R")
		w.sync()
	}
	if !content {
		room() // from now on there is none
	}
	w.remote.writeText(file, isRules)
	w.remote.do("rm /d/old.key", "write /d/changed.key 2", "write /d/theirs.key R", "write /other 2")
	w.local.do("write /d/mine.key L", "rm /d/sent.key", "write /mine 1")
	return w, room
}

// wantHidden wants nothing to have moved that rulesCome hides.
func (w *world) wantHidden() {
	w.t.Helper()
	here, there := w.local.list(), w.remote.list()
	for _, line := range []string{"/d/old.key 644 1", "/d/changed.key 644 1", "/d/mine.key 644 L"} {
		if !slices.Contains(here, line) {
			w.t.Errorf("here is no %q: %q", line, here)
		}
	}
	for _, line := range []string{"/d/sent.key 644 1", "/d/changed.key 644 2", "/d/theirs.key 644 R"} {
		if !slices.Contains(there, line) {
			w.t.Errorf("there is no %q: %q", line, there)
		}
	}
	if slices.Contains(here, "/d/theirs.key 644 R") || slices.Contains(there, "/d/mine.key 644 L") {
		w.t.Errorf("here is %q, there %q", here, there)
	}
}

// wantRules wants a file to have the rules that come.
func (w *world) wantRules(file string) {
	w.t.Helper()
	if got, err := w.local.tree.ReadFile(w.local.context(), file, 100); err != nil || string(got) != isRules {
		w.t.Errorf("%s is %q, %v", file, got, err)
	}
	if w.m.s.rules.waiting() != nil {
		w.t.Errorf("still waits: %v", w.m.s.rules)
	}
}

// L1: a file with rules that comes and for which there is no room here waits, is named, and holds up nothing else. Until
// it is here, nothing moves that it hides, or that the file here does.
func TestL1NoRoomForRules(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		file string
	}{
		{Config{GitIgnore: true}, "/.gitignore"},
		{Config{RulesFile: ".wsdignore"}, "/.wsdignore"},
		{Config{GitIgnore: true}, "/d/.gitignore"},
		{Config{GitIgnore: true, RulesFile: ".wsdignore", Rules: []string{"zzz"}}, "/d/.gitignore"},
	} {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold, Fail} {
			for _, content := range []bool{true, false} {
				for _, before := range []bool{true, false} {
					if policy == Fail && before {
						continue // there is a conflict in the end
					}
					t.Run(fmt.Sprintf("%s, %s, %t, %t", c.file, policy, content, before), func(t *testing.T) {
						c.cfg.OnConflict = policy
						w, room := rulesCome(t, c.cfg, c.file, content, before)
						env := []string{"", ""}
						if before {
							env = []string{"/d/x.env 644 L", "/d/x.env 644 R"}
						}
						for i := range 4 {
							r := w.sync()
							if diff := cmp.Diff(unwritten(c.file), r.Here); diff != "" {
								t.Fatalf("run %d: left out (-want +got):\n%s", i, diff)
							}
							if i > 0 && r.moved() {
								t.Errorf("run %d moved %+v", i, r)
							}
							w.nothingPends()
							w.wantHidden()
							if diff := cmp.Diff(env, []string{w.local.line("/d/x.env"), w.remote.line("/d/x.env")}); diff != "" {
								t.Errorf("run %d: (-want +got):\n%s", i, diff)
							}
							if got := w.local.line("/other") + w.remote.line("/mine"); got != "/other 644 2/mine 644 1" {
								t.Errorf("run %d: moved is %q", i, got)
							}
							if i > 0 { // also without a restart
								w.restart()
							}
						}
						w.wantConflicts()
						room()
						w.restart()
						if r := w.sync(); len(r.Here) != 0 {
							t.Errorf("left out: %+v", r.Here)
						}
						w.wantRules(c.file)
						w.wantHidden()
						if before != (len(w.conflicts) > 0) { // about what is ignored no more
							t.Errorf("conflicts: %v", w.conflicts)
						}
						w.sync()
						w.local.check()
						w.remote.check()
					})
				}
			}
		}
	}
}

// The same where the connection is cut, or the mirror killed, at any place.
func TestL1NoRoomForRulesCut(t *testing.T) {
	for _, content := range []bool{true, false} {
		for left := range 40 {
			for _, answer := range []bool{false, true} {
				t.Run(fmt.Sprint(content, " ", left, " ", answer), func(t *testing.T) {
					w, room := rulesCome(t, Config{GitIgnore: true, OnConflict: Both}, "/.gitignore", content, true)
					cut := &cutter{Peer: w.remote.server, left: -1}
					w.cfg.Remote = cut
					w.restart()
					cut.set(left, answer)
					if _, err := w.m.Sync(t.Context()); err != nil && !errors.Is(err, errCut) {
						t.Fatal(err)
					}
					w.wantHidden()
					cut.set(-1, false)
					w.restart()
					if diff := cmp.Diff(unwritten("/.gitignore"), w.sync().Here); diff != "" {
						t.Errorf("left out (-want +got):\n%s", diff)
					}
					w.wantHidden()
					w.wantConflicts()
					room()
					w.restart()
					w.sync()
					w.wantRules("/.gitignore")
					w.wantHidden()
				})
			}
		}
	}
}

// A file with rules that waits may hide itself, be changed or removed at the remote, or be changed here.
func TestL1NoRoomForRulesThatChange(t *testing.T) {
	// A path that was hidden and is no more is in conflict where both sides have it.
	const both = "/d/a.conflict-db0a7a25 644 1"
	for name, c := range map[string]struct {
		text string         // of the file that comes
		do   func(w *world) // while it waits
		want string         // here in the end
	}{
		"hides itself":           {"*", func(*world) {}, "/d/.gitignore 644 *, /d/a 644 1, /d/mine 644 L"},
		"hides its name":         {".gitignore", func(*world) {}, "/d/.gitignore 644 .gitignore, /d/a 644 2, /d/mine 644 L"},
		"changed":                {"a", func(w *world) { w.remote.do("write /d/.gitignore b") }, "/d/.gitignore 644 b, /d/a 644 2, " + both + ", /d/mine 644 L"},
		"removed":                {"a", func(w *world) { w.remote.do("rm /d/.gitignore") }, "/d/a 644 2, " + both + ", /d/mine 644 L"},
		"removed, hides itself":  {"*", func(w *world) { w.remote.do("rm /d/.gitignore") }, "/d/a 644 2, " + both + ", /d/mine 644 L"},
		"renamed":                {"a", func(w *world) { w.remote.do("mv /d/.gitignore /d/x") }, "/d/a 644 2, " + both + ", /d/mine 644 L, /d/x 644 a"},
		"directory goes":         {"a", func(w *world) { w.remote.do("rm /d") }, "/d/a 644 1"},
		"directory in the place": {"a", func(w *world) { w.remote.do("rm /d/.gitignore", "write /d/.gitignore/f 1") }, "/d/.gitignore/f 644 1, /d/a 644 2, " + both + ", /d/mine 644 L"},
		"something else changes": {"zzz", func(w *world) { w.remote.do("write /more 3") }, "/d/.gitignore 644 zzz, /d/a 644 2, /d/mine 644 L, /more 644 3"},
	} {
		for _, content := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", ", content), func(t *testing.T) {
				w, room := crampedRules(t, Config{GitIgnore: true, OnConflict: Both}, "/d/.gitignore", c.text, content)
				w.local.do("write /d/a 1")
				w.sync()
				if !content {
					room()
				}
				w.remote.writeText("/d/.gitignore", c.text)
				w.remote.do("write /d/a 2")
				w.local.do("write /d/mine L")
				if diff := cmp.Diff(unwritten("/d/.gitignore"), w.sync().Here); diff != "" {
					t.Errorf("left out (-want +got):\n%s", diff)
				}
				c.do(w)
				for range 2 {
					w.restart()
					w.sync()
				}
				room()
				w.restart()
				if r := w.sync(); len(r.Here) != 0 {
					t.Errorf("left out: %+v", r.Here)
				}
				w.sync()
				got := slices.DeleteFunc(w.local.list(), func(line string) bool { return strings.HasSuffix(line, "/ 755") })
				if diff := cmp.Diff(strings.Split(c.want, ", "), got); diff != "" {
					t.Errorf("here (-want +got):\n%s", diff)
				}
				if conflict := strings.Contains(c.want, both); conflict != (len(w.conflicts) > 0) {
					t.Errorf("conflicts %q", w.conflicts)
				}
				w.local.check()
				w.remote.check()
			})
		}
	}
}

// A plan goes by the rules that come also if there is no room for them.
func TestL1PlanWithoutRoomForRules(t *testing.T) {
	for _, content := range []bool{true, false} {
		w, _ := rulesCome(t, Config{GitIgnore: true, OnConflict: Both}, "/.gitignore", content, true)
		for i := range 2 {
			var moves []string
			_, err := w.m.Plan(t.Context(), func(m Move) error {
				moves = append(moves, fmt.Sprint(m.ToRemote, " ", m.Path))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(moves)
			for _, move := range moves {
				// That it is not applied is not known before it is tried.
				if strings.HasSuffix(move, ".key") || strings.Contains(move, ".env") && (content || i > 0) {
					t.Errorf("would move %q", moves)
				}
			}
			w.sync()
			w.restart()
		}
	}
}

// A file with rules that is in the tree and could not be written to the directory: what the file there hides stays as it is.
func TestL1UnwrittenRules(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"changed": func(w *world) { w.remote.do("write /.gitignore *.key") },
		"removed": func(w *world) { w.remote.do("rm /.gitignore") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := inStep(t, Config{GitIgnore: true, Dir: dir}, "write /.gitignore *.env", "write /a.key 1", "write /x.env L")
			if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.env"), 0o600); err != nil {
				t.Fatal(err)
			}
			ws := w.closeAt("/.gitignore")
			ws.waiting = true
			w.restart()
			do(w)
			for i := range 3 {
				w.sync()
				w.local.do(fmt.Sprintf("write /%d 1", i), "write /y.env L")
				if i > 0 {
					w.restart()
				}
			}
			w.local.do("write /b.key L")
			w.sync()
			for _, path := range []string{"/x.env", "/y.env"} {
				if got := w.remote.line(path); got != "" {
					t.Errorf("there is %q", got)
				}
			}
			if got := w.remote.line("/b.key"); (got != "") != (name == "removed") {
				t.Errorf("there is %q", got)
			}
			ws.paths = nil
			w.restart()
			w.sync()
			if got := w.remote.line("/x.env"); got != "/x.env 644 L" {
				t.Errorf("there is %q once the file is written", got)
			}
		})
	}
}
