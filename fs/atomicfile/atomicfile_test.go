package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/atomicfile"
)

// write writes data to path as the package's users do.
func write(path, data string, o atomicfile.Options) error {
	target, err := atomicfile.Resolve(path, true)
	if err != nil {
		return err
	}
	defer target.Close()
	current, err := target.Inspect()
	if err != nil {
		return err
	}
	defer current.Close()
	return target.Write(current, []byte(data), 0o666, o)
}

// stream is write in two steps.
func stream(path, data string, o atomicfile.Options) error {
	target, err := atomicfile.Resolve(path, true)
	if err != nil {
		return err
	}
	defer target.Close()
	current, err := target.Inspect()
	if err != nil {
		return err
	}
	defer current.Close()
	s, err := target.NewStage(current, 0o666)
	if err != nil {
		return err
	}
	defer s.Discard()
	if _, err := s.File().WriteAt([]byte(data), 0); err != nil {
		return err
	}
	return s.Commit(o)
}

var ways = map[string]func(path, data string, o atomicfile.Options) error{"write": write, "stream": stream}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t *testing.T, path, data string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// names lists a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestReplaceKeepsWhatTheFileIs(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			script := filepath.Join(dir, "s.sh")
			put(t, script, "old content", 0o755)
			kept := unix.Setxattr(script, "user.wsd", []byte("kept"), 0) == nil
			before, _ := os.Stat(script)
			reader, err := os.Open(script)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()

			if err := write(script, "new", atomicfile.Options{}); err != nil {
				t.Fatal(err)
			}
			after, _ := os.Stat(script)
			if got := content(t, script); got != "new" || after.Mode() != before.Mode() {
				t.Errorf("content %q, mode %v; want new, %v", got, after.Mode(), before.Mode())
			}
			if os.SameFile(before, after) {
				t.Error("the file was written in place")
			}
			old := make([]byte, 20)
			if n, _ := reader.Read(old); string(old[:n]) != "old content" {
				t.Errorf("an open reader sees %q", old[:n])
			}
			if kept {
				value := make([]byte, 10)
				if n, err := unix.Getxattr(script, "user.wsd", value); err != nil || string(value[:n]) != "kept" {
					t.Errorf("extended attribute: %q, %v", value[:max(n, 0)], err)
				}
			}
			mode := uint32(0o640)
			if err := write(script, "newer", atomicfile.Options{Mode: &mode}); err != nil {
				t.Fatal(err)
			}
			if after, _ := os.Stat(script); after.Mode() != 0o640 {
				t.Errorf("mode %v, want the one asked for", after.Mode())
			}
			if got := names(t, dir); got != "s.sh" {
				t.Errorf("directory has %s", got)
			}
		})
	}
}

func TestCreate(t *testing.T) {
	mask := syscall.Umask(0o027)
	defer syscall.Umask(mask)
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "new")
			if err := write(path, "x", atomicfile.Options{}); err != nil {
				t.Fatal(err)
			}
			if info, _ := os.Stat(path); info.Mode() != 0o640 {
				t.Errorf("mode %v, want 0666 less the umask", info.Mode())
			}
			err := write(path, "y", atomicfile.Options{Exclusive: true})
			if !errors.Is(err, unix.EEXIST) || content(t, path) != "x" {
				t.Errorf("exclusive write over a file: %v, content %q", err, content(t, path))
			}
			if err := write(filepath.Join(dir, "two"), "y", atomicfile.Options{Exclusive: true}); err != nil {
				t.Error(err)
			}
			if err := write(filepath.Join(dir, "gone", "new"), "x", atomicfile.Options{}); !errors.Is(err, unix.ENOENT) {
				t.Errorf("missing directory: %v", err)
			}
			if got := names(t, dir); got != "new two" {
				t.Errorf("directory has %s", got)
			}
		})
	}
}

// Names at the limit can be written: the temporary name does not grow with them.
func TestLongNames(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, strings.Repeat("n", 255))
			for _, data := range []string{"first", "second"} {
				if err := write(path, data, atomicfile.Options{}); err != nil || content(t, path) != data {
					t.Errorf("%s write: %v", data, err)
				}
			}
			if err := write(path+"n", "x", atomicfile.Options{}); !errors.Is(err, unix.ENAMETOOLONG) {
				t.Errorf("256 bytes: %v", err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 1 {
				t.Errorf("%d entries are left", len(entries))
			}
		})
	}
}

func TestThroughLinks(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "data", "deep"), 0o777); err != nil {
				t.Fatal(err)
			}
			link := func(target, name string) {
				if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			link("data/real", "link")
			link("link", "chain")
			link(filepath.Join(dir, "data", "abs"), "absolute")
			link("data/deep", "inner")
			link("inner/../up", "dots") // data/up, not up
			link("loop", "loop")
			link("data/", "slash")
			link("missing/x", "nowhere")
			for _, name := range []string{"chain", "absolute", "dots"} {
				if err := write(filepath.Join(dir, name), name, atomicfile.Options{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := names(t, filepath.Join(dir, "data")); got != "abs deep real up" {
				t.Errorf("data has %s", got)
			}
			if got := content(t, filepath.Join(dir, "data", "real")); got != "chain" {
				t.Errorf("real has %q", got)
			}
			for name, want := range map[string]error{"loop": unix.ELOOP, "slash": unix.EISDIR, "nowhere": unix.ENOENT} {
				if err := write(filepath.Join(dir, name), "x", atomicfile.Options{}); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
			}
		})
	}
}

func TestNoFollow(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "x", 0o644)
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", filepath.Join(dir, "here")); err != nil {
		t.Fatal(err)
	}
	target, err := atomicfile.Resolve(filepath.Join(dir, "link"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if _, err := target.Inspect(); !errors.Is(err, unix.ELOOP) {
		t.Errorf("last component: %v", err)
	}
	if _, err := atomicfile.Resolve(filepath.Join(dir, "here", "file"), false); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("link on the way: %v", err)
	}
	if _, err := atomicfile.Resolve(filepath.Join(dir, "none", "file"), false); !errors.Is(err, unix.ENOENT) {
		t.Errorf("missing on the way: %v", err)
	}
}

// One entry has one key, whatever leads to it; other entries have others.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a"), "x", 0o644)
	if err := os.Symlink("a", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	key := func(name string) atomicfile.Key {
		target, err := atomicfile.Resolve(dir+"/"+name, true)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		return target.Key()
	}
	if key("a") != key("l") || key("a") != key("./a") || key("a") == key("b") {
		t.Errorf("keys: a %v, l %v, ./a %v, b %v", key("a"), key("l"), key("./a"), key("b"))
	}
}

func TestDiscardLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old", 0o644)
	target, err := atomicfile.Resolve(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	current, err := target.Inspect()
	if err != nil {
		t.Fatal(err)
	}
	defer current.Close()
	s, err := target.NewStage(current, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.File().WriteString("new"); err != nil {
		t.Fatal(err)
	}
	s.Discard()
	if content(t, path) != "old" || names(t, dir) != "f" {
		t.Errorf("content %q, directory %s", content(t, path), names(t, dir))
	}
}

func TestDevices(t *testing.T) {
	if err := write("/dev/null", "x", atomicfile.Options{}); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
	if runtime.GOOS == "linux" {
		if err := write("/dev/full", "x", atomicfile.Options{}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("/dev/full: %v", err)
		}
	}
	for _, dev := range []string{"/dev/null", "/dev/full"} {
		if info, err := os.Stat(dev); err == nil && info.Mode()&os.ModeDevice == 0 {
			t.Fatalf("%s was replaced", dev)
		}
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for way, write := range ways {
		if err := write(fifo, "x", atomicfile.Options{}); !errors.Is(err, unix.ENXIO) {
			t.Errorf("%s to a pipe nobody reads: %v", way, err)
		}
	}
	r, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for way, write := range ways {
		if err := write(fifo, "x", atomicfile.Options{}); !errors.Is(err, unix.ENXIO) {
			t.Errorf("%s to a pipe somebody reads: %v", way, err)
		}
	}
}
