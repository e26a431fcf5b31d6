package mirror

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Rules are read below the directory only: not through a link, and not from a pipe.
func TestRulesOnDiskAreInside(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	m := &Mirror{cfg: Config{Dir: dir}}
	for _, err := range []error{
		os.WriteFile(filepath.Join(outside, ".gitignore"), []byte("secret\n"), 0o600),
		os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("own\n"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "sub")),
		os.Mkdir(filepath.Join(dir, "in"), 0o700),
		os.Symlink(filepath.Join(outside, ".gitignore"), filepath.Join(dir, "in", ".gitignore")),
		os.Mkdir(filepath.Join(dir, "pipe"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "pipe", ".gitignore"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/.gitignore": "own\n", "/sub/.gitignore": "", "/in/.gitignore": "", "/pipe/.gitignore": "", "/none/.gitignore": ""} {
		if got := m.onDisk(path); got != want {
			t.Errorf("%s has the rules %q, want %q", path, got, want)
		}
	}
}
