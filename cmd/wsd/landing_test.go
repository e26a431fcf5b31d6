package main

import (
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A directory below the destination that somebody exchanges with a link to another one, as
// often as can be, leads nothing outside.
func TestSH7SwappedDirectory(t *testing.T) {
	top := t.TempDir()
	dest, outside := filepath.Join(top, "dest"), filepath.Join(top, "outside")
	for _, dir := range []string{filepath.Join(dest, "a", "b"), filepath.Join(outside, "b")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(outside, "b", "f"), "mine")
	if err := os.Symlink(outside, filepath.Join(dest, "link")); err != nil {
		t.Fatal(err)
	}
	l, err := openLanding(dest, true, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var ended atomic.Bool
	swaps := make(chan int)
	go func() { // ends when the test has tried enough
		n := 0
		a, link, spare := filepath.Join(dest, "a"), filepath.Join(dest, "link"), filepath.Join(dest, "spare")
		for ; !ended.Load(); n++ {
			_ = os.Rename(a, spare) // they fail while the other side is at it
			_ = os.Rename(link, a)
			_ = os.Rename(a, link)
			_ = os.Rename(spare, a)
		}
		swaps <- n
	}()
	done := 0
	for range 3000 {
		err := errors.Join(l.mkdir("a/b/new"), l.chmod("a/b", 0o711), l.write("a/b/f", strings.NewReader("theirs"), 0o644), l.symlink("x", "a/b/l"))
		if err == nil {
			done++
		}
	}
	ended.Store(true)
	t.Logf("%d swaps, %d of the tries found the directory", <-swaps, done)
	if text, err := os.ReadFile(filepath.Join(outside, "b", "f")); string(text) != "mine" {
		t.Errorf("the file outside: %q, %v", text, err)
	}
	if names, err := os.ReadDir(filepath.Join(outside, "b")); len(names) != 1 || err != nil {
		t.Errorf("outside: %v, %v", names, err)
	}
	if info, err := os.Stat(filepath.Join(outside, "b")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the mode outside: %v, %v", info.Mode(), err)
	}
}

// Each operation below a destination, with each kind of link in its way.
func TestSH7LinksBelowDestination(t *testing.T) {
	for _, target := range []string{"../outside", "real", "nowhere", "."} {
		top := t.TempDir()
		dest, outside := filepath.Join(top, "dest"), filepath.Join(top, "outside")
		writeFile(t, filepath.Join(outside, "f"), "mine")
		writeFile(t, filepath.Join(dest, "real", "f"), "mine")
		link := filepath.Join(dest, "link")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		l, err := openLanding(dest, true, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for name, err := range map[string]error{
			"write":   l.write("link/f", strings.NewReader("theirs"), 0o644),
			"symlink": l.symlink("x", "link/f"),
			"mkdir":   l.mkdir("link/d"),
			"chmod":   l.chmod("link", 0o777),
			"above":   l.mkdir("../d"),
		} {
			if err == nil {
				t.Errorf("%s: %s follows the link", target, name)
			}
		}
		if err := l.mkdir("link"); err != nil {
			t.Errorf("%s: a directory in its place: %v", target, err)
		}
		if info, err := os.Lstat(link); err != nil || !info.IsDir() {
			t.Errorf("%s: in its place is %v, %v", target, info, err)
		}
		for _, path := range []string{filepath.Join(outside, "f"), filepath.Join(dest, "real", "f")} {
			if text, err := os.ReadFile(path); string(text) != "mine" {
				t.Errorf("%s: %s: %q, %v", target, path, text, err)
			}
		}
		if _, err := os.Lstat(filepath.Join(top, "d")); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("a directory beside the destination: %v", err)
		}
	}
}
