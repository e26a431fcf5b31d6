package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A changed time is brought to the other side, to the nanosecond, and a build there sees it.
func TestC071TimesAreBrought(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.here, "old.c", "1")
	w.write(w.here, "prog", "1")
	w.wantSync(0)
	past := time.Unix(1_577_836_800, 123_456_789)
	for _, side := range []string{w.here, w.there} {
		past = past.Add(time.Hour + 1)
		if err := os.Chtimes(filepath.Join(side, "old.c"), past, past); err != nil {
			t.Fatal(err)
		}
		w.wantSync(0)
		for _, dir := range []string{w.here, w.there} {
			info, err := os.Stat(filepath.Join(dir, "old.c"))
			if err != nil {
				t.Fatal(err)
			}
			if !info.ModTime().Equal(past) {
				t.Errorf("%s: %v; want %v", dir, info.ModTime(), past)
			}
		}
		w.wantSync(0, "nothing has changed")
	}
	out, code := w.exec("sh", "-c", "test old.c -nt prog && echo newer || echo older")
	w.wantLines(out, code, 0, "older")
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(w.here, "old.c"), now, now); err != nil {
		t.Fatal(err)
	}
	out, code = w.exec("sh", "-c", "test old.c -nt prog && echo newer || echo older")
	w.wantLines(out, code, 0, "newer")
}
