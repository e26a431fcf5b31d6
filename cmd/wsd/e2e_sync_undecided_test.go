package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A resolve that would lose a version which cannot be read leaves the path as it is, and says why.
func TestResolveSaysWhatItCannotDecide(t *testing.T) {
	w := newUserWorld(t)
	for _, n := range []string{"a", "b", "d/c"} {
		w.write(w.there, n, "base")
	}
	w.wantSync(0)
	mine := strings.Repeat("mine ", 1<<18) // more than is kept beside the file
	for _, n := range []string{"a", "b", "d/c"} {
		w.write(w.here, n, mine+n)
		w.write(w.there, n, "theirs")
	}
	if out, code := w.sync("--on-conflict", "hold"); code != exitHeld {
		t.Fatalf("status %d: %s", code, out)
	}
	for _, n := range []string{"a", "d/c", "d", ""} {
		w.take(filepath.Join(w.here, n))
	}
	for _, n := range []string{"a", "d/c"} {
		w.chmod(filepath.Join(w.here, n), 0)
	}
	resolve := func(how, path string) (string, int) {
		t.Helper()
		return w.run("sync", "resolve", "--state", filepath.Join(w.dir, "l.db"), how, filepath.Join(w.here, path), w.server.url)
	}
	why := ": the version here cannot be read, and may have changed; see who may read it"
	for _, how := range []string{"--theirs", "--both"} {
		out, code := resolve(how, "a")
		w.wantLines(out, code, exitHeld, "not decided: a"+why, "Error: 1 path held in conflict, 2 paths could not be read; all else is the same on both sides")
		if strings.Contains(out, "not decided: d/c") {
			t.Errorf("it was not asked about d/c:\n%s", out)
		}
	}
	out, code := resolve("--theirs", "d")
	w.wantLines(out, code, exitHeld, "not decided: d/c"+why)
	out, code = w.run("sync", "resolve", "--json", "--state", filepath.Join(w.dir, "l.db"), "--theirs", filepath.Join(w.here, "d"), w.server.url)
	w.wantLines(out, code, exitHeld, `{"type":"undecided","path":"d/c","why":"unreadable","of":"d/c"}`)
	for _, n := range []string{"a", "d/c"} {
		data, err := os.ReadFile(filepath.Join(w.here, n)) // take skips the test for all but the superuser
		if err != nil || string(data) != mine+n {
			t.Errorf("%s: %d bytes, %v; want what was there", n, len(data), err)
		}
	}
	for _, n := range []string{"", "d", "a", "d/c"} {
		w.own(filepath.Join(w.here, n))
	}
	w.chmod(filepath.Join(w.here, "a"), 0o644)
	w.chmod(filepath.Join(w.here, "d/c"), 0o644)
	for _, n := range []string{"a", "d/c"} {
		out, code = resolve("--theirs", n)
		w.wantLines(out, code, 0)
		w.wantFile(filepath.Join(w.here, n), "theirs")
	}
}
