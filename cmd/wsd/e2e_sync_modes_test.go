package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
