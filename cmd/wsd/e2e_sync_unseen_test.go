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
			for _, flags := range [][]string{{"--dry-run"}, nil, nil} {
				out, code := w.sync(append(flags, "--on-conflict", mode)...)
				if code != status || !strings.Contains(out, "f") || strings.Contains(out, "< file f\n") {
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
