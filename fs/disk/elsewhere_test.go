package disk_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// hold has a peer told that content is here, as one that pushes is.
func (b *bench) hold(texts ...string) {
	b.t.Helper()
	var ask []tree.Hash
	for _, text := range texts {
		e := known("", text)
		for _, p := range e.Parts {
			ask = append(ask, p.Hash)
		}
	}
	held, err := b.forest.Held(context.Background(), ask)
	b.must(err)
	for i := range held {
		if !held[i] {
			b.t.Fatalf("window %d is not held", i)
		}
	}
}

// Content that files of the directory have is in no object once a batch is in the directory, however it
// has come to stand there: F5.
func TestF5ContentThatStandsElsewhere(t *testing.T) {
	at := func(name string) string { return "/workspace/" + name }
	window := func(c string) string { return strings.Repeat(c, tree.ChunkSize) }
	long, whole := window("l")+window("o")+"ng", window("w")+window("x")
	for name, test := range map[string]func(b *bench) map[string]string{
		"copied": func(b *bench) map[string]string {
			b.apply(b.file(at("d/f"), long, 0o644), b.file(at("d/g"), whole, 0o644))
			b.hold(long, whole)
			b.apply(known(at("d2/f"), long), known(at("d2/g"), whole))
			return map[string]string{"d/f": long, "d/g": whole, "d2/f": long, "d2/g": whole}
		},
		"copied, then removed": func(b *bench) map[string]string {
			b.apply(b.file(at("d/f"), long, 0o644))
			b.hold(long)
			b.apply(known(at("d2/f"), long))
			b.apply(remove(at("d")))
			return map[string]string{"d2/f": long}
		},
		"copied, then overwritten": func(b *bench) map[string]string {
			b.apply(b.file(at("f"), long, 0o644))
			b.apply(known(at("g"), long))
			b.apply(b.file(at("f"), "short", 0o644))
			return map[string]string{"g": long, "f": "short"}
		},
		"copied, then renamed over two batches": func(b *bench) map[string]string {
			b.apply(b.file(at("f"), long, 0o644))
			b.apply(known(at("g"), long))
			b.hold(long)
			b.apply(known(at("h"), long))
			b.apply(remove(at("f")))
			return map[string]string{"g": long, "h": long}
		},
		"overwritten by what another has, which is removed": func(b *bench) map[string]string {
			b.apply(b.file(at("f"), long, 0o644), b.file(at("g"), "g", 0o644), b.file(at("h"), long, 0o644))
			b.apply(known(at("g"), long), remove(at("f")))
			return map[string]string{"g": long, "h": long}
		},
		"exchanged": func(b *bench) map[string]string {
			b.apply(b.file(at("f"), long, 0o644), b.file(at("g"), whole, 0o644))
			b.apply(known(at("f"), whole), known(at("g"), long))
			return map[string]string{"f": whole, "g": long}
		},
		"several at once": func(b *bench) map[string]string {
			b.apply(b.file(at("a"), long, 0o644), known(at("b"), long), known(at("c"), long))
			b.apply(known(at("d"), long), known(at("e"), long))
			return map[string]string{"a": long, "b": long, "c": long, "d": long, "e": long}
		},
		"copied by a command before": func(b *bench) map[string]string {
			b.apply(b.file(at("f"), long, 0o644))
			b.write("by/command", long)
			b.must(os.Chtimes(b.path("by/command"), entryTime, entryTime))
			b.settle()
			b.apply(known(at("g"), long))
			return map[string]string{"f": long, "by/command": long, "g": long}
		},
		"windows of others": func(b *bench) map[string]string {
			b.apply(b.file(at("f"), long, 0o644), b.file(at("g"), whole, 0o644))
			mixed := window("l") + window("x") + "new"
			b.apply(b.file(at("m"), mixed, 0o644))
			return map[string]string{"f": long, "g": whole, "m": mixed}
		},
		"the same window many times": func(b *bench) map[string]string {
			zero := window("0") + window("0") + window("0")
			b.apply(b.file(at("z"), zero, 0o644))
			b.apply(known(at("y"), zero+window("0")))
			return map[string]string{"z": zero, "y": zero + window("0")}
		},
		"files of whole windows": func(b *bench) map[string]string {
			var data []tree.Data
			for _, text := range []string{window("1") + window("2"), window("3"), window("4") + window("5")} {
				for at := 0; at < len(text); at += tree.ChunkSize {
					w := []byte(text[at : at+tree.ChunkSize])
					data = append(data, tree.Data{Hash: tree.Sum(w), Bytes: w})
				}
			}
			_, err := b.forest.PutChunks(context.Background(), data...)
			b.must(err)
			b.apply(known(at("a"), window("1")+window("2")), known(at("b"), window("3")), known(at("c"), window("4")+window("5")))
			return map[string]string{"a": window("1") + window("2"), "b": window("3"), "c": window("4") + window("5")}
		},
		"more than is copied in a transaction": func(b *bench) map[string]string {
			want := map[string]string{}
			for i := range 4 {
				name, text := fmt.Sprint("d/", i), window(fmt.Sprint(i))+window("a")+window("b")+fmt.Sprint(i)
				want[name], want["d2/"+name] = text, text
				b.apply(b.file(at(name), text, 0o644))
			}
			var copies []tree.Entry
			for name, text := range want {
				if strings.HasPrefix(name, "d2") {
					copies = append(copies, known(at(name), text))
				}
			}
			b.apply(copies...)
			return want
		},
		"more files than are looked at for one": func(b *bench) map[string]string {
			want := map[string]string{}
			for i := range 50 {
				name := fmt.Sprintf("n%d", i)
				b.apply(b.file(at(name), "the license", 0o644))
				want[name] = "the license"
			}
			return want
		},
	} {
		check := func(t *testing.T, b *bench) {
			t.Helper()
			want := test(b)
			b.noObjects()
			for name, text := range want {
				if got, err := os.ReadFile(b.path(name)); string(got) != text || err != nil {
					t.Errorf("%s has %d bytes, %v", name, len(got), err)
				}
				b.hold(text)
			}
		}
		t.Run(name, func(t *testing.T) {
			both(t, check)
			t.Run("some at a time", func(t *testing.T) {
				b := newBench(t, disk.Config{})
				b.ws.Shrink()
				check(t, b)
			})
			t.Run("apart", func(t *testing.T) {
				b := newBench(t, disk.Config{})
				b.ws.Apart()
				check(t, b)
			})
		})
	}
}

// What somebody else refers to, or reads, is kept apart.
func TestF5ContentThatIsNeededElsewhere(t *testing.T) {
	at := func(name string) string { return "/workspace/" + name }
	text := "the text"
	hash := tree.Sum([]byte(text))
	for name, need := range map[string]func(b *bench) (done func()){
		"a lost version": func(b *bench) func() {
			other, err := b.forest.Tree(context.Background(), "lost")
			b.must(err)
			_, err = other.Update(context.Background(), func(e *tree.Edit) error {
				if err := e.Secure(hash); err != nil {
					return err
				}
				entry := known("/1", text)
				_, err := e.Apply(&entry, tree.SkipSame)
				return err
			})
			b.must(err)
			return func() {
				_, err := other.Update(context.Background(), func(e *tree.Edit) error {
					entry := remove("/1")
					_, err := e.Apply(&entry, tree.SkipSame)
					return err
				})
				b.must(err)
			}
		},
		"beside the mount": func(b *bench) func() {
			b.apply(known("/beside", text))
			return func() { b.apply(remove("/beside")) }
		},
		"a file that cannot be read back": func(b *bench) func() {
			e := known(at("unreadable"), text)
			e.Mode = 0o200
			b.apply(e)
			return func() { b.apply(remove(at("unreadable"))) }
		},
		"a reader": func(b *bench) func() {
			unpin, err := b.forest.Pin(context.Background(), []tree.Hash{hash})
			b.must(err)
			b.must(func() error {
				_, err := b.forest.Pack(context.Background(), tree.Data{Hash: hash, Bytes: []byte(text)})
				return err
			}())
			return unpin
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, disk.Config{})
			b.apply(b.file(at("f"), text, 0o644))
			done := need(b)
			b.apply(known(at("g"), text))
			b.apply(b.file(at("f"), "news", 0o644), b.file(at("g"), "others", 0o644))
			if got, err := b.forest.Chunk(t.Context(), hash, nil); string(got) != text || err != nil {
				t.Fatalf("%q, %v", got, err)
			}
			b.apply(known(at("h"), text))
			done()
			if _, err := b.forest.Collect(t.Context(), tree.Policy{Unseen: time.Nanosecond, Grace: -1, MaxBytes: -1}); err != nil {
				t.Fatal(err)
			}
			b.noObjects()
			b.hold(text)
			b.write("h", "a command's")
			b.settle()
			if held, err := b.forest.Held(t.Context(), []tree.Hash{hash}); err != nil || held[0] {
				t.Errorf("%v, %v: nobody has it", held, err)
			}
		})
	}
}

// A batch that fails leaves no object of what it has copied.
func TestF5FailedBatchLeavesNoObject(t *testing.T) {
	at := func(name string) string { return "/workspace/" + name }
	long := strings.Repeat("l", 3*tree.ChunkSize) + "ong"
	for name, entries := range map[string][]tree.Entry{
		"no room":         {known(at("g"), long)},
		"unknown content": {known(at("g"), long), known(at("h"), "nobody has this")},
		"in the midst":    {known(at("g"), long), known(at("h"), long[1:]), known(at("i"), long[:5]+"nobody has this")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, disk.Config{})
			b.apply(b.file(at("f"), long, 0o644), b.file(at("e"), long[1:], 0o644))
			if name == "no room" {
				b.ws.Apart()
				b.ws.Room(10)
			}
			if _, err := b.ws.Apply(t.Context(), seq(entries), tree.SkipSame, nil); err == nil {
				t.Error("no error")
			}
			b.noObjects()
		})
	}
}

// Content of a file that a batch removes goes to an entry that stands at the end of the batch, and is not copied: an entry
// whose path a later one changes takes none.
func TestSupersededEntryTakesNoContent(t *testing.T) {
	at := func(name string) string { return "/workspace/" + name }
	long := strings.Repeat("l", tree.ChunkSize) + "ong"
	for name, test := range map[string]struct {
		later func(b *bench) tree.Entry
		want  map[string]string
	}{
		"written again":      {func(b *bench) tree.Entry { return b.file(at("d/f"), "other", 0o644) }, map[string]string{"d": "dir 0755", "d/f": "file 0644 other"}},
		"removed":            {func(*bench) tree.Entry { return remove(at("d/f")) }, map[string]string{"d": "dir 0755"}},
		"directory removed":  {func(*bench) tree.Entry { return remove(at("d")) }, map[string]string{}},
		"file above":         {func(b *bench) tree.Entry { return b.file(at("d"), "other", 0o644) }, map[string]string{"d": "file 0644 other"}},
		"link above":         {func(*bench) tree.Entry { return link(at("d"), "to") }, map[string]string{"d": "link to"}},
		"directory in place": {func(*bench) tree.Entry { return folder(at("d/f"), 0o755) }, map[string]string{"d": "dir 0755", "d/f": "dir 0755"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, disk.Config{})
			b.apply(b.file(at("a"), long, 0o644))
			b.hold(long)
			b.ws.Reflink(func(int, int) error { return unix.EPERM })
			b.ws.Hook(func(op, path string) error {
				if op == "copy" {
					t.Errorf("the content of %s is copied", path)
				}
				return nil
			})
			b.apply(remove(at("a")), known(at("d/f"), long), test.later(b), known(at("z"), long))
			b.ws.Hook(nil)
			got := onDisk(t, b.dir)
			delete(got, "z") // same compares its content
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("in the directory (-want +got):\n%s", diff)
			}
			b.same()
			b.noObjects()
		})
	}
}
