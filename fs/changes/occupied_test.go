package changes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// F3: a pipe in the place of a file is no removal. A peer of PlainNames that does not have the file is not offered it,
// since nobody has its content, until it is there again.
func TestF3OccupiedIsOfferedLater(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %v", restart), func(t *testing.T) { testOccupiedIsOfferedLater(t, restart) })
	}
}

// testOccupiedIsOfferedLater is a case of TestF3OccupiedIsOfferedLater. With restart another server goes on once the pipes are gone.
func testOccupiedIsOfferedLater(t *testing.T, restart bool) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	must(os.MkdirAll(at("d/e"), 0o755))
	for _, name := range []string{"d/e/f", "f", "g"} {
		must(os.WriteFile(at(name), []byte(name), 0o644))
	}
	ws := openDisk(t, dir, true)
	s := changes.New(changes.Config{Workspace: ws})
	w, err := s.Watermarks(t.Context(), true)
	must(err)
	fetch := func(p changes.Peer, after tree.Cursor, want ...string) tree.Cursor {
		t.Helper()
		f, err := p.FetchChanges(t.Context(), changes.FetchQuery{After: after, Ignore: []string{}})
		must(err)
		list, err := changes.Collect(t.Context(), f.Entries)
		must(err)
		var got []string
		for i := range list {
			if list[i].Path != "/workspace" {
				got = append(got, list[i].Kind.String()+" "+strings.TrimPrefix(list[i].Path, "/workspace/"))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		return f.Current
	}
	must(os.Rename(at("f"), at("was")))
	must(syscall.Mkfifo(at("f"), 0o600))
	must(os.Rename(at("d"), at("dir")))
	must(syscall.Mkfifo(at("d"), 0o600))
	now := fetch(s, tree.At(w.CurrentRev), "dir dir", "dir dir/e", "file dir/e/f", "file was")
	fetch(s.PlainNames(), tree.At(w.CurrentRev), "dir dir", "dir dir/e", "file dir/e/f", "file was")
	fetch(s.PlainNames(), tree.Cursor{}, "file g", "dir dir", "dir dir/e", "file dir/e/f", "file was")
	for _, name := range []string{"f", "d"} {
		must(os.Remove(at(name)))
	}
	must(os.Rename(at("was"), at("f")))
	must(os.Rename(at("dir"), at("d")))
	if restart {
		s = changes.New(changes.Config{Workspace: ws})
	}
	marks, err := s.PlainNames().Watermarks(t.Context(), true)
	must(err)
	at2 := fetch(s.PlainNames(), now, "delete dir", "delete dir/e", "delete dir/e/f", "delete was", "dir d", "dir d/e", "file d/e/f", "file f")
	if at2.Rev != marks.CurrentRev {
		t.Errorf("at %v, the watermarks said %d", at2, marks.CurrentRev)
	}
	fetch(s.PlainNames(), at2)
}
