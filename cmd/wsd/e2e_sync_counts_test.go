package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files in a directory that could not be removed at the server do not count as removed there.
func TestBelowUnremovedIsNotSent(t *testing.T) {
	for _, how := range []string{"removed here", "mirror", "from here"} {
		t.Run(how, func(t *testing.T) {
			w := newUserWorld(t)
			w.write(w.here, "other", "1")
			if how != "from here" {
				w.wantSync(0)
			}
			side := w.there
			if how == "removed here" {
				side = w.here
			}
			for _, name := range []string{"d/e/a", "d/e/b", "d/e/f/c"} {
				w.write(side, name, "text")
			}
			flags := []string{"-v"}
			switch how {
			case "removed here":
				w.wantSync(0)
				if err := os.RemoveAll(filepath.Join(w.here, "d")); err != nil {
					t.Fatal(err)
				}
			case "mirror":
				flags = append(flags, "--mirror", "--max-delete", "100%")
			default:
				flags = append(flags, "--from", "here")
			}
			for _, dir := range []string{"d/e/f", "d/e"} {
				w.take(filepath.Join(w.there, dir))
			}
			w.write(w.here, "other", "22")
			out, code := w.sync(flags...)
			w.wantLines(out, code, exitFailure, "sent other")
			if !strings.Contains(out, "\nto the server: 1 path, 2 B; from there: 0 paths, ") || strings.Contains(out, "deleted at the server") || strings.Contains(out, "and undone there") {
				t.Errorf("it counts what stays as gone:\n%s", out)
			}
			if how != "removed here" && !strings.Contains(out, "not undone there, since it could not be written there, or read here: 3 paths") {
				t.Errorf("it does not count what stays:\n%s", out)
			}
		})
	}
}

// A file that could not be written here is neither listed nor counted as written.
func TestUnwrittenHereIsNotListed(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"d/e/a", "ro/r", "f"} {
		w.write(w.there, name, "text")
	}
	w.wantSync(0)
	w.take(filepath.Join(w.here, "d/e"))
	w.take(filepath.Join(w.here, "ro"))
	if err := os.RemoveAll(filepath.Join(w.there, "d")); err != nil {
		t.Fatal(err)
	}
	w.write(w.there, "ro/new", "text")
	w.write(w.there, "f", "other")
	out, code := w.sync("-v")
	w.wantLines(out, code, exitFailure, "modified f", "to the server: 0 paths, 0 B; from there: 1 path, 5 B")
	for _, line := range []string{"created ro/new", "deleted d"} {
		if strings.Contains(out, line) {
			t.Errorf("it says %q:\n%s", line, out)
		}
	}
}

// A file that --from there could not remove here is neither counted nor listed as removed.
func TestFromThereCountsWhatIsRemoved(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"d/e/a", "d/e/b", "g"} {
		w.write(w.here, name, "text")
	}
	w.write(w.there, "f", "1")
	w.take(filepath.Join(w.here, "d/e"))
	out, code := w.sync("-v", "--from", "there")
	if code != exitFailure || !strings.Contains(out, "only here, and removed: 1 file, kept as lost versions") || !strings.Contains(out, "\ndeleted g\n") || strings.Contains(out, "deleted d") {
		t.Errorf("status %d: %s", code, out)
	}
}
