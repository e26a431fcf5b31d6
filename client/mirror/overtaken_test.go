package mirror

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// A place is a directory with its workspace and server.
type place struct {
	changes.Gradual
	t      *testing.T
	dir    string
	server *changes.Server
	// before is called once, just before a batch is decided, and during when it is and none of
	// it is on disk yet.
	before, during func()
}

func newPlace(t *testing.T) *place {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	forest := tree.New(db.Tree(), tree.Config{})
	tr, err := forest.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: t.TempDir()}
	ws, err := disk.Open(t.Context(), disk.Config{Dir: p.dir, Mount: "/w", Forest: forest, Tree: tr, Objects: openObjects(t, p.dir+".objects")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(ws.Check(context.Background()), ws.Close(), db.Check(context.Background()), db.Close()); err != nil {
			t.Error(err)
		}
	})
	p.Gradual = ws
	p.server = changes.New(changes.Config{Workspace: p, DefaultIgnore: []string{}})
	return p
}

func (p *place) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	if fn := p.before; fn != nil {
		p.before = nil
		fn()
	}
	return p.Gradual.Apply(ctx, entries, how, func(e *tree.Edit) error {
		if also != nil {
			if err := also(e); err != nil {
				return err
			}
		}
		if fn := p.during; fn != nil {
			p.during = nil
			fn()
		}
		return nil
	})
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) remove(name string) {
	p.t.Helper()
	if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
		p.t.Fatal(err)
	}
}

// files is what there is on disk: names and contents, without the hashes in names of copies.
func (p *place) files() string {
	p.t.Helper()
	var out []string
	err := filepath.WalkDir(p.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(p.dir, path)
		if before, _, ok := strings.Cut(name, ".conflict-"); ok {
			name = before + ".conflict"
		}
		out = append(out, name+"="+string(text))
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// kept is the contents of the versions that are kept, by their numbers.
func (p *place) kept() map[int64]string {
	p.t.Helper()
	out := map[int64]string{}
	err := lost.List(p.t.Context(), p.Forest(), 0, func(v *lost.Version) error {
		var text []byte
		for _, part := range v.Entry.Parts {
			b, err := p.Forest().Chunk(p.t.Context(), part.Hash, nil)
			if err != nil {
				return err
			}
			text = append(text, b...)
		}
		out[v.ID] = strings.TrimPrefix(v.Path, "/w/") + "=" + string(text)
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// A pair is two places and a mirror of the local one.
type pair struct {
	t             *testing.T
	local, remote *place
	cut           *cutter
	m             *Mirror
	told          []Conflict
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, local: newPlace(t), remote: newPlace(t), cut: &cutter{left: -1}}
	p.cut.Peer = p.remote.server
	return p
}

// start makes the mirror anew, with a policy.
func (p *pair) start(policy Policy) {
	p.m = New(Config{
		Local: p.local, Remote: p.cut, LocalRoot: "/w", RemoteRoot: "/w", OnConflict: policy,
		Conflict: func(c Conflict) { p.told = append(p.told, c) },
	})
	p.m.limits.part = 1 // each file is sent while the next one is read
}

func (p *pair) sync() (Result, error) {
	p.t.Helper()
	return p.m.Sync(p.t.Context())
}

// line names a conflict and the version that was not kept.
func (p *pair) lines() []string {
	var out []string
	for _, c := range p.told {
		line := strings.TrimPrefix(c.Path, "/w/") + " kept " + c.Kept.String()
		if c.Held {
			line += " held"
		}
		if c.Copy != "" {
			line += " copy"
		}
		if c.Lost != 0 {
			line += " lost " + p.local.kept()[c.Lost]
		}
		out = append(out, line)
	}
	p.told = nil
	return out
}

func (p *pair) want(local, remote string, told ...string) {
	p.t.Helper()
	if got := p.local.files(); got != local {
		p.t.Errorf("here: %q, want %q", got, local)
	}
	if got := p.remote.files(); got != remote {
		p.t.Errorf("there: %q, want %q", got, remote)
	}
	if diff := cmp.Diff(told, p.lines()); diff != "" {
		p.t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}

// wantHeld wants a failed or held conflict of /w/zzz to be decided later.
func (p *pair) wantHeld(policy Policy, r Result, err error, local, remote string) {
	p.t.Helper()
	if policy == Fail {
		var failed *ConflictError
		if !errors.As(err, &failed) || len(failed.Conflicts) != 1 || failed.Conflicts[0].Path != "/w/zzz" {
			p.t.Fatalf("%v: %+v", err, failed)
		}
		p.want("zzz="+local, "zzz="+remote)
		if _, err = p.sync(); !errors.As(err, &failed) || len(failed.Conflicts) != 1 || failed.Moved {
			p.t.Fatalf("again: %v", err)
		}
		p.want("zzz="+local, "zzz="+remote)
	} else {
		if err != nil || r.Held != 1 {
			p.t.Fatalf("%+v, %v", r, err)
		}
		p.want("zzz="+local, "zzz="+remote, "zzz kept none held")
		p.local.write("other", "o")
		if r, err = p.sync(); err != nil || r.Held != 1 || !r.InStep {
			p.t.Fatalf("again: %+v, %v", r, err)
		}
		p.want("other=o zzz="+local, "other=o zzz="+remote)
		p.local.remove("other")
	}
	p.start(Both)
	if r, err = p.sync(); err != nil || r.Held != 0 {
		p.t.Fatalf("at last: %+v, %v", r, err)
	}
	all := "zzz.conflict=" + local + " zzz=" + remote
	p.want(all, all, "zzz kept both copy")
}

var policies = []Policy{Theirs, Ours, Both, Fail, Hold}

// F1 (b): what is written here at the very moment at which a pull takes its place is a
// conflict like any other.
func TestF1WrittenWhilePulled(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			p := newPair(t)
			p.local.write("zzz", "a")
			p.start(policy)
			if _, err := p.sync(); err != nil {
				t.Fatal(err)
			}
			p.remote.write("zzz", "b")
			p.local.during = func() { p.local.write("zzz", "edit") }
			r, err := p.sync()
			switch policy {
			case Theirs:
				p.want("zzz=b", "zzz=b", "zzz kept remote lost zzz=edit")
			case Ours:
				p.want("zzz=edit", "zzz=edit", "zzz kept local lost zzz=b")
			case Both:
				p.want("zzz.conflict=edit zzz=b", "zzz.conflict=edit zzz=b", "zzz kept both copy")
			case Fail, Hold:
				if failed, ok := errors.AsType[*ConflictError](err); ok && !failed.Moved {
					t.Error("it says that nothing was changed")
				}
				p.wantHeld(policy, r, err, "edit", "b")
				return
			}
			if err != nil || r.Conflicts != 1 || !r.InStep {
				t.Errorf("%+v, %v", r, err)
			}
			if r, err = p.sync(); err != nil || r.moved() {
				t.Errorf("again: %+v, %v", r, err)
			}
		})
	}
}

// The same for a removal: what is written then stays.
func TestF1WrittenWhileRemoved(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			p := newPair(t)
			p.local.write("d/zzz", "a")
			p.local.write("d/x", "x")
			p.start(policy)
			if _, err := p.sync(); err != nil {
				t.Fatal(err)
			}
			p.remote.remove("d")
			p.local.during = func() { p.local.write("d/zzz", "edit"); p.local.write("d/brandnew", "new") }
			if _, err := p.sync(); err != nil {
				t.Fatal(err)
			}
			p.want("d/brandnew=new d/zzz=edit", "d/brandnew=new d/zzz=edit")
		})
	}
}

// F1 (b), the other way: what is written there at the very moment at which a push takes its
// place.
func TestF1WrittenWhilePushed(t *testing.T) {
	for _, lostAnswer := range []bool{false, true} {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%s, answer lost %t", policy, lostAnswer), func(t *testing.T) {
				p := newPair(t)
				p.local.write("zzz", "a")
				p.start(policy)
				if _, err := p.sync(); err != nil {
					t.Fatal(err)
				}
				p.local.write("zzz", "b")
				p.remote.during = func() {
					p.remote.write("zzz", "edit")
					if lostAnswer {
						p.cut.set(1, true) // the client is killed before it hears of it
					}
				}
				r, err := p.sync()
				if lostAnswer {
					if !errors.Is(err, errCut) || p.remote.kept()[1] != "zzz=edit" {
						t.Fatal(err, p.remote.kept())
					}
					p.cut.set(-1, false)
					p.start(policy)
					r, err = p.sync()
				}
				switch policy {
				case Theirs:
					p.want("zzz=edit", "zzz=edit", "zzz kept remote lost zzz=b")
				case Ours:
					p.want("zzz=b", "zzz=b", "zzz kept local lost zzz=edit")
				case Both:
					p.want("zzz.conflict=b zzz=edit", "zzz.conflict=b zzz=edit", "zzz kept both copy")
				case Fail, Hold:
					p.wantHeld(policy, r, err, "b", "edit")
					return
				}
				if err != nil || r.Conflicts != 1 || !r.InStep {
					t.Errorf("%+v, %v", r, err)
				}
				if r, err = p.sync(); err != nil || r.moved() {
					t.Errorf("again: %+v, %v", r, err)
				}
			})
		}
	}
}

// What has been written there twice is not put in the place of the newer: it is kept here.
func TestF1WrittenTwiceWhilePushed(t *testing.T) {
	p := newPair(t)
	p.local.write("zzz", "a")
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.local.write("zzz", "b")
	p.remote.during = func() {
		p.remote.write("zzz", "edit")
		p.cut.set(1, true)
	}
	if _, err := p.sync(); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	p.remote.write("zzz", "later")
	p.cut.set(-1, false)
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.want("zzz.conflict=b zzz=later", "zzz.conflict=b zzz=later", "zzz kept local lost zzz=edit", "zzz kept both copy")
}

// What is written there at the moment at which a version goes back is the newest; that
// version is kept here.
func TestF1WrittenWhileGivenBack(t *testing.T) {
	p := newPair(t)
	p.local.write("zzz", "a")
	p.start(Both)
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.local.write("zzz", "b")
	p.remote.during = func() {
		p.remote.write("zzz", "edit")
		p.remote.during = func() { p.remote.write("zzz", "again") }
	}
	if _, err := p.sync(); err != nil {
		t.Fatal(err)
	}
	p.want("zzz.conflict=b zzz=again", "zzz.conflict=b zzz=again", "zzz kept local lost zzz=edit", "zzz kept both copy")
}

// A peer that changes at the last moment before a push is applied.
type late struct {
	changes.Peer
	before func()
}

func (l *late) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	if fn := l.before; fn != nil {
		l.before = nil
		fn()
	}
	return l.Peer.Push(ctx, in, entries)
}

// What changes there between the last look and the push is a conflict, and nothing else of
// the push waits for it.
func TestF1ChangedBeforeThePush(t *testing.T) {
	for _, tt := range []struct {
		policy        Policy
		local, remote []string // what is done
		want          string
		conflicts     []string
	}{
		{Theirs, []string{"write /f L", "write /g L"}, []string{"write /f R"}, "/f 644 R; /g 644 L", []string{"/f: L / R, kept remote"}},
		{Ours, []string{"write /f L", "write /g L"}, []string{"write /f R"}, "/f 644 L; /g 644 L", []string{"/f: L / R, kept local"}},
		{Both, []string{"write /f L"}, []string{"write /f R"}, "/f 644 R; /f.conflict-e8b25488 644 L; /g 644 base", []string{"/f: L / R, kept both copy /f.conflict-e8b25488"}},
		{Both, []string{"rm /f", "rm /g"}, []string{"write /f R"}, "/f 644 R", []string{"/f: delete / R, kept remote"}},
		{Ours, []string{"rm /f"}, []string{"write /f R"}, "/g 644 base", []string{"/f: delete / R, kept local"}},
		{Both, []string{"rm /d"}, []string{"write /d/n R"}, "/d/ 755; /d/n 644 R; /f 644 base; /g 644 base", nil},
		{Both, []string{"write /f L"}, []string{"rm /f"}, "/f 644 L; /g 644 base", []string{"/f: L / delete, kept local"}},
		{Both, []string{"write /d/n L"}, []string{"rm /d"}, "/d/ 755; /d/n 644 L; /f 644 base; /g 644 base", []string{"/d/n: L / delete, kept local by /d"}},
		{Theirs, []string{"write /n/f L"}, []string{"write /n R"}, "/f 644 base; /g 644 base; /n 644 R", []string{"/n: dir / R, kept remote", "/n/f: L / R, kept remote by /n"}},
	} {
		t.Run(fmt.Sprint(tt.policy, tt.local, tt.remote), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: tt.policy})
			w.local.do("write /f base", "write /g base")
			if slices.ContainsFunc(append(tt.local, tt.remote...), func(s string) bool { return strings.Contains(s, " /d") }) {
				w.local.do("write /d/old base")
			}
			w.sync()
			w.local.do(tt.local...)
			w.cfg.Remote = &late{w.remote.server, func() { w.remote.do(tt.remote...) }}
			w.restart()
			w.sync()
			var want []string
			for _, c := range tt.conflicts {
				want = append(want, strings.NewReplacer(" L", " "+hash("L"), " R", " "+hash("R")).Replace(c))
			}
			w.wantConflicts(want...)
			w.local.want(lines(tt.want)...)
			w.rest()
		})
	}
}

// overtaken has a version kept that what is at its path has overtaken, as fs/disk does.
func (e *end) overtaken(path, text string) {
	e.t.Helper()
	ctx := context.Background()
	parts, err := e.forest.Stage(ctx, strings.NewReader(text))
	if err != nil {
		e.t.Fatalf("stage: %v", err)
	}
	v := lost.Version{Path: path, At: *e.clock, Why: lost.Overtaken, Entry: tree.Entry{
		Kind: tree.KindFile, Path: path, Mode: 0o644, MTime: *e.clock, Size: int64(len(text)), Parts: parts,
	}}
	_, err = e.tree.Update(ctx, func(ed *tree.Edit) error {
		if by, err := ed.Entry(path); err == nil {
			v.By = tree.Fingerprint(&by)
		}
		return lost.Keep(ed, &v)
	})
	if err != nil {
		e.t.Fatalf("keep: %v", err)
	}
}

// What was pushed can be long in coming to the remote's disk: what it overtakes then is given
// back as well, unless somebody else's change did it, or it was before our time.
func TestF1OvertakenLate(t *testing.T) {
	for _, policy := range []Policy{Theirs, Ours, Both} {
		t.Run(policy.String(), func(t *testing.T) {
			w := inStep(t, Config{OnConflict: policy}, "write /f L", "write /g L")
			w.remote.overtaken("/f", "R")
			w.remote.do("write /h 1")
			w.remote.overtaken("/h", "2")
			w.remote.overtaken("/g", "removed")
			w.remote.do("rm /g")
			w.restart()
			w.sync()
			f := map[Policy]string{Theirs: "/f 644 R", Ours: "/f 644 L", Both: "/f 644 R; /f.conflict-" + copyHash("L") + " 644 L"}[policy]
			w.local.want(lines(f + "; /h 644 1")...)
			kept := map[Policy][]string{Theirs: {"/f 644 L conflict"}, Ours: {"/f 644 R conflict"}, Both: nil}[policy]
			got := slices.DeleteFunc(w.local.kept(), func(l string) bool { return strings.HasPrefix(l, "/g ") })
			if diff := cmp.Diff(kept, got); diff != "" && (len(kept) > 0 || len(got) > 0) {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if len(w.conflicts) == 0 || !strings.HasPrefix(w.conflicts[len(w.conflicts)-1], "/f: ") {
				t.Errorf("%q", w.conflicts)
			}
			w.conflicts = nil
			w.rest()

			w.lose(w.local, 7000) // somebody who comes later
			w.sync()
			w.wantConflicts()
			w.local.want(lines(f + "; /h 644 1")...)
			w.rest()
		})
	}
}

// A sync puts back all versions that were overtaken late, some at a time.
func TestManyOvertakenLate(t *testing.T) {
	const n = 2*changes.MaxLost + 10
	w := inStep(t, Config{OnConflict: Theirs}, "write /d/f L")
	version := tree.Entry{Kind: tree.KindSymlink, Mode: tree.LinkMode, Target: "there"}
	_, err := w.remote.tree.Update(t.Context(), func(e *tree.Edit) error {
		for i := range n {
			v := lost.Version{Path: fmt.Sprintf("/d/%d", i), At: *w.remote.clock, Why: lost.Overtaken, Entry: version}
			if err := lost.Keep(e, &v); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A removal from here has overtaken them, whose answer never came.
	w.m.s.sent = sent{Prints: map[string]string{"/d": "print"}}
	w.m.s.notes.TheirLost, w.m.theirLost = 1, n
	var r Result
	moved, err := w.m.giveBack(t.Context(), w.m.s.peer.Fetch, &r)
	if after := w.m.s.notes; err != nil || !moved || r.Conflicts > 0 || after.TheirLost != n+1 || after.Pass != nil {
		t.Errorf("moved %v, %+v, %+v, %v", moved, r, after, err)
	}
	if there := len(w.remote.list()); there != n+2 {
		t.Errorf("there are %d", there)
	}
	for _, path := range []string{"/d/0", fmt.Sprintf("/d/%d", n-1)} {
		if e, err := w.remote.tree.Entry(t.Context(), path); err != nil || e.Target != version.Target {
			t.Errorf("%s is %+v, %v", path, e, err)
		}
	}
}

// A crash between the commit of a batch and its way to the disk: what was overtaken then is
// found among what is kept.
func TestF1FoundAfterACrash(t *testing.T) {
	for _, policy := range policies {
		t.Run(policy.String(), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: policy})
			w.remote.do("write /f R", "write /gone R", "write /d/x R", "write /later R")
			w.sync()
			w.local.overtaken("/f", "first")
			for _, path := range []string{"/f", "/missing", "/d", "/gone/f", "/later"} {
				w.local.overtaken(path, "L")
			}
			w.local.do("write /later newer")
			w.restart()
			_, plan, _ := w.plan()
			var planned []string
			for _, c := range plan.Conflicts {
				c.Lost = 0
				planned = append(planned, conflictLine(c))
			}
			r, err := w.m.Sync(t.Context())
			told := w.conflicts
			var failed *ConflictError
			if errors.As(err, &failed) && policy == Fail {
				for _, c := range failed.Conflicts {
					told = append(told, conflictLine(c))
				}
			} else if err != nil {
				t.Fatal(err)
			} else if diff := cmp.Diff(told, planned); diff != "" {
				t.Errorf("planned (-told +planned):\n%s", diff)
			}
			if len(told) != 6 {
				t.Errorf("%+v told %q", r, told)
			}
			w.conflicts = nil
			// Each version is somewhere.
			text := strings.Join(w.local.list(), "\n")
			err = lost.List(t.Context(), w.local.forest, 0, func(v *lost.Version) error {
				b, err := w.local.forest.Chunk(t.Context(), v.Entry.Parts[0].Hash, nil)
				text += "\n" + v.Path + " kept " + string(b)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/f", "/missing", "/d", "/gone", "/later"} {
				if !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, path) && strings.HasSuffix(l, " L") }) {
					t.Errorf("%s is nowhere in\n%s", path, text)
				}
			}
			if !strings.Contains(text, " first") || !strings.Contains(text, "newer") {
				t.Errorf("not all in\n%s", text)
			}
			w.cfg.OnConflict = Both
			w.restart()
			w.sync()
			w.conflicts = nil
			w.rest()
		})
	}
}

// openObjects opens a directory for content, until the test ends.
func openObjects(t testing.TB, path string) *objects.Dir {
	t.Helper()
	dir, err := objects.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// Without room for what comes back, a version that was overtaken stays where it is kept, in a
// conflict that names it, and all else moves.
func TestL1NoRoomForOvertaken(t *testing.T) {
	for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
		for _, once := range []bool{false, true} {
			t.Run(fmt.Sprint(policy, " ", once), func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: policy})
				w.tighten(once, map[string]bool{"/f": true, "/f.conflict-" + copyHash("mine"): true})
				w.local.do("write /f old")
				w.sync()
				w.local.overtaken("/f", "mine")
				w.local.do("write /more 1")
				w.remote.do("write /other 1")
				for range 2 {
					w.sync()
					w.restart()
				}
				for _, path := range []string{"/more", "/other"} {
					if w.local.hashAt(path) != w.remote.hashAt(path) {
						t.Errorf("%s has not moved", path)
					}
				}
				if len(w.conflicts) != 1 {
					t.Errorf("conflicts: %+v", w.conflicts)
				}
				w.wantSomewhere("mine")
			})
		}
	}
}
