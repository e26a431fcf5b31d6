package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Each run tries again to write a path that could not be written, names it, and ends with a
// status other than 0, until it is there. All else comes over.
func TestC052EachRunNamesWhatIsMissing(t *testing.T) {
	for _, side := range []string{"here", "there"} {
		t.Run(side, func(t *testing.T) {
			w := newUserWorld(t)
			near, far, line := w.here, w.there, "not written here: ro/n: permission denied"
			if side == "there" {
				near, far, line = w.there, w.here, "not written at the server: ro/n: permission denied"
			}
			w.write(far, "ro/r", "1")
			w.wantSync(0)
			w.take(filepath.Join(near, "ro"))
			w.write(far, "ro/n", "new")
			w.write(far, "other", "comes over")
			for range 3 {
				w.wantSync(exitFailure, line)
				w.wantFile(filepath.Join(near, "other"), "comes over")
				w.wantFile(filepath.Join(near, "ro/n"), "")
			}
			out, code := w.sync("--json")
			w.wantLines(out, code, exitFailure)
			if !strings.Contains(out, `"why":"unwritten","path":"ro/n","error":"permission denied"`) {
				t.Errorf("--json: %s", out)
			}
			out, code = w.exec("touch", "ran")
			w.wantLines(out, code, exitTransport, line)
			w.wantFile(filepath.Join(w.there, "ran"), "")
			if _, err := os.Lstat(filepath.Join(w.there, "ran")); err == nil {
				t.Error("the command ran without the file")
			}
			w.own(filepath.Join(near, "ro"))
			w.wantSync(0)
			w.wantFile(filepath.Join(near, "ro/n"), "new")
			w.wantSync(0, "nothing has changed")
		})
	}
}

// Files come over into, and go from, a read-only directory of the user's own. So does the mode
// of a directory that was closed for a while.
func TestC053ReadOnlyDirectories(t *testing.T) {
	for _, side := range []string{"here", "there"} {
		t.Run(side, func(t *testing.T) {
			w := newUserWorld(t)
			near, far := w.here, w.there
			if side == "there" {
				near, far = w.there, w.here
			}
			w.write(far, "ro/r", "1")
			w.write(far, "ro/gone", "1")
			w.write(far, "a/f", "1")
			w.chmod(filepath.Join(far, "ro"), 0o555)
			w.wantSync(0)
			w.chmod(filepath.Join(far, "ro"), 0o755)
			w.write(far, "ro/n", "new")
			if err := os.Remove(filepath.Join(far, "ro/gone")); err != nil {
				t.Fatal(err)
			}
			w.chmod(filepath.Join(far, "ro"), 0o555)
			w.wantSync(0)
			w.wantFile(filepath.Join(near, "ro/n"), "new")
			w.wantFile(filepath.Join(near, "ro/gone"), "")
			w.wantSync(0, "nothing has changed")
			w.chmod(filepath.Join(far, "a"), 0)
			w.wantSync(exitUnread)
			w.chmod(filepath.Join(far, "a"), 0o755)
			w.wantSync(0)
			for path, mode := range map[string]os.FileMode{"ro": 0o555, "a": 0o755} {
				if info, err := os.Stat(filepath.Join(near, path)); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, mode)
				}
			}
		})
	}
}

// A run names the paths that either side leaves out, and has an exit status of its own when
// something could not be read.
func TestC056LeftOutIsNamed(t *testing.T) {
	for side, where := range map[string]string{"here": "here", "there": "at the server"} {
		t.Run(side, func(t *testing.T) {
			w := newUserWorld(t)
			dir := w.here
			if side == "there" {
				dir = w.there
			}
			w.write(dir, "good", "g")
			w.write(dir, "unread", "q")
			w.write(dir, "priv/p", "p")
			w.write(dir, "caf\xe9", "l") // it travels
			w.chmod(filepath.Join(dir, "unread"), 0)
			w.chmod(filepath.Join(dir, "priv"), 0)
			if err := syscall.Mkfifo(filepath.Join(dir, "ff"), 0o644); err != nil {
				t.Fatal(err)
			}
			lines := []string{
				"not read " + where + ": priv: permission denied",
				"not read " + where + ": unread: permission denied",
				"left out " + where + ": ff: neither file, directory nor link",
			}
			out, code := w.sync("--dry-run")
			w.wantLines(out, code, exitUnread, lines...)
			w.wantSync(exitUnread, lines...)
			w.wantSync(exitUnread, lines...)
			out, code = w.exec("cat", "good")
			w.wantLines(out, code, 0, lines...)
			out, code = w.sync("--json")
			found := map[string]string{}
			for line := range strings.Lines(out) {
				var o struct {
					Type, Why, Path string
					Skipped         int
				}
				if !strings.HasPrefix(line, "{") {
					continue
				}
				if err := json.Unmarshal([]byte(line), &o); err != nil {
					t.Errorf("%s: %v", line, err)
				}
				switch o.Type {
				case "skipped":
					found[o.Path] = o.Why
				case "result":
					if o.Skipped != 4 { // the other side has a directory that is closed, too
						t.Errorf("the result counts %d", o.Skipped)
					}
				}
			}
			if code != exitUnread || found["unread"] != "unreadable" || found["priv"] != "unreadable" || found["ff"] != "special" || len(found) != 3 {
				t.Errorf("--json: status %d, %v\n%s", code, found, out)
			}
			out, code = w.sync("--ignore", "unread", "--ignore", "priv", "--ignore", "ff")
			w.wantLines(out, code, 0)
			if strings.Contains(out, "unread") || strings.Contains(out, "ff") {
				t.Errorf("what is ignored was named:\n%s", out)
			}
		})
	}
}
