package objects_test

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/objects"
	"github.com/wsd-dev/wsd/fs/tree"
)

func open(t *testing.T, path string) *objects.Dir {
	t.Helper()
	d, err := objects.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func openNew(t *testing.T) *objects.Dir {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "store.objects"))
}

// directory opens a directory of its own.
func directory(t *testing.T) (fd int, path string) {
	t.Helper()
	path = t.TempDir()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, path
}

// window is whole window number n of something.
func window(n int) []byte {
	b := bytes.Repeat([]byte{byte(n)}, tree.ChunkSize)
	copy(b, fmt.Sprint(n))
	return b
}

func write(t *testing.T, w *objects.Writer, data []byte) objects.Place {
	t.Helper()
	p, err := w.Write(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pack(t *testing.T, d *objects.Dir, data string) objects.Place {
	t.Helper()
	p, err := d.Pack([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantContent(t *testing.T, d *objects.Dir, p objects.Place, want []byte) {
	t.Helper()
	got, err := d.Read(p, int64(len(want)), []byte("before"))
	if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("%v has %d bytes %.20q, %v; want %.20q", p, len(got), got, err, want)
	}
}

// wantFiles checks the sizes of all files in the order of their numbers.
func wantFiles(t *testing.T, d *objects.Dir, want ...int64) {
	t.Helper()
	var files, sizes []int64
	err := d.Each(func(file, size int64) error {
		files, sizes = append(files, file), append(sizes, size)
		return nil
	})
	if err != nil || !slices.Equal(sizes, want) || !slices.IsSorted(files) {
		t.Errorf("files %v of %v bytes, %v; want %v bytes", files, sizes, err, want)
	}
}

func wantErr(t *testing.T, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %s", err, w)
		}
	}
}

func path(d *objects.Dir, file int64) string {
	return filepath.Join(d.Path(), fmt.Sprintf("%016x", file))
}

func TestWriterRuns(t *testing.T) {
	d := openNew(t)
	w, other := d.Writer(), d.Writer()
	a0 := write(t, w, window(1))
	b0 := write(t, other, window(7)) // in a file of its own
	a1 := write(t, w, window(2))
	a2 := write(t, w, []byte("end"))
	c0 := write(t, w, []byte("small"))
	e0 := write(t, w, []byte("x"))
	if a1 != (objects.Place{File: a0.File, Offset: tree.ChunkSize}) || a2 != (objects.Place{File: a0.File, Offset: 2 * tree.ChunkSize}) {
		t.Errorf("windows of one file are at %v, %v, %v", a0, a1, a2)
	}
	if a0.Offset != 0 || c0.Offset != 0 || e0.Offset != 0 || b0.Offset != 0 || c0.File == a0.File || e0.File == c0.File || b0.File == a0.File {
		t.Errorf("other files are at %v, %v, %v", b0, c0, e0)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	f0 := write(t, other, []byte("later"))
	if f0.File == b0.File {
		t.Error("a closed file was gone on with")
	}
	whole := slices.Concat(window(1), window(2), []byte("end"))
	got, err := os.ReadFile(path(d, a0.File))
	if err != nil || !bytes.Equal(got, whole) {
		t.Errorf("the object file has %d bytes, %v; want %d", len(got), err, len(whole))
	}
	wantContent(t, d, a0, whole)
	wantContent(t, d, a1, window(2))
	wantContent(t, d, a2, []byte("end"))
	wantContent(t, d, c0, []byte("small"))
	wantContent(t, d, objects.Place{File: c0.File, Offset: 2}, []byte("al"))
	wantContent(t, d, c0, nil)
	wantFiles(t, d, int64(len(whole)), tree.ChunkSize, 5, 1, 5)
	for _, data := range [][]byte{nil, make([]byte, tree.ChunkSize+1)} {
		_, err := w.Write(data)
		wantErr(t, err, iofs.ErrInvalid)
	}
	wantMode(t, path(d, c0.File), 0o600)
	wantMode(t, d.Path(), iofs.ModeDir|0o700)
	ours := d.WriterFor(0o400)
	p := write(t, ours, []byte("to become a file"))
	wantMode(t, path(d, p.File), 0o400)
}

// wantMode wants a file or directory to have a mode.
func wantMode(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != mode {
		t.Errorf("%s has mode %v, want %v", path, info.Mode(), mode)
	}
}

func TestMake(t *testing.T) {
	d := openNew(t)
	file, err := d.Make(func(fd int) error {
		if _, err := unix.Write(fd, []byte("content")); err != nil {
			return err
		}
		got := make([]byte, 8)
		if n, err := unix.Pread(fd, got, 0); err != nil || string(got[:n]) != "content" {
			t.Errorf("read %q, %v", got, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, d, objects.Place{File: file}, []byte("content"))
	if d.Unsynced() != file {
		t.Errorf("syncs from %x, want %x", d.Unsynced(), file)
	}
	for err, fill := range map[error]func(fd int) error{
		iofs.ErrExist:   func(fd int) error { _, _ = unix.Write(fd, []byte("x")); return iofs.ErrExist },
		iofs.ErrInvalid: func(int) error { return nil },
	} {
		_, got := d.Make(fill)
		wantErr(t, got, err)
	}
	wantFiles(t, d, 7)
}

func TestReadMissing(t *testing.T) {
	d := openNew(t)
	p := write(t, d.Writer(), []byte("four"))
	dst := []byte("dst")
	for _, c := range []struct {
		place objects.Place
		size  int64
		want  error
	}{
		{objects.Place{File: p.File + 1}, 1, iofs.ErrNotExist},
		{objects.Place{File: 0}, 1, iofs.ErrNotExist},
		{objects.Place{File: -1}, 1, iofs.ErrNotExist},
		{p, 5, iofs.ErrNotExist},
		{p, math.MaxInt64, iofs.ErrNotExist}, // and takes no memory
		{objects.Place{File: p.File, Offset: 4}, 1, iofs.ErrNotExist},
		{objects.Place{File: p.File, Offset: math.MaxInt64}, math.MaxInt64, iofs.ErrNotExist},
		{objects.Place{File: p.File, Offset: -1}, 1, iofs.ErrInvalid},
		{p, -1, iofs.ErrInvalid},
	} {
		got, err := d.Read(c.place, c.size, dst)
		wantErr(t, err, c.want)
		if string(got) != "dst" {
			t.Errorf("read %d at %v: %q", c.size, c.place, got)
		}
	}
	_, err := d.Read(objects.Place{File: p.File + 1}, 1, nil)
	wantErr(t, err, iofs.ErrNotExist, path(d, p.File+1))
	if err := d.Remove(p.File); err != nil {
		t.Error(err)
	}
	if err := d.Remove(p.File); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	_, err = d.Read(p, 4, nil)
	wantErr(t, err, iofs.ErrNotExist)
}

func TestPack(t *testing.T) {
	where := filepath.Join(t.TempDir(), "o")
	d := open(t, where)
	d.SetPackSize(10)
	a, b := pack(t, d, "aaaa"), pack(t, d, "bbbbbb")
	if b != (objects.Place{File: a.File, Offset: 4}) || !d.Packing(a.File) || d.Packing(0) || d.Packing(a.File+1) {
		t.Errorf("packed at %v, %v", a, b)
	}
	c := pack(t, d, "c")
	if c.File == a.File || c.Offset != 0 || d.Packing(a.File) || !d.Packing(c.File) {
		t.Errorf("past the size of a pack: %v after %v", c, b)
	}
	large := pack(t, d, "larger than a pack is")
	if large.File == c.File {
		t.Errorf("packed at %v", large)
	}
	wantContent(t, d, a, []byte("aaaa"))
	wantContent(t, d, b, []byte("bbbbbb"))
	wantContent(t, d, large, []byte("larger than a pack is"))
	_, err := d.Pack(nil)
	wantErr(t, err, iofs.ErrInvalid)

	// A pack that is removed, or taken, is not appended to.
	if err := d.Remove(large.File); err != nil || d.Packing(large.File) {
		t.Errorf("remove the pack: %v", err)
	}
	e := pack(t, d, "e")
	wantContent(t, d, e, []byte("e"))
	to, _ := directory(t)
	if err := d.Take(e.File, 1, to, "e"); err != nil || d.Packing(e.File) {
		t.Errorf("take the pack: %v", err)
	}
	f := pack(t, d, "f")
	wantContent(t, d, f, []byte("f"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, where)
	if g := pack(t, d, "g"); g.File <= f.File || g.Offset != 0 {
		t.Errorf("packed at %v after opening again, %v before", g, f)
	}
	wantFiles(t, d, 10, 1, 1, 1)
}

func TestTake(t *testing.T) {
	d := openNew(t)
	to, dir := directory(t)
	w := d.Writer()
	put := func() objects.Place { t.Helper(); return write(t, w, []byte("content")) }
	p := put()
	if err := d.Take(p.File, 7, to, "f"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "f"))
	if err != nil || string(got) != "content" {
		t.Errorf("taken: %q, %v", got, err)
	}
	_, err = d.Read(p, 7, nil)
	wantErr(t, err, iofs.ErrNotExist)
	wantErr(t, d.Take(p.File, 7, to, "g"), iofs.ErrNotExist)

	p = put()
	kept := func(err, want error) {
		t.Helper()
		wantErr(t, err, want, path(d, p.File))
		wantContent(t, d, p, []byte("content"))
	}
	kept(d.Take(p.File, 7, to, "f"), unix.EEXIST)
	kept(d.Take(p.File, 7, to, "no/such"), iofs.ErrNotExist)
	if err := os.Symlink("nothing", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	kept(d.Take(p.File, 7, to, "link"), unix.EEXIST)
	err = d.Named(p.File, func(in int, name string) error {
		var st unix.Stat_t
		if err := unix.Fstatat(in, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Size != 7 {
			t.Errorf("by its name it has %d bytes, %v", st.Size, err)
		}
		return unix.EOPNOTSUPP
	})
	kept(err, unix.EOPNOTSUPP)
	if err := d.Take(p.File, 7, to, "g"); err != nil {
		t.Error(err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 3 {
		t.Errorf("the directory has %v, %v; want f, g, link", names, err)
	}
}

// The file that a Writer appends to is taken only whole, and not appended to then.
func TestTakeBeingWritten(t *testing.T) {
	d := openNew(t)
	to, dir := directory(t)
	w := d.Writer()
	p := write(t, w, window(1))
	wantErr(t, d.Take(p.File, 2*tree.ChunkSize, to, "f"), iofs.ErrInvalid)
	if q := write(t, w, window(2)); q.File != p.File {
		t.Error("a refused Take ended the file")
	}
	if err := d.Take(p.File, 2*tree.ChunkSize, to, "f"); err != nil {
		t.Fatal(err)
	}
	q := write(t, w, window(3))
	wantContent(t, d, q, window(3))
	if err := d.Remove(q.File); err != nil {
		t.Fatal(err)
	}
	r := write(t, w, window(4))
	wantContent(t, d, r, window(4))
	if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || !bytes.Equal(got, slices.Concat(window(1), window(2))) {
		t.Errorf("taken: %d bytes, %v", len(got), err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	wantFiles(t, d, tree.ChunkSize)
}

func TestTakeToOtherFileSystem(t *testing.T) {
	d := openNew(t)
	const other = "/dev/shm"
	var here, there unix.Stat_t
	if unix.Stat(other, &there) != nil || unix.Stat(d.Path(), &here) != nil || here.Dev == there.Dev {
		t.Skip("there is no second file system")
	}
	dir, err := os.MkdirTemp(other, "objects") //nolint:usetesting // on the other file system
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	to, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(to)
	p := pack(t, d, "x")
	wantErr(t, d.Take(p.File, 1, to, "x"), unix.EXDEV)
	if err := os.WriteFile(filepath.Join(dir, "y"), []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = d.Adopt(to, "y")
	wantErr(t, err, unix.EXDEV, "y")
	wantContent(t, d, p, []byte("x"))
}

func TestAdopt(t *testing.T) {
	d := openNew(t)
	from, dir := directory(t)
	name := filepath.Join(dir, "f")
	if err := os.WriteFile(name, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o050); err != nil { // unreadable to its owner
		t.Fatal(err)
	}
	when := time.Unix(1e9, 5)
	if err := os.Chtimes(name, when, when); err != nil {
		t.Fatal(err)
	}
	file, err := d.Adopt(from, "f")
	if err != nil {
		t.Fatal(err)
	}
	wantContent(t, d, objects.Place{File: file}, []byte("theirs"))
	info, err := os.Stat(path(d, file))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o050 || !info.ModTime().Equal(when) {
		t.Errorf("adopted: %v, %v", info.Mode(), info.ModTime())
	}
	fd, err := d.Handle(file)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Fchmod(fd, 0o640); err != nil {
		t.Error(err)
	}
	if err := d.Take(file, 6, from, "back"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "back")); err != nil || info.Mode() != 0o640 {
		t.Errorf("taken back: %v, %v", info, err)
	}

	_, err = d.Adopt(from, "f")
	wantErr(t, err, iofs.ErrNotExist, "f")
	for name, mk := range map[string]func(string) error{
		"dir":  func(p string) error { return os.Mkdir(p, 0o700) },
		"link": func(p string) error { return os.Symlink("back", p) },
		"fifo": func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		if err := mk(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := d.Adopt(from, name)
		wantErr(t, err, iofs.ErrInvalid, name)
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if names, err := os.ReadDir(d.Path()); err != nil || len(names) != 0 {
		t.Errorf("the objects directory has %v, %v", names, err)
	}
}

// A full disk leaves nothing of the window, and all that was written before.
func TestDiskFull(t *testing.T) {
	d := openNew(t)
	full := false
	d.SetWrite(func(pwrite func(int, []byte, int64) (int, error), fd int, p []byte, offset int64) (int, error) {
		if !full {
			return pwrite(fd, p[:(len(p)+1)/2], offset) // what is short is gone on with
		}
		if len(p) > 3 {
			return pwrite(fd, p[:3], offset) // some of it finds room
		}
		return 0, unix.ENOSPC
	})
	w := d.Writer()
	a := write(t, w, window(1))
	b := pack(t, d, "packed")
	full = true
	for range 2 {
		_, err := w.Write(append(window(2)[:4], "and"...))
		wantErr(t, err, unix.ENOSPC, d.Path()+"/")
		_, err = d.Pack([]byte("more"))
		wantErr(t, err, unix.ENOSPC, d.Path()+"/")
		wantFiles(t, d, tree.ChunkSize, 6)
	}
	full = false
	c := write(t, w, window(3))
	e := pack(t, d, "again")
	if c.Offset != 0 || e.Offset != 0 {
		t.Errorf("after an error at %v, %v", c, e)
	}
	wantContent(t, d, a, window(1))
	wantContent(t, d, b, []byte("packed"))
	wantContent(t, d, c, window(3))
	wantContent(t, d, e, []byte("again"))
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	wantFiles(t, d, tree.ChunkSize, 6, tree.ChunkSize, 5)
}

func TestNumbers(t *testing.T) {
	where := filepath.Join(t.TempDir(), "o")
	before := time.Now().UnixMicro()
	d := open(t, where)
	if p := pack(t, d, "x"); p.File < before {
		t.Errorf("number %d, before %d", p.File, before)
	}
	d.Close()
	const ahead = int64(1) << 60 // as if the clock had gone back
	if err := os.WriteFile(filepath.Join(where, fmt.Sprintf("%016x", ahead)), []byte("ahead"), 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, where)
	// Another process has made these meanwhile.
	for n := int64(1); n < 4; n++ {
		if err := os.WriteFile(filepath.Join(where, fmt.Sprintf("%016x", ahead+n)), []byte("other"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if p := pack(t, d, "y"); p.File != ahead+4 {
		t.Errorf("number %x, want %x", p.File, ahead+4)
	}
	if err := os.WriteFile(filepath.Join(where, fmt.Sprintf("%016x", ahead+5)), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, dir := directory(t)
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := d.Adopt(from, "f"); err != nil || file != ahead+6 {
		t.Errorf("adopted as %x, %v", file, err)
	}
	if err := os.WriteFile(filepath.Join(where, "7fffffffffffffff"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d = open(t, where)
	for range 2 {
		if p, err := d.Pack([]byte("z")); err == nil || !strings.Contains(err.Error(), where) {
			t.Errorf("past the last number: %v, %v", p, err)
		}
	}
}

func TestStrangers(t *testing.T) {
	where := filepath.Join(t.TempDir(), "o")
	d := open(t, where)
	p := pack(t, d, "ours")
	names := []string{
		"notes.txt", "1", "000000000000000", "00000000000000001", "000000000000000A", "+00000000000001a", "-00000000000001a",
		"0x00000000000001", "0000000000000000", "8000000000000000", "ffffffffffffffff", ".0000000000000001", "00000000_0000001",
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(where, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// No objects, but their numbers are used.
	if err := os.Mkdir(filepath.Join(where, fmt.Sprintf("%016x", p.File+1)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("notes.txt", filepath.Join(where, fmt.Sprintf("%016x", p.File+2))); err != nil {
		t.Fatal(err)
	}
	if q := write(t, d.Writer(), []byte("next")); q.File != p.File+3 {
		t.Errorf("number %x after %x", q.File, p.File)
	}
	if _, err := d.Read(objects.Place{File: p.File + 2}, 1, nil); err == nil {
		t.Error("a link was followed")
	}
	for _, file := range []int64{0, -1, -1 << 63} {
		if err := d.Remove(file); err != nil {
			t.Error(err)
		}
	}
	wantFiles(t, d, 4, 4)
	d.Close()
	d = open(t, where)
	wantFiles(t, d, 4, 4)
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(where, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestEachStops(t *testing.T) {
	d := openNew(t)
	w := d.Writer()
	for range 3 {
		write(t, w, []byte("x"))
	}
	stop, calls := errors.New("stop"), 0
	err := d.Each(func(file, _ int64) error {
		if calls++; calls == 1 { // the next one goes
			return d.Remove(file + 1)
		}
		return stop
	})
	if !errors.Is(err, stop) || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "made"), dangling); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, words := range map[string]string{
		link: "symbolic link", link + "/": "symbolic link", dangling: "symbolic link", file: "not a directory",
		filepath.Join(dir, "no", "such"): "no such",
	} {
		d, err := objects.Open(path)
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), filepath.Clean(path)) {
			t.Errorf("open %s: %v, want %s", path, err, words)
		}
	}
	for _, mode := range []os.FileMode{0o777, 0o720, 0o702, 0o777 | os.ModeSticky} {
		if err := os.Chmod(real, mode); err != nil {
			t.Fatal(err)
		}
		_, err := objects.Open(real)
		wantErr(t, err, iofs.ErrPermission, real, "chmod")
	}
	if err := os.Chmod(real, 0o755); err != nil {
		t.Fatal(err)
	}
	open(t, real)
	wantMode(t, real, iofs.ModeDir|0o700)
}

func TestClosed(t *testing.T) {
	d := openNew(t)
	p := pack(t, d, "x")
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	from, _ := directory(t)
	for name, call := range map[string]func() error{
		"write":  func() error { _, err := d.Writer().Write([]byte("x")); return err },
		"pack":   func() error { _, err := d.Pack([]byte("x")); return err },
		"read":   func() error { _, err := d.Read(p, 1, nil); return err },
		"adopt":  func() error { _, err := d.Adopt(from, "x"); return err },
		"take":   func() error { return d.Take(p.File, 1, from, "x") },
		"handle": func() error { _, err := d.Handle(p.File); return err },
		"make":   func() error { _, err := d.Make(func(int) error { return nil }); return err },
		"named":  func() error { return d.Named(p.File, func(int, string) error { return nil }) },
		"remove": func() error { return d.Remove(p.File) },
		"each":   func() error { return d.Each(func(int64, int64) error { return nil }) },
		"sync":   d.Sync, "sync files": d.SyncFiles,
	} {
		if err := call(); !errors.Is(err, iofs.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSync(t *testing.T) {
	d := openNew(t)
	w := d.Writer()
	a := write(t, w, window(1))
	pack(t, d, "x")
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	if d.Unsynced() != a.File {
		t.Errorf("syncs from %x, want %x", d.Unsynced(), a.File)
	}
	if err := d.SyncFiles(); err != nil || d.Unsynced() != math.MaxInt64 {
		t.Errorf("synced: %v, then from %x", err, d.Unsynced())
	}
	b := write(t, d.Writer(), []byte("y"))
	if d.Unsynced() != b.File {
		t.Errorf("syncs from %x, want %x", d.Unsynced(), b.File)
	}
	write(t, w, window(2))
	if d.Unsynced() != a.File {
		t.Errorf("syncs from %x, want %x", d.Unsynced(), a.File)
	}
	// What cannot be synced is tried again.
	bad := path(d, b.File+1)
	if err := os.Symlink("x", bad); err != nil {
		t.Fatal(err)
	}
	wantErr(t, d.SyncFiles(), unix.ELOOP, bad)
	if d.Unsynced() != a.File {
		t.Errorf("syncs from %x, want %x", d.Unsynced(), a.File)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
