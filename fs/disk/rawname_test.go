package disk_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/rawname"
	"github.com/wsd-dev/wsd/fs/tree"
)

// notUTF8 lists what is named as not UTF-8.
func (b *bench) notUTF8() []string {
	b.t.Helper()
	s, known := b.ws.NotUTF8(nil)
	if !known || s.Count != len(s.Paths) {
		b.t.Errorf("%d of %d are named", len(s.Paths), s.Count)
	}
	var out []string
	for _, p := range s.Paths {
		if p.Error != changes.NotUTF8 {
			b.t.Errorf("%+v", p)
		}
		out = append(out, rawname.Show(strings.TrimPrefix(p.Path, "/workspace/")))
	}
	return out
}

func (b *bench) wantNotUTF8(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.notUTF8()); diff != "" {
		b.t.Errorf("not UTF-8 (-want +got):\n%s", diff)
	}
}

const (
	rawName = "caf\xe9"
	asTree  = "caf\U0010FEE9"
)

// F3: what commands do under names that are not UTF-8 comes to the tree.
func TestF3SettleNamesOfAnyBytes(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		long := strings.Repeat("\xff", 255)
		b.write(rawName, "1")
		b.write("d\xfe/"+long, "2")
		b.must(os.WriteFile(filepath.Join(b.dir, "private\U0010FE80"), []byte("3"), 0o644))
		b.must(os.Symlink(rawName, b.path("link")))
		b.settle()
		b.want(map[string]string{
			asTree: "file 0644 1", "d\U0010FEFE": "dir 0755", "d\U0010FEFE/" + strings.Repeat("\U0010FEFF", 255): "file 0644 2",
			rawname.Encode("private\U0010FE80"): "file 0644 3", "link": "link " + asTree,
		})
		b.wantSkipped()
		b.wantNotUTF8(`caf\xe9`, `d\xfe`, "link")

		rev := b.rev()
		b.write(rawName, "changed")
		b.settle()
		b.told(rev, "+"+asTree)
		b.must(os.Rename(b.path("d\xfe"), b.path("e")))
		b.must(os.Rename(b.path(rawName), b.path("f\xfd")))
		b.must(os.Remove(b.path("link")))
		b.settle()
		b.same()
		b.wantNotUTF8(`e/`+strings.Repeat(`\xff`, 255), `f\xfd`)
		b.reopen()
		b.same()
		b.wantNotUTF8(`e/`+strings.Repeat(`\xff`, 255), `f\xfd`)
		b.must(os.RemoveAll(b.path("e")))
		b.must(os.Remove(b.path("f\xfd")))
		b.settle()
		b.same()
		b.wantNotUTF8()
	})
}

// F3: entries with names that are not UTF-8 come to the directory, byte for byte.
func TestF3ApplyNamesOfAnyBytes(t *testing.T) {
	both(t, func(t *testing.T, b *bench) {
		b.apply(folder("/workspace/d\U0010FEFE", 0o755), b.file("/workspace/d\U0010FEFE/"+asTree, "1", 0o644), link("/workspace/link", asTree),
			b.file("/workspace/"+rawname.Encode("\U0010FEE9"), "real", 0o600))
		b.want(map[string]string{
			"d\U0010FEFE": "dir 0755", "d\U0010FEFE/" + asTree: "file 0644 1", "link": "link " + asTree,
			rawname.Encode("\U0010FEE9"): "file 0600 real",
		})
		b.wantNotUTF8(`d\xfe`, "link")
		if text, err := os.ReadFile(b.path("d\xfe/" + rawName)); err != nil || string(text) != "1" {
			t.Errorf("%q, %v", text, err)
		}
		if text, err := os.ReadFile(filepath.Join(b.dir, "\U0010FEE9")); err != nil || string(text) != "real" {
			t.Errorf("%q, %v", text, err)
		}
		rev := b.rev()
		b.settle()
		b.told(rev)
		// What it takes the place of leaves under a name that has room for no more.
		long := strings.Repeat("\xe9", 255)
		b.write(long, "mine")
		b.apply(b.file("/workspace/"+rawname.Encode(long), "theirs", 0o644))
		if got := onDisk(t, b.dir)[rawname.Encode(long)]; got != "file 0644 theirs" {
			t.Errorf("the directory has %s", got)
		}
		b.settle()
		b.same()
		// A directory in the place of a file, and a link with another target.
		b.apply(remove("/workspace/d\U0010FEFE/"+asTree), folder("/workspace/d\U0010FEFE/"+asTree, 0o700), link("/workspace/link", "plain"))
		b.same()
		b.wantNotUTF8(`d\xfe`, strings.Repeat(`\xe9`, 255))
		b.apply(remove("/workspace/d\U0010FEFE"), remove("/workspace/"+rawname.Encode(long)), remove("/workspace/"+rawname.Encode("\U0010FEE9")))
		b.want(map[string]string{"link": "link plain"})
		b.reopen()
		b.want(map[string]string{"link": "link plain"})
	})
}

// A path that is the form of no name is refused, and nothing of what comes with it is applied.
func TestF3FormOfNoName(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.write("é", "mine")
	b.settle()
	for _, path := range []string{"/workspace/\U0010FEC3\U0010FEA9", "/workspace/\U0010FEC3\U0010FEA9/x"} {
		for _, e := range []tree.Entry{b.file(path, "theirs", 0o644), folder(path, 0o755), link(path, "x"), remove(path)} {
			_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{b.file("/workspace/other", "x", 0o644), e}), tree.SkipSame, nil)
			if tree.Code(err) != "EINVAL" {
				t.Errorf("%v of %q: %v", e.Kind, path, err)
			}
		}
	}
	_, err := b.ws.Apply(t.Context(), seq([]tree.Entry{link("/workspace/l", "\U0010FEC3\U0010FEA9")}), tree.SkipSame, nil)
	if tree.Code(err) != "EINVAL" {
		t.Errorf("a target: %v", err)
	}
	b.want(map[string]string{"é": "file 0644 mine"})
}

// Whatever bytes a name has, a tree made of a directory makes the same directory.
func TestF3AnyBytes(t *testing.T) {
	from, to := newBench(t, disk.Config{}), newBench(t, disk.Config{})
	draw := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", ".", "\xe9", "\x80", "\xff", "\xf4", "\x8f", "\xba", "\xbb", "\xc3", "\xa9", "é", "\U0010FE80", "\U0010FEFF", "\U0010FF00", " ", "\n", `\`}
	for range 300 {
		name := ""
		for range 1 + draw.IntN(9) {
			name += pieces[draw.IntN(len(pieces))]
		}
		if name != "." && name != ".." {
			from.must(os.WriteFile(filepath.Join(from.dir, name), []byte(name), 0o644))
		}
	}
	from.settle()
	from.same()
	var entries []tree.Entry
	for name := range from.inTree() {
		raw, err := rawname.Decode(name)
		from.must(err)
		entries = append(entries, to.file("/workspace/"+name, raw, 0o644))
	}
	to.apply(entries...)
	if diff := cmp.Diff(onDisk(t, from.dir), onDisk(t, to.dir)); diff != "" || len(entries) < 200 {
		t.Errorf("%d files (-from +to):\n%s", len(entries), diff)
	}
}
