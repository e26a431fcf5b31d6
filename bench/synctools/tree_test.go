package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// made makes a tree and lists it.
func made(t *testing.T, make func(string) error) (string, *listing) {
	t.Helper()
	dir := t.TempDir()
	if err := make(dir); err != nil {
		t.Fatal(err)
	}
	l, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, l
}

func TestEqual(t *testing.T) {
	_, l := made(t, equal(250))
	if len(l.paths) != 251 || l.bytes < 250*10240 || l.bytes > 250*10240+100 {
		t.Errorf("%d files, %d bytes", len(l.paths), l.bytes)
	}
	if got := l.entries["all/d002/f49.txt"]; got != "file of 10240" {
		t.Errorf("the last one is a %s", got)
	}
}

func TestNodeModules(t *testing.T) {
	const n = 900
	dir, l := made(t, nodeModules(n))
	if len(l.paths) != n {
		t.Errorf("%d files, want %d", len(l.paths), n)
	}
	inScope, nested, links, executable := 0, 0, 0, 0
	for name, kind := range l.entries {
		if strings.HasPrefix(name, scope+"/") && strings.HasPrefix(kind, "file") {
			inScope++
		}
		if strings.Count(name, "node_modules") > 1 {
			nested++
		}
		if strings.HasPrefix(kind, "link") {
			links++
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s, a %s, leads nowhere: %v", name, kind, err)
			} else if info.Mode()&0o111 != 0 {
				executable++
			}
		}
	}
	if inScope != n/9 || nested == 0 || links == 0 || executable != links {
		t.Errorf("%d files to move, %d in packages of packages, %d links, %d to programs", inScope, nested, links, executable)
	}
	again, _ := made(t, nodeModules(n))
	if err := l.same(dir, again); err != nil {
		t.Errorf("made twice, it is not the same: %v", err)
	}
}

func TestCopied(t *testing.T) {
	source := t.TempDir()
	if err := write(filepath.Join(source, "cmd", "a.go"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, l := made(t, copied(source, "cmd"))
	want := map[string]string{"src": "directory", "src/cmd": "directory", "src/cmd/a.go": "file of 1"}
	if diff := cmp.Diff(want, l.entries); diff != "" {
		t.Error(diff)
	}
	if err := copied(source, "net")(t.TempDir()); err == nil {
		t.Error("a source without the directory to move is copied")
	}
}

func TestSame(t *testing.T) {
	dir, l := made(t, func(dir string) error {
		if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
			return err
		}
		return write(filepath.Join(dir, "d", "a"), []byte("content"), 0o644)
	})
	for name, c := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"same":    {func(string) error { return nil }, ""},
		"missing": {func(dir string) error { return os.Remove(filepath.Join(dir, "d", "a")) }, "d/a is a gap and should be a file of 7"},
		"more":    {func(dir string) error { return os.Mkdir(filepath.Join(dir, "e"), 0o755) }, "e is a directory and should not be there"},
		"size":    {func(dir string) error { return os.Truncate(filepath.Join(dir, "d", "a"), 3) }, "file of 3 and should be a file of 7"},
		"content": {func(dir string) error { return write(filepath.Join(dir, "d", "a"), []byte("CONTENT"), 0o644) }, "other content"},
		"link": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "link")), os.Symlink("b", filepath.Join(dir, "link")))
		}, "link is a link to b and should be a link to a"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			if err := os.Symlink("a", filepath.Join(to, "link")); err != nil {
				t.Fatal(err)
			}
			if err := write(filepath.Join(to, "d", "a"), []byte("content"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := c.do(to); err != nil {
				t.Fatal(err)
			}
			err := l.same(dir, to)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("same: %v, want %q", err, c.want)
			}
		})
	}
}

func TestAppendTo(t *testing.T) {
	dir, before := made(t, equal(100))
	if err := appendTo(dir, before.paths, 10, "12345"); err != nil {
		t.Fatal(err)
	}
	after, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	changed := maps.Clone(after.entries)
	maps.DeleteFunc(changed, func(name, kind string) bool { return before.entries[name] == kind })
	if len(changed) != 10 || after.bytes != before.bytes+50 {
		t.Errorf("%d files changed, by %d bytes", len(changed), after.bytes-before.bytes)
	}
	if err := appendTo(dir, nil, 10, "x"); err == nil {
		t.Error("no files can be changed")
	}
	if err := appendTo(dir, []string{"gone"}, 1, "x"); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Each change is one that the listing shows, and the directory is found under its new name.
func TestChanges(t *testing.T) {
	dir, _ := made(t, equal(200))
	b := &bench{scale: scale{changes: 50}}
	r := &round{tree: &tree{moved: "all"}, here: dir}
	var got []string
	for _, c := range changes {
		what, err := c.do(b, r)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got = append(got, what)
	}
	want := []string{"no-op", "one change", "50 small changes", "rename of 200 files", "delete of 200 files"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	l, err := list(dir)
	if err != nil || len(l.entries) != 1 {
		t.Errorf("left: %v, %v", l.entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "README")); err != nil {
		t.Errorf("all is gone, which some tools refuse: %v", err)
	}
}
