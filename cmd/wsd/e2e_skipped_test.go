package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
			w.wantSync(exitLeftOut)
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
			w.wantLines(out, code, exitLeftOut, lines...)
			w.wantSync(exitLeftOut, lines...)
			w.wantSync(exitLeftOut, lines...)
			out, code = w.exec("cat", "good")
			w.wantLines(out, code, exitLeftOut, lines...)
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
			if code != exitLeftOut || found["unread"] != "unreadable" || found["priv"] != "unreadable" || found["ff"] != "special" || len(found) != 3 {
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

// F3: paths that cannot be synchronised have an exit status of their own, whatever the kind and the
// side. A pattern for them makes the status 0 again.
func TestF3StatusOfWhatCannotBeSynchronised(t *testing.T) {
	kinds := map[string]struct {
		pattern string
		make    func(path string) error
	}{
		"pipe": {"/d/x", func(path string) error { return syscall.Mkfifo(path, 0o644) }},
		"socket": {"/d/x", func(path string) error {
			fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Close(fd))
		}},
		"odd name": {`/d/a\ \[b]\ \*\ \?\\`, func(path string) error {
			return syscall.Mkfifo(filepath.Join(filepath.Dir(path), `a [b] * ?\`), 0o644)
		}},
		"path that is too long": {"/d/x", func(path string) error {
			return nest(path, strings.Repeat("n", 200), 21)
		}},
	}
	for name, kind := range kinds {
		for _, side := range []string{"here", "there"} {
			t.Run(name+" "+side, func(t *testing.T) {
				p := newSyncPair(t)
				dir := map[string]string{"here": p.here, "there": p.there}[side]
				writeFile(t, filepath.Join(dir, "d/good"), "g")
				if err := kind.make(filepath.Join(dir, "d/x")); err != nil {
					t.Fatal(err)
				}
				p.serve()
				hint := "the line " + regexp.QuoteMeta(kind.pattern) + " in "
				if strings.Contains(name, "long") { // the line would be
					hint = "a pattern in "
				}
				said := "Error: 1 path cannot be synchronised; all else is the same on both sides\nHint: " + hint
				p.sync("--dry-run").want(t, exitLeftOut)
				p.sync().want(t, exitLeftOut, said)
				p.sync("-q").want(t, exitLeftOut, said)
				lines := strings.Split(strings.TrimSpace(p.sync("--json").stdout), "\n")
				if last := lines[len(lines)-1]; len(lines) != 2 || !strings.HasPrefix(last, `{"type":"result"`) || !strings.Contains(last, `"skipped":1`) {
					t.Errorf("the result is not the last line of --json: %q", lines)
				}
				exec := func(argv ...string) outcome {
					t.Helper()
					return p.run(append([]string{"exec", "--sync", "--state", p.state, "--dir", p.here, "--connect", p.url, "--"}, argv...)...)
				}
				exec("true").want(t, exitLeftOut, "the command ended with status 0, but", said)
				exec("sh", "-c", "exit 7").want(t, 7)
				if got := p.watched(syscall.SIGINT); got != exitLeftOut {
					t.Errorf("a watch that is ended: status %d", got)
				}
				p.sync("--ignore", kind.pattern).want(t, 0)
				writeFile(t, filepath.Join(p.here, ignoreFile), kind.pattern+"\n")
				if o := p.sync(); o.code != 0 || o.stderr != "" {
					t.Errorf("with the pattern: %+v", o)
				}
				exec("true").want(t, 0)
				if got := p.watched(syscall.SIGTERM); got != 0 {
					t.Errorf("a watch with the pattern: status %d", got)
				}
				wantFile(t, filepath.Join(p.here, "d/good"), "g")
				wantFile(t, filepath.Join(p.there, "d/good"), "g")
			})
		}
	}
}

// nest makes a directory with others in each other.
func nest(path, name string, depth int) error {
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	at, err := unix.Open(path, unix.O_DIRECTORY, 0)
	for range depth {
		if err == nil {
			err = unix.Mkdirat(at, name, 0o755)
		}
		if err == nil {
			above := at
			at, err = unix.Openat(above, name, unix.O_DIRECTORY, 0)
			_ = unix.Close(above)
		}
	}
	return errors.Join(err, unix.Close(at))
}

// watched runs wsd sync --watch until it has sent a file, ends it, and returns its exit status.
func (p *syncPair) watched(sig unix.Signal) int {
	p.t.Helper()
	watch, out := p.command("sync", "--watch", "--state", p.state, p.here, p.url), &logBuffer{}
	watch.Stdout, watch.Stderr = out, out
	writeFile(p.t, filepath.Join(p.here, "watched"), sig.String())
	if err := watch.Start(); err != nil {
		p.t.Fatal(err)
	}
	waitFor(p.t, out, "to the server: 1 path")
	waitFor(p.t, out, "\nwatching both sides for changes; ^C ends it\n")
	if err := watch.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	if err := watch.Wait(); err != nil && watch.ProcessState.ExitCode() < 0 {
		p.t.Fatal(err)
	}
	return watch.ProcessState.ExitCode()
}
