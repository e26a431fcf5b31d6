package fs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs"
	"github.com/wsd-dev/wsd/fs/fileuri"
)

// walked is what a walk told: names below $U, directories with a slash, errors with
// an exclamation mark, "..." when it was cut off.
func walked(c *client, path string, options object) string {
	c.t.Helper()
	all := object{"maxDepth": 5, "maxDirectories": 100, "maxEntries": 100, "followDirectorySymlinks": false}
	for k, v := range options {
		all[k] = v
	}
	r := result[struct {
		Entries   []struct{ Path, Kind string }
		Errors    []struct{ Path, Message string }
		Truncated bool
	}](c, "fs/walk", object{"path": path, "options": all})
	var out []string
	for _, e := range r.Entries {
		name := strings.TrimPrefix(e.Path, "$U/")
		if e.Kind == "directory" {
			name += "/"
		}
		out = append(out, name)
	}
	for _, e := range r.Errors {
		out = append(out, "!"+strings.TrimPrefix(e.Path, "$U/")+":"+e.Message)
	}
	if r.Truncated {
		out = append(out, "...")
	}
	return strings.Join(out, " ")
}

// What these say of bounds was provoked from codex 0.171.0.
func TestWalk(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("a/b/c")
	c.mkdir(".h/i")
	c.put("a/f", "")
	c.put(".h/x", "")
	c.link("a", "la")
	c.link("gone", "g")
	c.link("a/f", "lf")
	c.link("..", "a/up")
	if err := unix.Mkfifo(c.path("ff"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path    string
		options object
		want    string
	}{
		{"", nil, ".h/ a/ .h/i/ .h/x a/b/ a/f a/b/c/"},
		{"", object{"followDirectorySymlinks": true}, ".h/ a/ la/ .h/i/ .h/x a/b/ a/f a/up/ a/b/c/"},
		{"", object{"maxDepth": 0}, ".h/ a/"},
		{"", object{"maxDepth": 1}, ".h/ a/ .h/i/ .h/x a/b/ a/f"},
		{"", object{"maxDirectories": 1}, ".h/ a/ ..."},
		{"", object{"maxDirectories": 2}, ".h/ a/ .h/i/ .h/x ..."},
		{"", object{"maxDirectories": 6}, ".h/ a/ .h/i/ .h/x a/b/ a/f a/b/c/"},
		{"", object{"pruneHiddenDirectories": true}, ".h/ a/ a/b/ a/f a/b/c/"},
		{"", object{"maxEntries": 1}, ".h/ ..."},
		{"", object{"maxEntries": 3}, ".h/ a/ ..."}, // what is not listed counts
		{"", object{"maxEntries": 5}, ".h/ a/ ..."},
		{"", object{"maxEntries": 6}, ".h/ a/ .h/i/ ..."},
		{"", object{"maxEntries": 9}, ".h/ a/ .h/i/ .h/x a/b/ a/f ..."},
		{"", object{"maxEntries": 10}, ".h/ a/ .h/i/ .h/x a/b/ a/f ..."},
		{"", object{"maxEntries": 11}, ".h/ a/ .h/i/ .h/x a/b/ a/f a/b/c/"},
		{"/a/f", nil, ""},
		{"/ff", nil, ""},
		{"/la", nil, ""},
		{"/la", object{"followDirectorySymlinks": true, "maxDepth": 0}, "la/b/ la/f la/up/"},
		{"/lf", object{"followDirectorySymlinks": true}, ""},
		{"/g", object{"followDirectorySymlinks": true}, ""},
		{"/g", nil, ""},
	} {
		if got := walked(c, "$U"+tt.path, tt.options); got != tt.want {
			t.Errorf("walk %q %v\n got %s\nwant %s", tt.path, tt.options, got, tt.want)
		}
	}
	refuse := func(want, path string, options object) {
		t.Helper()
		all := object{"maxDepth": 5, "maxDirectories": 10, "maxEntries": 100, "followDirectorySymlinks": false}
		for k, v := range options {
			all[k] = v
		}
		c.want(want, "fs/walk", object{"path": path, "options": all})
	}
	const zero, beyond = "-32600 filesystem walk limits must be greater than zero",
		"-32600 filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000"
	refuse(zero, "$U", object{"maxEntries": 0})
	refuse(zero, "$U", object{"maxDirectories": 0})
	refuse(beyond, "$U", object{"maxDepth": 65})
	refuse(beyond, "$U", object{"maxDirectories": 10_001})
	refuse(beyond, "$U", object{"maxEntries": 50_001})
	refuse(notFound, "$U/nope", nil)
	refuse(notDir, "$U/a/f/x", nil)
	c.want("-32602 *", "fs/walk", object{"path": "$U", "options": object{"maxDepth": 1}})
}

func TestWalkOddNames(t *testing.T) {
	c := newClient(t, fs.Config{})
	for _, name := range []string{"nl\nx", "tab\tx", "bad\xff", "100%"} {
		c.put(name, "")
	}
	if got, want := walked(c, "$U", nil), "100%25 bad%FF nl%0Ax tab%09x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWalkUnreadable(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("a")
	// A directory that vanishes under the walk cannot be arranged, one that no path
	// reaches can: its path is longer than paths may be.
	deep := strings.Repeat("d", 200)
	dir, err := os.Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	at := int(dir.Fd())
	for range 21 {
		if err := unix.Mkdirat(at, deep, 0o777); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, deep, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(next)
		at = next
	}
	got := walked(c, "$U", object{"maxDepth": 64})
	if !strings.Contains(got, "!"+deep) || !strings.HasSuffix(got, ":Filename too long (os error 36)") || !strings.HasPrefix(got, "a/ ddd") {
		t.Errorf("got %.200s ... %s", got, got[max(0, len(got)-100):])
	}
}

// A directory without permission is listed, and reported.
func TestWalkForbidden(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.mkdir("no/x")
	c.mkdir("z/y")
	if err := os.Chmod(c.path("no"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(c.path("no"), 0o700) })
	want := "no/ z/ z/y/ !no:Permission denied (os error 13)"
	if os.Geteuid() == 0 { // whom nothing forbids
		want = "no/ z/ no/x/ z/y/"
	}
	if got := walked(c, "$U", nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestWalkBudget(t *testing.T) {
	c := newClient(t, fs.Config{})
	dir := strings.Repeat(strings.Repeat("\xff", 250)+"/", 10) // each of its bytes is three of the URI's
	name := strings.Repeat("\xff", 240)
	root := fileuri.Format(c.path(dir))
	size := len(root) + 1 + 5 + 3*len(name) + 64
	fit := 4 << 20 / size
	for i := range fit + 1 {
		c.put(fmt.Sprintf("%s%05d%s", dir, i, name), "")
	}
	got := walked(c, root, object{"maxEntries": 50_000})
	if n := strings.Count(got, "%FF/0"); n != fit || !strings.HasSuffix(got, " ...") {
		t.Errorf("%d entries of %d bytes each, want %d and a cut", n, size, fit)
	}
	if err := os.Remove(c.path(fmt.Sprintf("%s%05d%s", dir, fit, name))); err != nil {
		t.Fatal(err)
	}
	if got := walked(c, root, object{"maxEntries": 50_000}); strings.HasSuffix(got, "...") {
		t.Error("an answer that just fits is called truncated")
	}
}
