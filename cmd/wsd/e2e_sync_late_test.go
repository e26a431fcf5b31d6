package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What could not be written here is no file that was removed here: each run tries again, and says
// what has come.
func TestLateA(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"a", "b", "d/c"} {
		w.write(w.there, name, "1")
	}
	w.take(w.here)
	const cannot = "Error: 4 paths could not be written; all else is the same on both sides"
	w.wantSync(1, cannot)
	w.wantSync(1, cannot)
	w.own(w.here)
	w.wantSync(0, "written here now, as runs before were to: 4 paths")
	w.wantFile(filepath.Join(w.here, "d/c"), "1")
	w.wantSync(0, "nothing has changed")

	// What it has had is.
	for _, name := range []string{"a", "b", "d"} {
		if err := os.RemoveAll(filepath.Join(w.here, name)); err != nil {
			t.Fatal(err)
		}
	}
	out, code := w.sync()
	if code != 3 || !strings.Contains(out, "had 3 files when it was last synchronised, and has nothing now") {
		t.Errorf("status %d: %s", code, out)
	}
}

// A file that could not be replaced has not lost its owner.
func TestLateAOwner(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.there, "ro/n", "1")
	w.wantSync(0)
	w.take(filepath.Join(w.here, "ro/n"))
	w.chmod(filepath.Join(w.here, "ro/n"), 0o644)
	w.take(filepath.Join(w.here, "ro"))
	w.write(w.there, "ro/n", "22")
	out, code := w.sync()
	w.wantLines(out, code, 1, "not written here: ro/n: permission denied")
	if n := strings.Count(out, "ro/n"); n != 1 {
		t.Errorf("it says %d lines about ro/n:\n%s", n, out)
	}
}
