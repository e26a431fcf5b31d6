package mirror

import (
	"slices"
	"testing"
)

// A directory that stayed for what was ignored in it goes once nothing is, on both sides.
func TestIgnoreStayedGoes(t *testing.T) {
	w := newWorld(t, Config{Ignore: []string{"ig"}})
	w.local.do("write /l/f 1", "write /r/f 1", "write /r/ig 1", "write /k/f 1", "write /k/ig 1", "mkdir /m")
	w.sync()
	w.remote.do("write /l/ig 1", "write /m/ig 1")
	w.sync()
	w.remote.do("rm /r", "rm /k")
	w.local.do("rm /l", "rm /m")
	w.sync()
	w.remote.do("rm /l/ig")
	w.local.do("rm /r/ig")
	w.cfg.Ignore = nil
	w.restart()
	w.sync()
	w.same()
	w.local.want("/k/ 755", "/k/ig 644 1", "/m/ 755", "/m/ig 644 1")
	w.rest()
}

// What was ignored and made way for a file is synchronised once it is not ignored, and is made
// only if the file comes.
func TestIgnoreAsideComes(t *testing.T) {
	w := newWorld(t, Config{Ignore: []string{"ig"}, OnConflict: Ours})
	w.local.do("write /c/ig 1", "write /d/f 1")
	w.sync()
	w.remote.do("rm /c", "write /c F")
	w.sync()
	w.cfg.Ignore = nil
	w.restart()
	w.sync()
	w.same()
	if n := len(w.local.list()); n != 5 {
		t.Errorf("%d paths: %v", n, w.local.list())
	}
	w.rest()

	w = newWorld(t, Config{Ignore: []string{"ig"}, OnConflict: Ours})
	w.local.do("write /c/ig 1", "write /c/f 1")
	w.remote.do("write /c F")
	w.sync()
	w.local.want("/c/ 755", "/c/f 644 1", "/c/ig 644 1")
}

// A directory is renamed to where a file is here.
func TestIgnoreRenameToFile(t *testing.T) {
	w := newWorld(t, Config{Ignore: []string{"ig"}, OnConflict: Both})
	w.local.do("write /b/x/ig 1", "write /b/f 1")
	w.sync()
	w.remote.do("mv /b /a")
	w.local.do("write /a F")
	w.sync()
	if list := w.local.list(); !slices.Contains(list, "/b/x/ig 644 1") {
		t.Errorf("here: %v", list)
	}
}
