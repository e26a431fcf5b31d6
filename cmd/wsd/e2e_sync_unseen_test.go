package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that was edited and closed before wsd saw the edit is in conflict with a change of the server, in each mode.
func TestClosedEditIsNotOverruled(t *testing.T) {
	for _, mode := range []string{"fail", "hold", "ours", "both", "theirs"} {
		t.Run(mode, func(t *testing.T) {
			w := newUserWorld(t)
			w.write(w.here, "f", "old")
			w.wantSync(0)
			path := filepath.Join(w.here, "f")
			w.write(w.here, "f", "mine")
			w.take(path)
			w.chmod(path, 0o600)
			w.write(w.there, "f", "theirs1")
			w.write(w.there, "other", "1")
			stays := func() {
				t.Helper()
				w.wantFile(path, "mine")
				w.wantFile(filepath.Join(w.there, "f"), "theirs1")
				for _, dir := range []string{w.here, w.there} {
					if list, err := filepath.Glob(filepath.Join(dir, "*.conflict-*")); err != nil || len(list) > 0 {
						t.Errorf("%v, %v", list, err)
					}
				}
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
