package lineage_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/fs/lineage"
)

func of(t *testing.T, dir string) []string {
	t.Helper()
	ids, err := lineage.Of(dir)
	if err != nil || len(ids) == 0 {
		t.Fatalf("%s: %v, %v", dir, ids, err)
	}
	return ids
}

func TestReal(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(top, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "a/b", "loop": "loop", "dangling": "none"} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"a/b": "a/b", "link": "a/b", "link/x/y": "a/b/x/y", "a/none": "a/none", "loop/x": "loop/x", "dangling": "dangling",
	} {
		if got := lineage.Real(filepath.Join(top, path)); got != filepath.Join(top, want) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if got := lineage.Real("/"); got != "/" {
		t.Errorf("the root: %s", got)
	}
}

func TestHolds(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"a/b/c", "ab"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a/b", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		outer, inner string
		want         bool
	}{
		{"a", "a", true},
		{"a", "a/b/c", true},
		{"a/b/c", "a", false},
		{"a", "ab", false},
		{"link", "a/b", true},
		{"a/b", "link", true},
		{"link", "a/b/c", true},
		{"a", "link/c", true},
		{"a", "a/b/new/dir", true},
		{"a", "link/new", true},
		{"a/new", "a/new", false},
		{"/", "a", true},
	} {
		outer, inner := filepath.Join(top, tt.outer), filepath.Join(top, tt.inner)
		if tt.outer == "/" {
			outer = "/"
		}
		if got := lineage.Holds(of(t, outer), of(t, inner)); got != tt.want {
			t.Errorf("%s holds %s: %t", tt.outer, tt.inner, got)
		}
	}
	if lineage.Holds(nil, of(t, top)) || lineage.Holds(of(t, top), nil) {
		t.Error("what is not known holds something")
	}
}
