package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that was edited and closed before wsd saw the edit is in conflict with a change of the server, in each mode: also
// if it has the size and the time that it had.
func TestClosedEditIsNotOverruled(t *testing.T) {
	for _, mode := range []string{"fail", "hold", "ours", "both", "theirs"} {
		t.Run(mode, func(t *testing.T) { closedEdit(t, mode, false) })
		t.Run(mode+", with its old time", func(t *testing.T) { closedEdit(t, mode, true) })
	}
}

// edit changes the text of a file to one of the same length, with the time that it had.
func (w *userWorld) edit(path, text string) {
	w.t.Helper()
	info, err := os.Lstat(path)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err == nil {
		err = os.Chtimes(path, info.ModTime(), info.ModTime())
	}
	if err != nil || info.Size() != int64(len(text)) {
		w.t.Fatalf("%s: %v, %d bytes", path, err, info.Size())
	}
}

// noCopies wants nothing to be put aside in some directories.
func (w *userWorld) noCopies(dirs ...string) {
	w.t.Helper()
	for _, dir := range dirs {
		if list, err := filepath.Glob(filepath.Join(dir, "*.conflict-*")); err != nil || len(list) > 0 {
			w.t.Errorf("%v, %v", list, err)
		}
	}
}

func closedEdit(t *testing.T, mode string, oldTime bool) {
	w := newUserWorld(t)
	w.write(w.here, "f", "old4")
	w.wantSync(0)
	path := filepath.Join(w.here, "f")
	if oldTime {
		w.edit(path, "mine")
	} else {
		w.write(w.here, "f", "mine")
	}
	w.take(path)
	w.chmod(path, 0o600)
	w.write(w.there, "f", "theirs1")
	w.write(w.there, "other", "1")
	stays := func() {
		t.Helper()
		w.wantFile(path, "mine")
		w.wantFile(filepath.Join(w.there, "f"), "theirs1")
		w.noCopies(w.here, w.there)
	}
	status := map[string]int{"fail": exitRefused}[mode]
	if status == 0 {
		status = exitHeld
	}
	for i, flags := range [][]string{{"--dry-run"}, nil, nil} {
		named := "conflict: f: here 4 B"
		if i == 2 && mode != "fail" {
			named = "not read here: f: permission denied\n" // the conflict is told once
		}
		out, code := w.sync(append(flags, "--on-conflict", mode)...)
		if code != status || !strings.Contains(out, named) || strings.Contains(out, "< file f\n") {
			t.Fatalf("%v: status %d, want %d: %s", flags, code, status, out)
		}
		stays()
	}
	if mode != "fail" {
		w.wantFile(filepath.Join(w.here, "other"), "1")
		out, code := w.run("sync", "conflicts", "--state", filepath.Join(w.dir, "l.db"), w.here, w.server.url)
		if code != 0 || !strings.Contains(out, "conflict: f: here 4 B") {
			t.Errorf("conflicts: status %d: %s", code, out)
		}
		_, _ = w.exec("true")
		stays()
		for _, how := range []string{"--ours", "--theirs", "--both"} {
			out, code := w.run("sync", "resolve", how, "--state", filepath.Join(w.dir, "l.db"), path, w.server.url)
			w.wantLines(out, code, exitHeld, "not decided: f: the version here cannot be read, and may have changed; see who may read it")
			stays()
		}
	}
	w.own(path)
	if mode == "fail" || mode == "hold" {
		_, code := w.sync("--on-conflict", mode)
		if code != status {
			t.Errorf("status %d, want %d", code, status)
		}
		stays()
		return
	}
	out, code := w.sync("--on-conflict", mode)
	if code != 0 || !strings.Contains(out, "conflict: f: here 4 B") {
		t.Errorf("status %d: %s", code, out)
	}
	want := map[string]string{"ours": "mine", "both": "theirs1", "theirs": "theirs1"}[mode]
	w.wantFile(path, want)
	w.wantFile(filepath.Join(w.there, "f"), want)
}

// One that was closed and has not changed takes the server's version, or its removal, once it can be read, without a conflict
// that is decided.
func TestClosedFileHasNotChanged(t *testing.T) {
	for _, removed := range []bool{false, true} {
		t.Run(fmt.Sprint(removed), func(t *testing.T) {
			w := newUserWorld(t)
			w.write(w.here, "f", "old4")
			w.write(w.here, "g", "1")
			w.wantSync(0)
			path := filepath.Join(w.here, "f")
			w.take(path)
			w.chmod(path, 0o600)
			w.wantSync(exitLeftOut, "not read here: f: permission denied")
			want := ""
			if removed {
				if err := os.Remove(filepath.Join(w.there, "f")); err != nil {
					t.Fatal(err)
				}
			} else {
				want = "theirs"
				w.write(w.there, "f", want)
			}
			for range 2 {
				w.wantSync(exitHeld)
				w.wantFile(path, "old4")
			}
			w.own(path)
			if out, code := w.sync(); code != 0 || strings.Contains(out, "conflict: ") {
				t.Errorf("status %d: %s", code, out)
			}
			w.wantFile(path, want)
			w.wantFile(filepath.Join(w.there, "f"), want)
		})
	}
}

// Nor is what a first run cannot read.
func TestClosedFileAtFirst(t *testing.T) {
	w := newUserWorld(t)
	path := filepath.Join(w.here, "f")
	w.write(w.here, "f", "mine")
	w.take(path)
	w.chmod(path, 0o600)
	w.write(w.there, "f", "theirs1")
	w.write(w.here, "g", "1")
	out, code := w.sync("--merge")
	if code != exitHeld || !strings.Contains(out, "conflict: f: here 4 B") {
		t.Errorf("status %d: %s", code, out)
	}
	w.wantFile(path, "mine")
	w.wantFile(filepath.Join(w.there, "f"), "theirs1")
	w.wantFile(filepath.Join(w.there, "g"), "1")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := w.sync(); code != 0 || !strings.Contains(out, "conflict: f: here 4 B") {
		t.Errorf("status %d: %s", code, out)
	}
}

// A directory of the user's own that its mode has closed is opened for what comes from the server, at any depth, and
// closed again: it holds nothing up.
func TestOwnClosedDirectoryIsWritten(t *testing.T) {
	for _, mode := range []os.FileMode{0, 0o100, 0o400} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newUserWorld(t)
			names := []string{"d/f", "d/new", "d/e/f", "d/e/new"}
			for _, name := range []string{"d/f", "d/e/f"} {
				w.write(w.here, name, "old")
			}
			w.wantSync(0)
			inner, outer := filepath.Join(w.here, "d/e"), filepath.Join(w.here, "d")
			for _, dir := range []string{inner, outer} {
				w.chmod(dir, mode)
				w.wantSync(exitLeftOut)
				w.chmod(filepath.Join(w.there, "d"), 0o755)
				w.chmod(filepath.Join(w.there, "d/e"), 0o755)
				w.sync()
				w.chmod(dir, mode)
			}
			for _, name := range names {
				w.write(w.there, name, "theirs")
			}
			for range 2 {
				w.wantSync(exitLeftOut)
			}
			for _, dir := range []string{outer, inner} {
				if info, err := os.Lstat(dir); err != nil || info.Mode().Perm() != mode {
					t.Errorf("%s: %v, %v", dir, info, err)
				}
				w.chmod(dir, 0o755)
			}
			w.wantSync(0)
			for _, name := range names {
				w.wantFile(filepath.Join(w.here, name), "theirs")
				w.wantFile(filepath.Join(w.there, name), "theirs")
			}
		})
	}
}

// An edit in it that wsd had not seen is a conflict.
func TestOwnClosedDirectoryHasAnEdit(t *testing.T) {
	for _, mode := range []string{"both", "theirs", "ours", "hold", "fail"} {
		t.Run(mode, func(t *testing.T) {
			w := newUserWorld(t)
			w.write(w.here, "d/f", "old")
			w.wantSync(0)
			w.write(w.here, "d/f", "mine")
			w.chmod(filepath.Join(w.here, "d"), 0)
			w.write(w.there, "d/f", "theirs")
			out, code := w.sync("--on-conflict", mode)
			if code == 0 || !strings.Contains(out, "conflict: d/f: here 4 B") {
				t.Errorf("status %d: %s", code, out)
			}
			w.chmod(filepath.Join(w.here, "d"), 0o755)
			w.chmod(filepath.Join(w.there, "d"), 0o755)
			w.sync("--on-conflict", mode)
			path := filepath.Join(w.here, "d/f")
			switch mode {
			case "both":
				list, err := filepath.Glob(path + ".conflict-*")
				if err != nil || len(list) != 1 {
					t.Fatalf("%v, %v", list, err)
				}
				path = list[0]
			case "theirs":
				w.wantFile(path, "theirs")
				path = filepath.Join(w.dir, "restored")
				if out, code := w.run("sync", "restore", "--state", filepath.Join(w.dir, "l.db"), "--to", path, filepath.Join(w.here, "d/f")); code != 0 {
					t.Errorf("status %d: %s", code, out)
				}
			}
			w.wantFile(path, "mine")
		})
	}
}

// Somebody else's directory in it stays as it is: what comes for it is named as not written, and all else is.
func TestOwnClosedDirectoryAroundAnother(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"d/f", "d/e/f"} {
		w.write(w.here, name, "old")
	}
	w.wantSync(0)
	w.write(w.here, "d/e/f", "mine")
	outer, inner := filepath.Join(w.here, "d"), filepath.Join(w.here, "d/e")
	w.take(inner)
	w.chmod(inner, 0o700)
	w.chmod(outer, 0)
	for _, name := range []string{"d/f", "d/e/f", "d/e/new"} {
		w.write(w.there, name, "theirs")
	}
	for range 2 {
		out, code := w.sync()
		w.wantLines(out, code, exitFailure, "not written here: d/e/f: permission denied", "not written here: d/e/new: permission denied")
		w.wantFile(filepath.Join(inner, "f"), "mine")
	}
	w.wantFile(filepath.Join(outer, "f"), "theirs")
	w.chmod(outer, 0o755)
	w.own(inner)
	out, code := w.sync()
	if code != 0 || !strings.Contains(out, "conflict: d/e/f: here 4 B") {
		t.Errorf("status %d: %s", code, out)
	}
	w.wantFile(filepath.Join(inner, "f"), "theirs")
	w.wantFile(filepath.Join(inner, "new"), "theirs")
}

// An edit of somebody else's file in it cannot be read even then. It stays where it is, named as not written, and is a
// conflict once it can be read.
func TestOwnClosedDirectoryHasAnothersFile(t *testing.T) {
	for _, mode := range []string{"both", "theirs", "ours", "hold", "fail"} {
		for _, oldTime := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, " ", oldTime), func(t *testing.T) {
				w := newUserWorld(t)
				w.write(w.here, "d/f", "old4")
				w.wantSync(0)
				dir, path := filepath.Join(w.here, "d"), filepath.Join(w.here, "d/f")
				if oldTime {
					w.edit(path, "mine")
				} else {
					w.write(w.here, "d/f", "mine")
				}
				w.take(path)
				w.chmod(path, 0o600)
				w.chmod(dir, 0)
				w.write(w.there, "d/f", "theirs1")
				w.write(w.there, "d/g", "1")
				for range 2 {
					out, code := w.sync("--on-conflict", mode)
					w.wantLines(out, code, exitFailure, "not written here: d/f: permission denied")
					w.wantFile(path, "mine")
					w.wantFile(filepath.Join(dir, "g"), "1")
					w.wantFile(filepath.Join(w.there, "d/f"), "theirs1")
					w.noCopies(dir, filepath.Join(w.there, "d"))
				}
				w.chmod(dir, 0o755)
				w.own(path)
				w.becomesConflict(mode, "d/f")
			})
		}
	}
}

// becomesConflict synchronises once an edit here, of the path that the server has as theirs1, can be read.
func (w *userWorld) becomesConflict(mode, name string) {
	w.t.Helper()
	out, _ := w.sync("--on-conflict", mode)
	if !strings.Contains(out, "conflict: "+name+": ") && !strings.Contains(out, name+" has changed on both sides") {
		w.t.Errorf("no conflict: %s", out)
	}
	w.sync("--on-conflict", mode)
	path := filepath.Join(w.here, name)
	switch mode {
	case "both":
		list, err := filepath.Glob(path + ".conflict-*")
		if err != nil || len(list) != 1 {
			w.t.Fatalf("%v, %v: %s", list, err, out)
		}
		path = list[0]
	case "theirs":
		w.wantFile(path, "theirs1")
		path = filepath.Join(w.dir, "restored")
		if out, code := w.run("sync", "restore", "--state", filepath.Join(w.dir, "l.db"), "--to", path, filepath.Join(w.here, name)); code != 0 {
			w.t.Errorf("status %d: %s", code, out)
		}
	}
	w.wantFile(path, "mine")
}

// So it is at a server, with a file whose edit it could not read when another version of it was sent. Neither goes.
func TestClosedEditAtTheServer(t *testing.T) {
	for _, mode := range []string{"both", "theirs", "ours", "hold", "fail"} {
		for _, oldTime := range []bool{false, true} {
			t.Run(fmt.Sprint(mode, " ", oldTime), func(t *testing.T) {
				w := newUserWorld(t)
				w.write(w.here, "f", "old4")
				w.chmod(filepath.Join(w.here, "f"), 0o600)
				w.wantSync(0)
				here, there := filepath.Join(w.here, "f"), filepath.Join(w.there, "f")
				if oldTime {
					w.edit(there, "theirs1"[:4])
				} else {
					w.write(w.there, "f", "theirs1")
				}
				w.take(there)
				w.write(w.here, "f", "mine")
				w.write(w.here, "g", "1")
				text := map[bool]string{false: "theirs1", true: "thei"}[oldTime]
				for range 2 {
					out, code := w.sync("--on-conflict", mode)
					w.wantLines(out, code, exitFailure, "not written at the server: f: permission denied")
					w.wantFile(here, "mine")
					w.wantFile(there, text)
					w.wantFile(filepath.Join(w.there, "g"), "1")
					w.noCopies(w.here, w.there)
				}
				w.own(there)
				out, _ := w.sync("--on-conflict", mode)
				if !strings.Contains(out, "conflict: f: ") && !strings.Contains(out, "f has changed on both sides") {
					t.Errorf("no conflict: %s", out)
				}
				w.sync("--on-conflict", mode)
				texts := map[string]string{"mine": "", text: ""}
				for _, pattern := range []string{here + "*", there + "*"} {
					list, err := filepath.Glob(pattern)
					if err != nil {
						t.Fatal(err)
					}
					for _, path := range list {
						b, err := os.ReadFile(path)
						if err != nil {
							t.Fatal(err)
						}
						texts[string(b)] = path
					}
				}
				restored := filepath.Join(w.dir, "restored")
				if _, code := w.run("sync", "restore", "--state", filepath.Join(w.dir, "l.db"), "--to", restored, here); code == 0 {
					b, err := os.ReadFile(restored)
					if err != nil {
						t.Fatal(err)
					}
					texts[string(b)] = restored
				}
				for text, at := range texts {
					if at == "" {
						t.Errorf("%q is nowhere: %s", text, out)
					}
				}
			})
		}
	}
}
