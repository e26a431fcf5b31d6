package slashpath_test

import (
	"slices"
	"testing"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

func TestJoinAndSplit(t *testing.T) {
	for _, c := range []struct{ dir, name, path string }{
		{"/", "a", "/a"},
		{"/a", "b", "/a/b"},
		{"", "a", "a"},
		{"a", "b", "a/b"},
		{"/", "", "/"},
		{"", "", ""},
	} {
		if got := slashpath.Join(c.dir, c.name); got != c.path {
			t.Errorf("Join(%q, %q) = %q, want %q", c.dir, c.name, got, c.path)
		}
		if dir, name := slashpath.Split(c.path); dir != c.dir || name != c.name {
			t.Errorf("Split(%q) = %q, %q, want %q, %q", c.path, dir, name, c.dir, c.name)
		}
		if dir, base := slashpath.Dir(c.path), slashpath.Base(c.path); dir != c.dir || base != c.name {
			t.Errorf("Dir and Base of %q = %q, %q, want %q, %q", c.path, dir, base, c.dir, c.name)
		}
	}
	for _, name := range []string{"", "."} {
		if got := slashpath.Join("/a", name); got != "/a" {
			t.Errorf("Join with name %q = %q", name, got)
		}
	}
	if got := slashpath.Join("/", "a/b"); got != "/a/b" {
		t.Errorf("Join with a relative path = %q", got)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		path, dir, rest string
		ok              bool
	}{
		{"/a/b", "/a", "b", true},
		{"/a/b/c", "/a", "b/c", true},
		{"/a", "/a", "", true},
		{"/ab", "/a", "", false},
		{"/", "/a", "", false},
		{"/a", "/", "a", true},
		{"/", "/", "", true},
		{"a/b", "a", "b", true},
		{"ab", "a", "", false},
		{"a/b", "", "a/b", true},
		{"", "", "", true},
		{"", "a", "", false},
	} {
		rest, ok := slashpath.Cut(c.path, c.dir)
		if rest != c.rest || ok != c.ok {
			t.Errorf("Cut(%q, %q) = %q, %v, want %q, %v", c.path, c.dir, rest, ok, c.rest, c.ok)
		}
		if got := slashpath.Within(c.path, c.dir); got != c.ok {
			t.Errorf("Within(%q, %q) = %v", c.path, c.dir, got)
		}
	}
}

func TestCompare(t *testing.T) {
	want := []string{"", "/", "/a", "/a/b", "/a/b/c", "/a/c", "/a!", "/a-b", "/ab"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, slashpath.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("sorted %q, want %q", got, want)
	}
}
