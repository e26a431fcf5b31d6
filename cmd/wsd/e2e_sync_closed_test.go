package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
)

// A server whose directory is closed altogether is named as the side that cannot read it, and what to do.
func TestServerDirectoryIsClosed(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.there, "a", "1")
	w.wantSync(0)
	w.take(w.there)
	w.chmod(w.there, 0)
	const hint = "Hint: the user whose 'wsd serve' it is may not read or search that directory: see its owner and its mode there; nothing is removed for that"
	line := "Error: at the server: settle " + w.there + ": open " + w.there + ": permission denied"
	w.wantSync(exitFailure, line, hint)
	out, code := w.sync("--dry-run")
	w.wantLines(out, code, exitFailure, line, hint)
	out, code = w.exec("true")
	w.wantLines(out, code, exitTransport, line+"; the command was not run", hint)
	empty := filepath.Join(w.dir, "empty")
	out, code = w.run("sync", "--create", empty, w.server.url)
	w.wantLines(out, code, exitFailure, line, hint)
	w.wantFile(filepath.Join(w.here, "a"), "1")
	told := &changes.Error{Code: "EACCES", Name: "Error", Err: errors.New("settle: settle /w: open /w: permission denied")} // over capnweb
	if got := new(syncOutput).explain(fmt.Errorf("read the remote's watermarks: %w", told)).Error(); got != "at the server: settle /w: open /w: permission denied" {
		t.Errorf("over capnweb: %s", got)
	}
	told.Code = "" // it is the code that says so, and no text
	if err := new(syncOutput).explain(told); err != told {
		t.Errorf("without a code: %v", err)
	}
	w.own(w.there)
	w.chmod(w.there, 0o755)
	w.wantSync(0, "nothing has changed")
}

// A run counts as sent what the server has written, and with -v names both directions.
func TestSentIsWhatWasWritten(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.here, "ro/r", "1")
	w.write(w.here, "gone", "1")
	w.write(w.there, "b", "1")
	out, code := w.sync("--merge", "-v")
	w.wantLines(out, code, 0, "created b\nsent gone\nsent ro\nsent ro/r\nto the server: 3 paths, 0 B; from there: 1 path, 0 B")
	w.take(filepath.Join(w.there, "ro"))
	w.write(w.here, "ro/n", "22")
	w.write(w.here, "ro/m", "22")
	w.write(w.here, "other", "1")
	if err := os.Remove(filepath.Join(w.here, "gone")); err != nil {
		t.Fatal(err)
	}
	w.wantSync(exitFailure, "to the server: 2 paths, 2 B; from there: 0 paths, 0 B")
	w.wantSync(exitFailure, "nothing has changed")
	w.write(w.here, "ro/n", "333")
	w.write(w.here, "other", "2")
	out, code = w.sync("--json", "-v")
	w.wantLines(out, code, exitFailure, `{"type":"sent","path":"other","kind":"file","size":1}`)
	if !strings.Contains(out, `{"type":"result","pushed":1,`) {
		t.Errorf("--json: %s", out)
	}
	if err := os.Remove(filepath.Join(w.here, "other")); err != nil {
		t.Fatal(err)
	}
	out, code = w.sync("-v")
	w.wantLines(out, code, exitFailure, "deleted at the server other", "to the server: 1 path, 0 B; from there: 0 paths, 0 B")
	w.own(filepath.Join(w.there, "ro"))
	w.wantSync(0)
	w.wantFile(filepath.Join(w.there, "ro/n"), "333")

	w.take(filepath.Join(w.here, "ro"))
	for _, name := range []string{"ro/o", "ro/n", "other"} {
		w.write(w.there, name, "4444")
	}
	w.wantSync(exitFailure, "to the server: 0 paths, 0 B; from there: 1 path, 4 B")
	for i := range 120 {
		w.write(w.there, fmt.Sprintf("ro/%03d", i), "")
	}
	w.write(w.there, "other", "55555")
	w.wantSync(exitFailure, "to the server: 0 paths, 0 B; from there: 1 path, 5 B")
	w.own(filepath.Join(w.here, "ro"))
	out, code = w.exec("true")
	w.wantLines(out, code, 0)
	w.write(w.here, "more", "1")
	out, code = w.exec("sh", "-c", "echo 1 >made")
	w.wantLines(out, code, 0, "created made")
	if strings.Contains(out, "more") {
		t.Errorf("it names what it has sent: %s", out)
	}
}

// When paths could not be written, a run around a command says whether the command ran.
func TestExecSaysWhetherItRan(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.there, "ro/r", "1")
	w.wantSync(0)
	w.take(filepath.Join(w.there, "ro"))
	w.write(w.here, "ro/n", "1")
	out, code := w.exec("true")
	w.wantLines(out, code, exitTransport, "Error: 1 path could not be written; all else is the same on both sides; the command was not run")
	if err := os.Remove(filepath.Join(w.here, "ro/n")); err != nil {
		t.Fatal(err)
	}
	w.wantSync(0)
	w.take(filepath.Join(w.here, "ro"))
	w.own(filepath.Join(w.there, "ro"))
	out, code = w.exec("sh", "-c", "echo 1 >ro/m; exit 4")
	w.wantLines(out, code, exitTransport, "not written here: ro/m: permission denied", "the command ended with status 4",
		"Error: 1 path could not be written; all else is the same on both sides")
}

// What the server could not write is counted and left out of the list also where that is more than it names, and was
// so before the run.
func TestSentIsWhatWasWrittenOfMany(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.here, "ro/r", "1")
	w.wantSync(0)
	w.take(filepath.Join(w.there, "ro"))
	for _, text := range []string{"22", "333"} {
		for i := range 150 {
			w.write(w.here, fmt.Sprintf("ro/%03d", i), text)
		}
		w.write(w.here, "other", text)
		out, code := w.sync("-v")
		w.wantLines(out, code, exitFailure, "sent other", fmt.Sprintf("to the server: 1 path, %d B; from there: 0 paths, 0 B", len(text)))
		if strings.Contains(out, "sent ro") {
			t.Errorf("it says that it sent what was not written:\n%s", out)
		}
	}
}

// A run with --mirror says which of the server's changes it could not undo.
func TestMirrorCannotUndo(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"ro/changed", "ro/removed", "a", "b"} {
		w.write(w.here, name, "base")
	}
	w.wantSync(0)
	for _, name := range []string{"ro/changed", "ro/new", "a", "more"} {
		w.write(w.there, name, "theirs")
	}
	for _, name := range []string{"ro/removed", "b"} {
		if err := os.Remove(filepath.Join(w.there, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.take(filepath.Join(w.there, "ro"))
	out, code := w.sync("--mirror")
	w.wantLines(out, code, exitFailure, "not written at the server: ro/changed: permission denied", "not written at the server: ro/new: permission denied",
		"not written at the server: ro/removed: permission denied", "to the server: 3 paths, 4 B; from there: 0 paths, 6 B")
	for _, text := range []string{
		"changed at the server, and undone there: 2 versions, kept here; ",
		"changed at the server, and not undone there, since it could not be written there, or read here: 2 paths; each run tries again; the server's versions are kept here too",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("it did not say %q:\n%s", text, out)
		}
	}
	w.wantFile(filepath.Join(w.there, "ro/changed"), "theirs")
	w.wantFile(filepath.Join(w.there, "a"), "base")
	w.own(filepath.Join(w.there, "ro"))
	out, code = w.sync("--mirror")
	w.wantLines(out, code, 0)
	w.wantFile(filepath.Join(w.there, "ro/changed"), "base")
	w.wantFile(filepath.Join(w.there, "ro/new"), "")
	w.wantFile(filepath.Join(w.there, "ro/removed"), "base")
}

// The first time, too, a run lists and counts what it did: not what was the same at the server, nor what was never
// there.
func TestFirstListsWhatItDid(t *testing.T) {
	for flag, want := range map[string]string{
		"--from there": "deleted a\nmodified b\ncreated c\ndeleted d/e\ndeleted d/e/f\nto the server: 0 paths, 0 B; from there: 2 paths, 8 B",
		"--from here":  "sent a\nsent b\ndeleted at the server c\nsent d/e\nsent d/e/f",
		"--merge":      "modified b\ncreated c\nsent a\nsent b.conflict-0fc129e1\nsent d/e\nsent d/e/f\nto the server: 4 paths, 7 B; from there: 2 paths, 8 B",
	} {
		t.Run(flag, func(t *testing.T) {
			w := newUserWorld(t)
			for name, text := range map[string]string{"a": "a", "b": "here", "d/e/f": "ff", "same": "same", "d/same": "same"} {
				w.write(w.here, name, text)
			}
			for name, text := range map[string]string{"b": "there", "c": "ccc", "same": "same", "d/same": "same"} {
				w.write(w.there, name, text)
			}
			for _, side := range []string{w.here, w.there} {
				for _, name := range []string{"same", "d/same"} {
					if err := os.Chtimes(filepath.Join(side, name), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
						t.Fatal(err)
					}
				}
			}
			out, code := w.sync(append(strings.Fields(flag), "-v")...)
			w.wantLines(out, code, 0, want)
			if strings.Contains(out, "runs before") {
				t.Errorf("it says that a run before it was to write something:\n%s", out)
			}
			out, code = w.sync("-v")
			w.wantLines(out, code, 0, "nothing has changed")
			if err := os.Remove(filepath.Join(w.dir, "l.db")); err != nil {
				t.Fatal(err)
			}
			out, code = w.sync("-v", "--merge")
			w.wantLines(out, code, 0, "nothing has changed")
		})
	}
}

// A directory that is closed here does not hold up what --from there removes and brings.
func TestFromThereClosedHere(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"a", "closed/x", "ro/f", "z"} {
		w.write(w.here, name, name)
	}
	w.write(w.there, "b", "theirs")
	w.take(filepath.Join(w.here, "closed"))
	w.chmod(filepath.Join(w.here, "closed"), 0o700)
	out, code := w.sync("--from", "there", "-v")
	w.wantLines(out, code, exitLeftOut, "not read here: closed: permission denied", "deleted a", "created b", "deleted z")
	w.wantFile(filepath.Join(w.here, "a"), "")
	w.wantFile(filepath.Join(w.here, "b"), "theirs")
	w.wantFile(filepath.Join(w.here, "closed/x"), "closed/x")
	w.wantSync(exitLeftOut, "nothing has changed")
}

// Nor does one that belongs to somebody else.
func TestFromThereUnwritableHere(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"a", "ro/f", "z"} {
		w.write(w.here, name, name)
	}
	w.write(w.there, "b", "theirs")
	w.take(filepath.Join(w.here, "ro"))
	out, code := w.sync("--from", "there")
	w.wantLines(out, code, exitFailure, "not written here: ro/f: permission denied")
	w.wantFile(filepath.Join(w.here, "z"), "")
	w.wantFile(filepath.Join(w.here, "b"), "theirs")
	w.own(filepath.Join(w.here, "ro"))
	w.wantSync(0)
	w.wantFile(filepath.Join(w.here, "ro/f"), "")
	w.wantFile(filepath.Join(w.there, "ro/f"), "")
}

// A directory that is closed has no files that are known as those of the one that was in step before.
func TestReplacedByClosed(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.here, "d/f", "1")
	w.write(w.here, "g", "1")
	w.wantSync(0)
	if err := os.Rename(w.here, w.here+".old"); err != nil {
		t.Fatal(err)
	}
	w.write(w.here, "d/other", "1")
	w.write(w.here, "h", "1")
	w.own(w.here)
	w.take(filepath.Join(w.here, "d"))
	w.chmod(filepath.Join(w.here, "d"), 0)
	w.wantSync(exitRefused, "Error: "+w.here+" is another directory than the one that was in step, and has none of its 2 files; nothing was changed")
	w.wantFile(filepath.Join(w.there, "g"), "1")
	w.own(filepath.Join(w.here, "d"))
	w.chmod(filepath.Join(w.here, "d"), 0o755)
	w.write(w.here, "d/f", "1") // as a copy of it
	w.wantSync(0)
}
