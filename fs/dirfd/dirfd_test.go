package dirfd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func directory(t *testing.T) (fd int, path string) {
	t.Helper()
	path = t.TempDir()
	fd, err := Open(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd, path
}

func write(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestOpenNoLinks(t *testing.T) {
	dir, path := directory(t)
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "a/b/f"))
	for link, to := range map[string]string{"dir": "a", "a/b/file": "f", "a/up": ".."} {
		if err := os.Symlink(to, filepath.Join(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	isLink := func(err error) bool { return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) }
	for name, open := range map[string]func(int, string, int) (int, error){"call": OpenNoLinks, "walk": openWalking} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{".", "a", "a/b/f", path, path + "/a/b/f", "/"} {
				from := dir
				if filepath.IsAbs(name) {
					from = unix.AT_FDCWD
				}
				fd, err := open(from, name, unix.O_RDONLY)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				st, err := Stat(fd)
				want, lookErr := StatAt(dir, name, unix.AT_SYMLINK_NOFOLLOW)
				if err = errors.Join(err, lookErr, unix.Close(fd)); err != nil || st.Ino != want.Ino {
					t.Errorf("%s: inode %d, want %d, %v", name, st.Ino, want.Ino, err)
				}
			}
			for _, name := range []string{"dir/b/f", "a/b/file", "a/up/a/b/f", "dir"} {
				if _, err := open(dir, name, unix.O_RDONLY); !isLink(err) {
					t.Errorf("%s: %v, want that it is a link", name, err)
				}
				if _, err := open(unix.AT_FDCWD, path+"/"+name, unix.O_RDONLY); !isLink(err) {
					t.Errorf("absolute %s: %v, want that it is a link", name, err)
				}
			}
			for _, name := range []string{"../x", "a/../../x", path, "/"} {
				if _, err := open(dir, name, unix.O_RDONLY); !errors.Is(err, unix.EXDEV) {
					t.Errorf("%s, out of the directory: %v", name, err)
				}
			}
			if _, err := open(dir, "a/none/f", unix.O_RDONLY); !errors.Is(err, unix.ENOENT) {
				t.Errorf("missing: %v", err)
			}
		})
	}
}

func TestReadlink(t *testing.T) {
	dir, path := directory(t)
	for _, target := range []string{"x", strings.Repeat("x", 256), strings.Repeat("y/", 500)} {
		name := filepath.Join(path, "link")
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		if got, err := Readlink(dir, "link"); err != nil || got != target {
			t.Errorf("%q, %v, want %q", got, err, target)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(path, "file"))
	if _, err := Readlink(dir, "file"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a file: %v", err)
	}
}

func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(int, string, int, string) error{"call": RenameNew, "steps": renameInSteps} {
		t.Run(name, func(t *testing.T) {
			from, dir := directory(t)
			to, other := directory(t)
			write(t, filepath.Join(dir, "a"))
			write(t, filepath.Join(dir, "b"))
			if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				old, name string
				want      error
			}{{"a", "x", nil}, {"b", "x", unix.EEXIST}, {"a", "y", unix.ENOENT}, {"d", "x", unix.EEXIST}, {"d", "e", nil}} {
				if err := rename(from, c.old, to, c.name); !errors.Is(err, c.want) {
					t.Errorf("rename %s to %s: %v, want %v", c.old, c.name, err, c.want)
				}
			}
			if got, err := os.ReadFile(filepath.Join(other, "x")); err != nil || string(got) != filepath.Join(dir, "a") {
				t.Errorf("x has %q, %v", got, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "b" {
				t.Errorf("left are %v, %v, want b", left, err)
			}
		})
	}
}
