package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// randomBytes are the same for the same seed.
func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, n)
	for i := 0; i < n; i += 8 {
		v := r.Uint64()
		for j := i; j < min(i+8, n); j++ {
			out[j], v = byte(v), v>>8
		}
	}
	return out
}

func TestReadAndWriteFile(t *testing.T) {
	c := dial(t)
	dir := t.TempDir()
	for _, size := range []int{0, 1, 4 << 20, 4<<20 + 1, 20<<20 + 12345} {
		name := filepath.Join(dir, "file")
		data := randomBytes(uint64(size), size)
		if _, err := c.WriteFile(t.Context(), name, data, &client.WriteOptions{Mode: 0o640}); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if local, err := os.ReadFile(name); err != nil || !bytes.Equal(local, data) {
			t.Errorf("%d bytes: written others, %v", size, err)
		}
		got, err := c.ReadFile(t.Context(), name)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %d, %v", size, len(got), err)
		}
	}
	if _, err := c.ReadFile(t.Context(), filepath.Join(dir, "gone")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := c.WriteFile(t.Context(), filepath.Join(dir, "gone", "x"), nil, nil); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if data, err := c.ReadFile(t.Context(), "/proc/self/status"); err != nil || len(data) == 0 { // its size is 0
		t.Errorf("/proc: %d bytes, %v", len(data), err)
	}
}

func TestConditionalWrites(t *testing.T) {
	c := dial(t)
	ctx := t.Context()
	name := filepath.Join(t.TempDir(), "file")
	first, err := c.WriteFile(ctx, name, []byte("one"), &client.WriteOptions{IfAbsent: true, IncludeHash: true})
	if err != nil || !strings.HasPrefix(first, "sha256:") {
		t.Fatalf("%q, %v", first, err)
	}
	conflict := func(err error) {
		t.Helper()
		got, ok := errors.AsType[*client.PreconditionError](err)
		if !ok || got.CurrentHash != first || got.Path != name {
			t.Errorf("got %#v", err)
		}
	}
	_, err = c.WriteFile(ctx, name, []byte("two"), &client.WriteOptions{IfAbsent: true})
	conflict(err)
	_, err = c.WriteFile(ctx, name, []byte("two"), &client.WriteOptions{IfMatch: "sha256:" + strings.Repeat("0", 64)})
	conflict(err)
	big := randomBytes(1, 5<<20) // in blocks
	_, err = c.WriteFile(ctx, name, big, &client.WriteOptions{IfAbsent: true})
	conflict(err)
	data, hash, err := c.ReadFileHash(ctx, name)
	if err != nil || string(data) != "one" || hash != first {
		t.Errorf("%q, %s, %v", data, hash, err)
	}
	if _, err := c.WriteFile(ctx, name, big, &client.WriteOptions{IfMatch: hash}); err != nil {
		t.Error(err)
	}
	info, err := c.StatHash(ctx, name)
	if err != nil || info.Hash() == first || info.Hash() == "" || info.Size() != int64(len(big)) {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = c.WriteFile(ctx, name+"2", nil, &client.WriteOptions{IfMatch: hash})
	if got, ok := errors.AsType[*client.PreconditionError](err); !ok || got.CurrentHash != "" {
		t.Errorf("no file: %#v", err)
	}
}

func TestFile(t *testing.T) {
	c := dial(t)
	name := filepath.Join(t.TempDir(), "file")
	data := randomBytes(2, 7<<20+99)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := c.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(iotest{f}) // in odd pieces
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := f.Seek(5<<20, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	var rest bytes.Buffer
	if n, err := f.WriteTo(&rest); err != nil || n != int64(len(data)-5<<20) || !bytes.Equal(rest.Bytes(), data[5<<20:]) {
		t.Errorf("WriteTo: %d, %v", n, err)
	}
	if at, err := f.Seek(-10, io.SeekCurrent); err != nil || at != int64(len(data)-10) {
		t.Errorf("seek: %d, %v", at, err)
	}
	tail := make([]byte, 20)
	if n, err := io.ReadFull(f, tail); n != 10 || !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(tail[:n], data[len(data)-10:]) {
		t.Errorf("tail: %d, %v", n, err)
	}
	if _, err := f.Seek(0, io.SeekEnd); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("seek from the end: %v", err)
	}
	for range 20 {
		offset, length := rand.IntN(len(data)), rand.IntN(3<<20)
		b := make([]byte, length)
		n, err := f.ReadAt(b, int64(offset))
		want := data[offset:min(offset+length, len(data))]
		if !bytes.Equal(b[:n], want) || (err == io.EOF) != (len(want) < length) || err != nil && err != io.EOF {
			t.Errorf("at %d, %d bytes: %d, %v", offset, length, n, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Read(tail); !errors.Is(err, iofs.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if err := f.Close(); !errors.Is(err, iofs.ErrClosed) {
		t.Errorf("close again: %v", err)
	}
}

// iotest reads little at a time.
type iotest struct{ io.Reader }

func (r iotest) Read(b []byte) (int, error) {
	return r.Reader.Read(b[:min(len(b), 1+rand.IntN(100_000))])
}

func TestFileHonoursContext(t *testing.T) {
	c := dial(t)
	for i := range 50 { // where an answer could be there as soon as the context has ended
		testFileHonoursContext(t, c, i%2 == 0)
	}
}

func testFileHonoursContext(t *testing.T, c *client.Client, written bool) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, randomBytes(3, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f, err := c.Open(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Create(ctx, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if written {
		if _, err := w.WriteAt([]byte("new"), 0); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	if !written {
		_, _ = w.Write([]byte("new"))
	}
	if err := w.Close(); !errors.Is(err, context.Canceled) {
		t.Errorf("close: %v", err)
	}
	if data, err := os.ReadFile(name); err != nil || len(data) != 4<<20 {
		t.Errorf("the file was replaced: %d bytes, %v", len(data), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(name)); err != nil || len(entries) != 1 {
		t.Errorf("what was written is left: %v, %v", entries, err)
	}
}

func TestFileWriter(t *testing.T) {
	c := dial(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	data := randomBytes(4, 9<<20+7)
	w, err := c.Create(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.ReadFrom(iotest{bytes.NewReader(data[:6<<20])}); err != nil || n != 6<<20 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := w.Write(data[6<<20:]); err != nil {
		t.Error(err)
	}
	patch := randomBytes(5, 2<<20)
	if n, err := w.WriteAt(patch, 3<<20); err != nil || n != len(patch) {
		t.Errorf("%d, %v", n, err)
	}
	copy(data[3<<20:], patch)
	if old, _ := os.ReadFile(name); string(old) != "old" {
		t.Errorf("seen before Close: %d bytes", len(old))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("written %d bytes, %v", len(got), err)
	}
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v", info.Mode())
	}
	if _, err := w.Write(nil); !errors.Is(err, iofs.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if err := w.Discard(); err != nil {
		t.Errorf("discard after close: %v", err)
	}

	w, err = c.Create(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte("dropped"))
	if err := w.Discard(); err != nil {
		t.Error(err)
	}
	if again, _ := os.ReadFile(name); !bytes.Equal(again, data) {
		t.Errorf("discarded, but written: %d bytes", len(again))
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestTree(t *testing.T) {
	c := dial(t)
	ctx := t.Context()
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	check(c.MkdirAll(ctx, in("a/b")))
	check(c.MkdirAll(ctx, in("a/b")))
	if err := c.Mkdir(ctx, in("a")); !errors.Is(err, iofs.ErrExist) {
		t.Errorf("mkdir: %v", err)
	}
	_, err := c.WriteFile(ctx, in("a/x y"), []byte("hello"), nil)
	check(err)
	check(c.Chmod(ctx, in("a/x y"), 0o640))
	check(c.Symlink(ctx, "x y", in("a/link")))
	check(c.Symlink(ctx, "no\xffwhere", in("a/dangling\xff")))
	if target, err := c.ReadLink(ctx, in("a/dangling\xff")); err != nil || target != "no\xffwhere" {
		t.Errorf("readlink %q, %v", target, err)
	}

	entries, err := c.ReadDir(ctx, in("a"))
	check(err)
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Mode().Type().String()+" "+entry.Name())
	}
	want := []string{"d--------- b", "L--------- dangling\xff", "L--------- link", "---------- x y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	info, err := c.Stat(ctx, in("a/link"))
	check(err)
	if info.Mode() != 0o640 || info.Size() != 5 || !info.IsSymlink() || info.ModTime().IsZero() || info.Path() != in("a/link") {
		t.Errorf("stat %v %+v", info.Mode(), info)
	}
	for name, kind := range map[string]iofs.FileMode{"a/link": iofs.ModeSymlink, "a/dangling\xff": iofs.ModeSymlink, "a": iofs.ModeDir, "a/x y": 0} {
		if info, err := c.Lstat(ctx, in(name)); err != nil || info.Mode().Type() != kind {
			t.Errorf("lstat %q: %v, %v", name, info, err)
		}
	}
	if _, err := c.Lstat(ctx, in("gone")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("lstat: %v", err)
	}
	if real, err := c.RealPath(ctx, in("a/b/../link")); err != nil || real != resolve(t, in("a/x y")) {
		t.Errorf("realpath %s, %v", real, err)
	}

	check(c.Copy(ctx, in("a"), in("c")))
	check(c.Rename(ctx, in("c"), in("d")))
	if err := c.RenameNew(ctx, in("d/x y"), in("d/link")); !errors.Is(err, iofs.ErrExist) {
		t.Errorf("rename: %v", err)
	}
	walked, err := c.Walk(ctx, in("d"), nil)
	check(err)
	if diff := cmp.Diff([]client.Found{{Path: in("d/b"), Kind: "directory"}, {Path: in("d/x y"), Kind: "file"}}, walked.Found); diff != "" {
		t.Error(diff)
	}
	if err := c.Remove(ctx, in("d")); err == nil {
		t.Error("removed a directory that is not empty")
	}
	check(c.RemoveAll(ctx, in("d")))
	check(c.RemoveAll(ctx, in("d")))
	if err := c.Remove(ctx, in("d")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("remove: %v", err)
	}
}

func resolve(t *testing.T, name string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

func TestSearch(t *testing.T) {
	c := dial(t)
	root := t.TempDir()
	for name, text := range map[string]string{"a.go": "package a\nfunc A() {}\n", "sub/b.go": "package b\n", "sub/.hidden.go": "func H() {}\n", "c.md": "func\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	found, err := c.Glob(t.Context(), root, "**/*.go", &client.GlobOptions{SkipHidden: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []client.Found{{Path: filepath.Join(root, "a.go"), Kind: "file"}, {Path: filepath.Join(root, "sub/b.go"), Kind: "file"}}
	if diff := cmp.Diff(want, found.Found); diff != "" || found.Truncated {
		t.Error(diff)
	}
	matches, err := c.Grep(t.Context(), root, `func \w`, &client.GrepOptions{Include: []string{"*.go"}, Hidden: true})
	if err != nil {
		t.Fatal(err)
	}
	wantMatches := []client.Match{
		{Path: filepath.Join(root, "a.go"), Line: 2, Column: 1, Text: "func A() {}"},
		{Path: filepath.Join(root, "sub/.hidden.go"), Line: 1, Column: 1, Text: "func H() {}"},
	}
	if diff := cmp.Diff(wantMatches, matches.Matches); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Grep(t.Context(), root, "(", nil); err == nil {
		t.Error("a pattern that is none")
	}
}

func TestWatch(t *testing.T) {
	c := dial(t)
	root := t.TempDir()
	w, err := c.Watch(t.Context(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.WriteFile(filepath.Join(root, "new file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	changes, err := w.Next(t.Context())
	if err != nil || len(changes.Changes) == 0 || changes.Changes[0] != (client.Change{Path: filepath.Join(root, "new file"), Kind: protocol.ChangeCreated}) {
		t.Errorf("%+v, %v", changes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for { // what else is reported of it
		if _, err := w.Next(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
	}
}

// Relative paths are relative to the server's directory.
func TestAbs(t *testing.T) {
	c := dial(t)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{".": dir, "a/../b": filepath.Join(dir, "b"), "/x//y/": "/x/y"} {
		if got, err := c.Abs(t.Context(), name); err != nil || got != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := c.Abs(t.Context(), ""); err == nil {
		t.Error("an empty path")
	}
}

// The pieces of a file stream are under way at the same time.
func BenchmarkStream(b *testing.B) {
	c := dial(b)
	name := filepath.Join(b.TempDir(), "file")
	data := randomBytes(6, 64<<20)
	write := func(b *testing.B) {
		if _, err := c.WriteFile(b.Context(), name, data, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Write", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			write(b)
		}
	})
	write(b)
	b.Run("Read", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if got, err := c.ReadFile(b.Context(), name); err != nil || len(got) != len(data) {
				b.Fatal(err)
			}
		}
	})
}
