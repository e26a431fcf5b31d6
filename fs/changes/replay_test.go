package changes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// meaning is a delete that says which version it removes.
func meaning(e *tree.Entry) tree.Entry {
	x := gone(e.Rev, e.Path)
	x.Prior = tree.Fingerprint(e)
	return x
}

// Deletes below a path that has become something else are applied along with it, also when
// the revisions of another client are higher.
func TestF1ReplayedDeletesBelowAFile(t *testing.T) {
	sub, deeper := dirEntry(5, "/ee/sub", 0o755), dirEntry(5, "/ee/sub/deeper", 0o755)
	for name, entries := range map[string][]tree.Entry{
		"a file":      {fileEntry(6, "/ee", 0o644, "x"), meaning(&sub), meaning(&deeper)},
		"file last":   {meaning(&deeper), meaning(&sub), fileEntry(6, "/ee", 0o644, "x")},
		"a link":      {meaning(&sub), meaning(&deeper), linkEntry(6, "/ee", "x")},
		"the one up":  {meaning(&deeper), fileEntry(6, "/ee/sub", 0o644, "x")},
		"all is gone": {meaning(&deeper), gone(6, "/ee")},
	} {
		for _, based := range []bool{false, true} {
			e := newEnd(t)
			e.keep("x")
			e.do("mkdir /ee/sub/deeper")
			e.mustPush(5000, dirEntry(5000, "/of-another", 0o755))
			in := changes.PushInput{SenderRev: 6, Partly: true}
			if based {
				base := tree.At(e.marks().CurrentRev)
				in.Base = &base
			}
			if _, err := e.Push(t.Context(), in, changes.FromSlice(entries)); err != nil {
				t.Errorf("%s, base %t: %v", name, based, err)
				continue
			}
			want := map[string]string{"the one up": "/ee /ee/sub /of-another", "all is gone": "/of-another"}[name]
			if want == "" {
				want = "/ee /of-another"
			}
			if e.paths() != want {
				t.Errorf("%s, base %t: paths %q, want %q", name, based, e.paths(), want)
			}
		}
	}
}

// A delete of what its sender has seen is applied, whatever version it says and whatever
// revisions another client has. What its sender has not seen stays.
func TestF1DeleteOfWhatWasSeen(t *testing.T) {
	old := fileEntry(5, "/f", 0o644, "x")
	for name, tt := range map[string]struct {
		unseen    string
		conflicts []string
		paths     string
	}{
		"seen":            {"", nil, "/of-another"},
		"changed since":   {"write /f b", []string{"/f"}, "/f /of-another"},
		"made once more":  {"rm /f\nwrite /f b", []string{"/f"}, "/f /of-another"},
		"removed as well": {"rm /f", nil, "/of-another"},
	} {
		e := newEnd(t)
		e.keep("x")
		e.do("write /f x\nwrite /f a\nchmod /f 600")
		e.mustPush(5000, dirEntry(5000, "/of-another", 0o755))
		base := tree.At(e.marks().CurrentRev)
		e.do(tt.unseen)
		got, err := e.Push(t.Context(), changes.PushInput{SenderRev: 6, Base: &base}, changes.FromSlice([]tree.Entry{meaning(&old)}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.conflicts, got.Conflicts); diff != "" || e.paths() != tt.paths {
			t.Errorf("%s: paths %q, want %q, conflicts (-want +got):\n%s", name, e.paths(), tt.paths, diff)
		}
	}
}
