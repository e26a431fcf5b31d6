package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// ownerOf is the user and group of a file.
func ownerOf(t *testing.T, path string) [2]uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	return [2]uint32{st.Uid, st.Gid}
}

// A file that is replaced keeps owner and group, on either side.
func TestC057ReplacedKeepsItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only the superuser makes what another user owns")
	}
	for _, side := range []string{"here", "there"} {
		t.Run(side, func(t *testing.T) {
			dir := shortDir(t)
			here, there := filepath.Join(dir, "l"), filepath.Join(dir, "s")
			writeFile(t, filepath.Join(here, "o"), "1")
			if err := os.Mkdir(there, 0o755); err != nil {
				t.Fatal(err)
			}
			server := startReal(t, program(t, "serve", "--workspace", there, "--store", filepath.Join(dir, "s.db"), "--listen", "unix://"+filepath.Join(dir, "u")))
			sync := func() {
				t.Helper()
				if out, err := program(t, "sync", "--state", filepath.Join(dir, "l.db"), here, server.url).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
			}
			sync()
			near, far := here, there
			if side == "there" {
				near, far = there, here
			}
			if err := os.Chown(filepath.Join(near, "o"), 1234, 4321); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(near, "o"), 0o640); err != nil {
				t.Fatal(err)
			}
			sync()
			writeFile(t, filepath.Join(far, "o"), "2")
			sync()
			if text, err := os.ReadFile(filepath.Join(near, "o")); err != nil || string(text) != "2" {
				t.Errorf("%q, %v", text, err)
			}
			if got := ownerOf(t, filepath.Join(near, "o")); got != [2]uint32{1234, 4321} {
				t.Errorf("it belongs to %v now", got)
			}
		})
	}
}

// A file whose owner may not be kept is written all the same, and named.
func TestC057OwnerThatMayNotBeKept(t *testing.T) {
	for side, line := range map[string]string{
		"here":  "written here: o: its owner or group could not be kept",
		"there": "written at the server: o: its owner or group could not be kept",
	} {
		t.Run(side, func(t *testing.T) {
			w := newUserWorld(t)
			near, far := w.here, w.there
			if side == "there" {
				near, far = w.there, w.here
			}
			w.write(far, "o", "1")
			w.wantSync(0)
			w.take(filepath.Join(near, "o"))
			w.write(far, "o", "2")
			w.wantSync(0, line)
			w.wantFile(filepath.Join(near, "o"), "2")
			w.wantSync(0, "nothing has changed")
		})
	}
}
