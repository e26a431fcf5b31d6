package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A line stands alone, also behind one that was cut, and a log that was rotated is followed.
func TestLineFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("whole\ncut"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := openLines(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	write := func(text string) {
		t.Helper()
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Error(n, err)
		}
	}
	want := func(path, want string) {
		t.Helper()
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("%s has %q, %v; want %q", path, got, err, want)
		}
	}
	write("a\n")
	write("half")
	write("b\n")
	want(path, "whole\ncut\na\nhalf\nb\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("c\n")
	want(path, "c\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("d\n")
	want(path, "d\n")
	want(path+".1", "whole\ncut\na\nhalf\nb\n")
}

// A pipe that nobody reads is refused, and not waited for.
func TestLineFilePipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLines(path); !errors.Is(err, syscall.ENXIO) {
		t.Error(err)
	}
}
