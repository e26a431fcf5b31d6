package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// filesOf are the files beside a database, with their content, the index of the log excepted.
func filesOf(t *testing.T, path string) map[string]string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range list {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if name != path+"-shm" {
			out[name] = fmt.Sprint(info.ModTime(), tree.Sum(data))
		}
	}
	return out
}

// A database of any version is looked into without a change.
func TestPeekPeer(t *testing.T) {
	const row = "INSERT INTO ns (id, name, root, rev, config) VALUES (7, 'default', 1, 0, '{}'); INSERT INTO peer (ns, id, push_rev, fetch_rev, fetch_path, seen_ms) VALUES (7, 'p', 1, 0, 'text', 3)"
	steps, err := func() (int, error) {
		f, err := format()
		if err != nil {
			return 0, err
		}
		return f.Steps()
	}()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int{1, 9, steps} {
		path := older(t, version, row+"; PRAGMA journal_mode = WAL")
		before := filesOf(t, path)
		for _, locked := range []bool{false, true} {
			if locked {
				if err := os.WriteFile(path+".lock", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				before = filesOf(t, path)
			}
			p, err := PeekPeer(t.Context(), path, "default", "p")
			if err != nil || p.Fetch.Path != "text" || p.Push.Rev != 1 {
				t.Errorf("version %d: %+v, %v", version, p, err)
			}
			if p, err := PeekPeer(t.Context(), path, "other", "p"); err != nil || p != (tree.Peer{}) {
				t.Errorf("of another tree: %+v, %v", p, err)
			}
			if diff := cmp.Diff(before, filesOf(t, path)); diff != "" {
				t.Errorf("version %d, locked %v: something has changed: %s", version, locked, diff)
			}
		}
	}
	if _, err := PeekPeer(t.Context(), older(t, steps, row+"; PRAGMA user_version = 1000"), "default", "p"); !errors.Is(err, sqlitefile.ErrNewer) {
		t.Errorf("of a later version: %v", err)
	}
	damaged := filepath.Join(t.TempDir(), "no.db")
	if err := os.WriteFile(damaged, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := PeekPeer(t.Context(), damaged, "default", "p"); err == nil {
		t.Error("no error of a file that is no database")
	}
}

// A database that is open is looked into, and what was committed last is seen.
func TestPeekPeerOfOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	db := open(t, path)
	_, tr := theTree(t, db)
	for _, text := range []string{"one", "two"} {
		_, err := tr.Update(t.Context(), func(e *tree.Edit) error { return e.ResetPeer(tree.Peer{ID: "p", Fetch: tree.AtPath(0, text)}) })
		if err != nil {
			t.Fatal(err)
		}
		before := filesOf(t, path)
		if p, err := PeekPeer(t.Context(), path, tree.DefaultName, "p"); err != nil || p.Fetch.Path != text {
			t.Errorf("got %+v, %v; want %q", p, err, text)
		}
		if diff := cmp.Diff(before, filesOf(t, path)); diff != "" {
			t.Errorf("something has changed: %s", diff)
		}
	}
}
