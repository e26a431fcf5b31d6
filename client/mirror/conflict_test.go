package mirror

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

func lines(s string) []string {
	var out []string
	for l := range strings.SplitSeq(s, ";") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}

// Each begins with /f and /d/g, both "base", /d/h "h" and /l -> f on both sides.
func TestConflicts(t *testing.T) {
	L, R, base := hash("L"), hash("R"), hash("base")
	rest := "/d/ 755; /d/g 644 base; /d/h 644 h; /l -> f"
	for _, tt := range []struct {
		name          string
		local, remote string
		policy        Policy
		want          string
		conflicts     string
	}{
		{"both wrote", "write /f L", "write /f R", Theirs, "/f 644 R;" + rest, "/f: " + L + " / " + R + ", kept remote"},
		{"both wrote", "write /f L", "write /f R", Ours, "/f 644 L;" + rest, "/f: " + L + " / " + R + ", kept local"},
		{
			"both wrote", "write /f L", "write /f R", Both, "/f 644 R; /f.conflict-e8b25488 644 L;" + rest,
			"/f: " + L + " / " + R + ", kept both copy /f.conflict-e8b25488",
		},
		{"both wrote the same", "write /f S", "write /f S", Theirs, "/f 644 S;" + rest, ""},
		{"both removed", "rm /f", "rm /f", Both, rest, ""},
		{"one wrote, the other moved", "write /f L", "mv /d /e", Theirs, "/f 644 L; /e/ 755; /e/g 644 base; /e/h 644 h; /l -> f", ""},
		{"modes", "chmod /f 600", "chmod /f 755", Theirs, "/f 755 base;" + rest, "/f: " + base + " / " + base + ", kept remote"},
		{"links", "rm /l; ln L /l", "rm /l; ln R /l", Both, "/f 644 base; /d/ 755; /d/g 644 base; /d/h 644 h; /l -> R; /l.conflict-cbaa3ca1 -> L", "/l: symlink / symlink, kept both copy /l.conflict-cbaa3ca1"},

		{"here removed, there written", "rm /f", "write /f R", Theirs, "/f 644 R;" + rest, "/f: delete / " + R + ", kept remote"},
		{"here removed, there written", "rm /f", "write /f R", Ours, rest, "/f: delete / " + R + ", kept local"},
		{"here removed, there written", "rm /f", "write /f R", Both, "/f 644 R;" + rest, "/f: delete / " + R + ", kept remote"},
		{"here written, there removed", "write /f L", "rm /f", Theirs, rest, "/f: " + L + " / delete, kept remote"},
		{"here written, there removed", "write /f L", "rm /f", Ours, "/f 644 L;" + rest, "/f: " + L + " / delete, kept local"},
		{"here written, there removed", "write /f L", "rm /f", Both, "/f 644 L;" + rest, "/f: " + L + " / delete, kept local"},

		{"a directory removed there", "write /d/g L", "rm /d", Theirs, "/f 644 base; /l -> f", "/d/g: " + L + " / delete, kept remote by /d"},
		{"a directory removed there", "write /d/g L; chmod /d 700", "rm /d", Ours, "/f 644 base; /l -> f; /d/ 700; /d/g 644 L", "/d: dir / delete, kept local; /d/g: " + L + " / delete, kept local by /d"},
		{"new in a directory removed there", "write /d/n L", "rm /d", Theirs, "/f 644 base; /l -> f; /d/ 755; /d/n 644 L", ""},
		{"new in a directory removed there", "write /d/n L; chmod /d/h 600", "rm /d", Theirs, "/f 644 base; /l -> f; /d/ 755; /d/n 644 L", "/d/h: file 8969 / delete, kept remote"},
		{"new in a directory removed there", "write /d/n L; write /d/h L", "rm /d", Both, "/f 644 base; /l -> f; /d/ 755; /d/n 644 L; /d/h 644 L", "/d/h: " + L + " / delete, kept local"},
		{"new in a directory removed there", "write /d/n L", "rm /d", Fail, "/f 644 base; /l -> f; /d/ 755; /d/n 644 L", ""},
		{"a directory removed here", "rm /d", "write /d/n R", Theirs, "/f 644 base; /l -> f; /d/ 755; /d/n 644 R", ""},
		{"a directory removed here", "rm /d", "write /d/g R", Ours, "/f 644 base; /l -> f", "/d/g: delete / " + R + ", kept local"},

		{"a file there for a directory here", "write /d/n L", "rm /d; write /d R", Both, "/f 644 base; /l -> f; /d 644 R; /d.conflict-e74a6581/ 755; /d.conflict-e74a6581/n 644 L", "/d/n: " + L + " / " + R + ", kept both by /d copy /d.conflict-e74a6581/n"},
		{"a file there for a directory here", "write /d/n L", "rm /d; write /d R", Ours, "/f 644 base; /l -> f; /d/ 755; /d/n 644 L", "/d/n: " + L + " / " + R + ", kept local by /d"},
		{"a directory there for a file here", "write /f L", "rm /f; write /f/x R", Both, "/f/ 755; /f/x 644 R; /f.conflict-e8b25488 644 L;" + rest, "/f: " + L + " / dir, kept both copy /f.conflict-e8b25488"},
		{"new below what is a file here", "rm /d; write /d L", "write /d/n R", Ours, "/f 644 base; /l -> f; /d 644 L", "/d: " + L + " / " + R + ", kept local by /d/n"},
		{"made there and removed, made here", "write /n L", "write /n R; rm /n", Theirs, "/f 644 base; /n 644 L;" + rest, ""},
	} {
		t.Run(tt.name+" "+tt.policy.String(), func(t *testing.T) {
			w := newWorld(t, Config{OnConflict: tt.policy})
			w.local.do("write /f base", "write /d/g base", "write /d/h h", "ln f /l")
			w.sync()
			w.rest()
			w.local.do(lines(tt.local)...)
			w.remote.do(lines(tt.remote)...)
			_, plan, err := w.plan()
			if err != nil {
				t.Fatal(err)
			}
			var planned []string
			for _, c := range plan.Conflicts {
				planned = append(planned, conflictLine(c))
			}
			if diff := cmp.Diff(lines(tt.conflicts), planned); diff != "" {
				t.Errorf("planned conflicts (-want +got):\n%s", diff)
			}
			if r := w.sync(); r.Pushed != plan.ToRemote {
				t.Errorf("pushed %d entries, planned were %d", r.Pushed, plan.ToRemote)
			}
			want := lines(tt.want)
			sortLines(want)
			w.local.want(want...)
			w.wantConflicts(lines(tt.conflicts)...)
			w.rest()
			w.wantConflicts()
		})
	}
}

// With ours nothing of the remote's stays behind, also where what left it no room has become
// a directory before it was sent.
func TestOursLeavesNothingBelow(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Ours})
	w.local.do("write /f base")
	w.sync()
	w.local.do("write /d L")
	w.remote.do("write /d/n R", "write /d/e/m R")
	if _, err := w.m.Pull(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.local.do("rm /d", "write /d/a L")
	w.sync()
	w.local.want("/d/ 755", "/d/a 644 L", "/f 644 base")
	if diff := cmp.Diff([]string{"/d/e/m 644 R conflict", "/d/n 644 R conflict"}, sorted(w.local.kept())); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	w.conflicts = nil
	w.rest()
}

func sorted(l []string) []string {
	sortLines(l)
	return l
}

// A pull that is to fail changes nothing, names all conflicts, and works once there are
// none.
func TestFail(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Fail})
	w.local.do("write /f base", "write /g base")
	w.sync()
	w.local.do("write /f L", "rm /g", "write /new L")
	w.remote.do("write /f R", "write /g R", "write /other R")
	before := w.local.list()
	_, err := w.m.Sync(t.Context())
	var failed *ConflictError
	if !errors.As(err, &failed) || len(failed.Conflicts) != 2 || !strings.Contains(err.Error(), "2 paths have changed on both sides, /f is one") {
		t.Fatalf("sync: %v", err)
	}
	if diff := cmp.Diff(before, w.local.list()); diff != "" {
		t.Errorf("changed by what failed:\n%s", diff)
	}
	w.local.do("write /f R", "write /g R")
	w.sync()
	w.local.want("/f 644 R", "/g 644 R", "/new 644 L", "/other 644 R")
	w.rest()
}

// The version that lost can still be fetched.
func TestLoserStays(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f base")
	w.sync()
	w.local.do("write /f lost")
	w.remote.do("write /f kept")
	w.sync()
	got, err := w.local.forest.Chunk(t.Context(), tree.Sum([]byte("lost")), nil)
	if err != nil || string(got) != "lost" {
		t.Errorf("the version that lost: %q, %v", got, err)
	}
}

// A copy overwrites nothing, and the same version is copied once.
func TestCopyNames(t *testing.T) {
	w := newWorld(t, Config{OnConflict: Both})
	long := "/" + strings.Repeat("ä", 127)
	w.local.do("write /f base", "write "+long+" base")
	w.sync()
	w.local.do("write /f L", "write /f.conflict-e8b25488 mine", "write "+long+" L")
	w.remote.do("write /f R", "write "+long+" R")
	w.sync()
	w.rest()
	cut := "/" + strings.Repeat("ä", 118) + ".conflict-e8b25488"
	w.local.want("/f 644 R", "/f.conflict-e8b25488 644 mine", "/f.conflict-e8b25488-2 644 L", cut+" 644 L", long+" 644 R")
}

func TestParsePolicy(t *testing.T) {
	for _, p := range []Policy{Theirs, Ours, Both, Fail} {
		if got, err := ParsePolicy(p.String()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	if _, err := ParsePolicy("mine"); err == nil {
		t.Error("no error for an unknown policy")
	}
}

// A conflict does not come again when the mirror crashes behind it.
func TestConflictOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f base")
	w.sync()
	w.local.do("write /f L")
	w.remote.do("write /f R")
	if _, err := w.m.Pull(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.wantConflicts("/f: " + hash("L") + " / " + hash("R") + ", kept remote")
	w.restart()
	w.remote.do("write /f R2")
	w.sync()
	w.wantConflicts()
	w.local.want("/f 644 R2")
}

// A disk whose files cannot all be written when an update has been committed.
type pendingDisk struct{ changes.Workspace }

var errPending = errors.New("not on disk yet")

func (p pendingDisk) Apply(ctx context.Context, entries func(*tree.Edit) iter.Seq2[tree.Entry, error], how tree.ApplyMode, also func(*tree.Edit) error) (changes.Applied, error) {
	done, err := p.Workspace.Apply(ctx, entries, how, also)
	if err == nil {
		err = errPending
	}
	return done, err
}

// A conflict is reported also if what was decided is not on disk yet.
func TestConflictPending(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /f base")
	w.sync()
	w.local.do("write /f L")
	w.remote.do("write /f R")
	plain := w.local.ws
	w.local.ws = pendingDisk{plain}
	w.restart()
	if _, err := w.m.Sync(t.Context()); !errors.Is(err, errPending) {
		t.Fatalf("got %v", err)
	}
	w.wantConflicts("/f: " + hash("L") + " / " + hash("R") + ", kept remote")
	w.local.ws = plain
	w.restart()
	w.sync()
	w.rest()
	w.wantConflicts()
}

// C-038, C-039: what is below a directory may come before it, and goes through no link that
// is to become one.
func TestC039LinkBecomesDirectory(t *testing.T) {
	w := newWorld(t, Config{})
	w.local.do("write /real/x one", "ln real /d")
	w.sync()
	w.remote.do("rm /d", "mkdir /d", "write /d/x two", "chmod /d 700")
	w.sync()
	w.local.want("/d/ 700", "/d/x 644 two", "/real/ 755", "/real/x 644 one")
	w.rest()
}
