package disk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// inode is the number of a file of the directory.
func (b *bench) inode(name string) uint64 {
	b.t.Helper()
	var st unix.Stat_t
	b.must(unix.Lstat(b.path(name), &st))
	return st.Ino
}

// known is the entry of a file whose content is not sent.
func known(path, text string) tree.Entry {
	e := tree.Entry{Kind: tree.KindFile, Path: path, Mode: 0o644, MTime: entryTime, Size: int64(len(text))}
	for at := 0; at < len(text); at += tree.ChunkSize {
		w := []byte(text[at:min(at+tree.ChunkSize, len(text))])
		e.Parts = append(e.Parts, tree.Part{Hash: tree.Sum(w), Size: int64(len(w))})
	}
	return e
}

// noObjects fails the test if an object is left.
func (b *bench) noObjects() {
	b.t.Helper()
	b.must(b.objects.Each(func(object, size int64) error {
		b.t.Errorf("object %x of %d bytes is left", object, size)
		return nil
	}))
}

// A file that a batch removes and has elsewhere is renamed: no byte of it is read, in whatever order
// its entries come.
func TestRenamedWithinABatch(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("l", tree.ChunkSize) + strings.Repeat("o", tree.ChunkSize) + "ng"
		at := func(name string) string { return "/workspace/" + name }
		b.apply(b.file(at("a"), long, 0o644), b.file(at("d/x"), "text of x", 0o644), b.file(at("one"), "1", 0o644), b.file(at("two"), "2", 0o644))
		b.settle()
		b.noObjects()
		a, x, one, two := b.inode("a"), b.inode("d/x"), b.inode("one"), b.inode("two")
		before := b.ws.Stats()
		// Moved, out of a directory that goes, and names exchanged by a third one.
		b.apply(known(at("new/a"), long), remove(at("a")), remove(at("d")), known(at("x"), "text of x"))
		b.apply(remove(at("one")), known(at("three"), "1"))
		b.apply(remove(at("two")), known(at("one"), "2"))
		b.apply(remove(at("three")), known(at("two"), "1"))
		if after := b.ws.Stats(); after.BytesRead != before.BytesRead || after.FilesRead != before.FilesRead {
			t.Errorf("%d bytes of %d files were read", after.BytesRead-before.BytesRead, after.FilesRead-before.FilesRead)
		}
		for name, want := range map[string]uint64{"new/a": a, "x": x, "two": one, "one": two} {
			if got := b.inode(name); got != want {
				t.Errorf("%s is another file", name)
			}
		}
		b.want(map[string]string{
			"new": "dir 0755", "new/a": "file 0644 " + brief([]byte(long)), "x": "file 0644 text of x", "one": "file 0644 2", "two": "file 0644 1",
		})
		b.noObjects()
	})
}

// Content that files have which stay, or that several paths are to have, is copied.
func TestCopiedWithinABatch(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		at := func(name string) string { return "/workspace/" + name }
		b.apply(b.file(at("a"), "text of a", 0o644), b.file(at("x"), "this", 0o644), b.file(at("y"), "that", 0o644))
		b.apply(known(at("b"), "text of a"))                                               // and a stays
		b.apply(known(at("x"), "that"), known(at("y"), "this"))                            // a swap
		b.apply(remove(at("a")), known(at("c"), "text of a"), known(at("d"), "text of a")) // b has it as well
		want := map[string]string{
			"b": "file 0644 text of a", "c": "file 0644 text of a", "d": "file 0644 text of a", "x": "file 0644 that", "y": "file 0644 this",
		}
		b.want(want)
		inodes := map[uint64]string{}
		for name := range want {
			if other, is := inodes[b.inode(name)]; is {
				t.Errorf("%s and %s are one file", name, other)
			}
			inodes[b.inode(name)] = name
		}
	})
}

// Content that was copied is on the disk before what had it until then goes, where that is wanted.
func TestCopiedContentIsSynced(t *testing.T) {
	much := strings.Repeat("0123456789abcdef", (4<<20)/16+1) // more than a transaction copies
	for _, text := range []string{"this", much} {
		b := newBench(t, disk.Config{Sync: true})
		b.apply(b.file("/workspace/x", text, 0o644), b.file("/workspace/y", "that", 0o644))
		var done []string
		b.ws.Hook(func(op, path string) error {
			done = append(done, op+" "+path)
			return nil
		})
		b.apply(known("/workspace/x", "that"), known("/workspace/y", text))
		b.ws.Hook(nil)
		at := slices.Index(done, "sync .")
		goes := slices.IndexFunc(done, func(s string) bool { return strings.HasPrefix(s, "retire ") || strings.HasPrefix(s, "place ") })
		if at < 0 || goes < at {
			t.Errorf("%d bytes: %v", len(text), done)
		}
	}
}

// What arrives for a directory that hands its group down gets that group.
func TestArrivesWithTheDirectorysGroup(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		group := os.Getgid()
		if os.Geteuid() == 0 {
			group = 12345 // nobody else can have it
		}
		b.must(os.Mkdir(b.path("d"), 0o755))
		b.must(os.Chown(b.path("d"), -1, group))
		b.must(unix.Chmod(b.path("d"), 0o2755))
		b.settle()
		b.apply(b.file("/workspace/d/f", "text of f", 0o644), b.file("/workspace/plain", "plain text", 0o644))
		for name, want := range map[string]int{"d/f": group, "plain": os.Getgid()} {
			var st unix.Stat_t
			b.must(unix.Lstat(b.path(name), &st))
			if int(st.Gid) != want {
				t.Errorf("%s has group %d, not %d", name, st.Gid, want)
			}
		}
		b.noObjects()
	})
}

// Objects on another file system are copied to their places, and a renamed file comes over as well.
func TestObjectsOnAnotherFileSystem(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.close()
	b.must(os.Remove(b.dir + ".objects"))
	b.apart = filepath.Join(fastDir(t), "objects") // in memory, if there is such a thing
	b.open()
	b.apply(b.file("/workspace/a", "text of a", 0o644), b.file("/workspace/b", "text of b", 0o644))
	b.apply(remove("/workspace/a"), known("/workspace/c", "text of a"), known("/workspace/b", "text of a"))
	b.want(map[string]string{"b": "file 0644 text of a", "c": "file 0644 text of a"})
	b.reopen()
	b.want(map[string]string{"b": "file 0644 text of a", "c": "file 0644 text of a"})
}

// An object of which no row knows is kept if it is all that has some content of the tree, and
// removed if it is not.
func TestOpenDisposesOfObjects(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("f", "text of f")
	b.settle()
	lost := tree.Sum([]byte("text of f"))
	b.close()
	// As a crash leaves them: f was on its way to another place, the other was to be a file.
	place := func(number int) string { return filepath.Join(b.dir+".objects", fmt.Sprintf("%016x", number)) }
	b.must(os.Rename(b.path("f"), place(1)))
	b.must(os.WriteFile(place(2), []byte("nobody's"), 0o600))
	b.must(os.WriteFile(filepath.Join(b.dir+".objects", "a stranger"), []byte("stays"), 0o600))
	b.open()
	if got, err := b.forest.Chunk(t.Context(), lost, nil); string(got) != "text of f" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Lstat(place(2)); err == nil {
		t.Error("an object that nothing is in is left")
	}
	if _, err := os.Lstat(filepath.Join(b.dir+".objects", "a stranger")); err != nil {
		t.Error(err)
	}
}

// A power cut can take bytes of an object whose row is there: what is cut off is not held, for peers
// and for the store, and comes again.
func TestCutObjectIsNotHeld(t *testing.T) {
	for _, left := range []int64{-1, 0, tree.ChunkSize - 1, tree.ChunkSize} { // of the object, -1 for nothing
		t.Run(fmt.Sprint(left), func(t *testing.T) {
			b := newBench(t, disk.Config{})
			text := strings.Repeat("first ", tree.ChunkSize/6+1)[:tree.ChunkSize] + "second"
			parts := b.parts(text) // sent
			hashes := []tree.Hash{parts[0].Hash, parts[1].Hash}
			b.must(b.objects.Each(func(object, _ int64) error {
				name := filepath.Join(b.dir+".objects", fmt.Sprintf("%016x", object))
				if left < 0 {
					return os.Remove(name)
				}
				return os.Truncate(name, left)
			}))
			held, err := b.forest.Held(t.Context(), hashes)
			b.must(err)
			if want := []bool{left >= tree.ChunkSize, false}; held[0] != want[0] || held[1] != want[1] {
				t.Errorf("held %v, want %v", held, want)
			}
			// It is sent again, and is there for the entry.
			b.apply(b.file("/workspace/f", text, 0o644))
			if got, err := os.ReadFile(b.path("f")); string(got) != text || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// A peer that was told that a file has some content may remove the file in one batch and have the
// content elsewhere in the next: it is renamed all the same.
func TestRenamedOverTwoBatches(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.apply(b.file("/workspace/a", "told of", 0o644), b.file("/workspace/z", "not told of", 0o644))
		b.settle()
		a := b.inode("a")
		told := tree.Sum([]byte("told of"))
		if held, err := b.forest.Held(t.Context(), []tree.Hash{told}); err != nil || !held[0] {
			t.Fatal(held, err)
		}
		b.apply(remove("/workspace/a"), remove("/workspace/z"))
		b.apply(known("/workspace/b", "told of"))
		b.want(map[string]string{"b": "file 0644 told of"})
		if got := b.inode("b"); got != a {
			t.Errorf("the inode was %d, and is %d", a, got)
		}
		b.noObjects()
		if held, err := b.forest.Held(t.Context(), []tree.Hash{tree.Sum([]byte("not told of"))}); err != nil || held[0] {
			t.Error(held, err)
		}
		// Content that has arrived is not wanted any more.
		b.settle()
		b.apply(remove("/workspace/b"))
		b.want(map[string]string{})
		b.noObjects()
	})
}
