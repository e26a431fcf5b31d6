package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sync 12e, 4: a directory that came with a mode which keeps its owner out holds up neither what is to
// be sent of it, nor anything else, nor the mode that lets him in again.
func TestMode4ShutDirectory(t *testing.T) {
	for _, here := range []bool{true, false} {
		w := newUserWorld(t)
		w.write(w.there, "d/f", "base")
		w.write(w.there, "o", "o")
		w.wantSync(0)
		shut := filepath.Join(w.there, "d")
		if here {
			shut = filepath.Join(w.here, "d")
		}
		w.write(w.here, "d/f", "mine")
		if here {
			w.run("sync", "--dry-run", "--state", filepath.Join(w.dir, "l.db"), w.here, w.server.url) // it is settled
		}
		w.chmod(shut, 0)
		w.write(w.there, "o", "first")
		out, code := w.sync()
		if code != 0 && code != exitLeftOut {
			t.Errorf("status %d: %s", code, out)
		}
		w.wantFile(filepath.Join(w.here, "o"), "first")
		w.chmod(filepath.Join(w.there, "d"), 0o755)
		if !here {
			w.wantFile(filepath.Join(w.there, "d/f"), "mine")
			w.write(w.there, "d/f", "theirs")
		} else {
			w.chmod(shut, 0o755)
		}
		w.write(w.there, "o", "other")
		w.sync()
		w.wantSync(0)
		w.wantFile(filepath.Join(w.here, "o"), "other")
		want := "theirs"
		if here {
			want = "mine"
		}
		for _, dir := range []string{w.here, w.there} {
			w.wantFile(filepath.Join(dir, "d/f"), want)
		}
	}
}

// Sync 12e, 5: the modes that the only writer gives a file are no conflicts, and the last one counts.
func TestMode5ChmodIsNoConflict(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.here, "f", "x\n")
	w.wantSync(0)
	for _, mode := range []os.FileMode{0o200, 0o644, 0, 0o600, 0o644} {
		w.chmod(filepath.Join(w.here, "f"), mode)
		out, code := w.sync("-v")
		want := 0
		if mode&0o400 == 0 {
			want = exitLeftOut // its content cannot be read
		}
		if code != want || strings.Contains(out, "conflict") {
			t.Errorf("mode %04o: status %d\n%s", mode, code, out)
		}
		for _, dir := range []string{w.here, w.there} {
			list, err := os.ReadDir(dir)
			if err != nil || len(list) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			if info, err := list[0].Info(); err != nil || info.Mode() != mode {
				t.Errorf("%v, %v; want %04o", info, err, mode)
			}
		}
	}
	if out, code := w.run("sync", "lost", "--state", filepath.Join(w.dir, "l.db")); code != 0 || strings.Contains(out, "overtaken") {
		t.Errorf("status %d, kept:\n%s", code, out)
	}
}
