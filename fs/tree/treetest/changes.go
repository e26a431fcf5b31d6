package treetest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

// What the stream tells after a cursor: first runs, then the cursor is taken, then do.
var changeCases = []struct{ name, first, do, want string }{
	{"nothing", "write /f x", "", ""},
	{"five writes, one entry", "", "write /f 1\nwrite /f 2\nwrite /f 3\nwrite /f 4\nwrite /f 5", "+5 file /f"},
	{"parents share the revision", "", "write /a/b/f x", "+1 dir /a\n+1 dir /a/b\n+1 file /a/b/f"},
	{"write and delete", "", "write /f x\nrm /f", "+2 delete /f"},
	{"delete and write", "write /f x", "rm /f\nwrite /f y", "+2 file /f"},
	{"recursive delete, parent first", "write /d/x 1\nwrite /d/y/z 2", "rmr /d", "+1 delete /d\n+1 delete /d/x\n+1 delete /d/y\n+1 delete /d/y/z"},
	{"moved directory", "write /d/x/y 1", "mv /d /e", "+1 delete /d to /e\n+1 delete /d/x\n+1 delete /d/x/y\n+1 dir /e\n+1 dir /e/x\n+1 file /e/x/y"},
	{"moved twice", "write /d/x 1", "mv /d /e\nmv /e /f", "+1 delete /d\n+1 delete /d/x\n+2 delete /e to /f\n+2 delete /e/x\n+2 dir /f\n+2 file /f/x"},
	{"moved there and back", "write /d/x 1", "mv /d /e\nmv /e /d", "+2 dir /d\n+2 file /d/x\n+2 delete /e to /d\n+2 delete /e/x"},
	{"moved, then changed within", "write /d/x 1\nwrite /d/y 1", "mv /d /e\nrm /e/x\nwrite /e/z 1", "+1 delete /d to /e\n+1 delete /d/x\n+1 delete /d/y\n+1 dir /e\n+1 file /e/y\n+2 delete /e/x\n+3 file /e/z"},
	{"moved, then removed", "write /d/x 1", "mv /d /e\nrmr /e", "+1 delete /d\n+1 delete /d/x\n+2 delete /e\n+2 delete /e/x"},
	{"moved, and the directory around it removed", "write /d/x 1\nmkdir /k", "mv /d /k/e\nrmr /k", "+1 delete /d\n+1 delete /d/x\n+2 delete /k\n+2 delete /k/e\n+2 delete /k/e/x"},
	{"moved, and the directory above", "write /a/d/x 1", "mv /a/d /a/e\nmv /a /b", "+1 delete /a/d to /b/e\n+1 delete /a/d/x\n+2 delete /a to /b\n+2 delete /a/e\n+2 delete /a/e/x\n+2 dir /b\n+2 dir /b/e\n+2 file /b/e/x"},
	{"moved out of a moved one", "write /a/d/x 1", "mv /a /b\nmv /b/d /d", "+1 delete /a to /b\n+1 delete /a/d\n+1 delete /a/d/x\n+1 dir /b\n+2 delete /b/d to /d\n+2 delete /b/d/x\n+2 dir /d\n+2 file /d/x"},
	{"moved into a moved one", "write /a/x 1\nwrite /d/y 1", "mv /a /b\nmv /d /b/d", "+1 delete /a to /b\n+1 delete /a/x\n+1 dir /b\n+1 file /b/x\n+2 dir /b/d\n+2 file /b/d/y\n+2 delete /d to /b/d\n+2 delete /d/y"},
	{"moved, then another out of where it was", "write /d/s/x 1\nwrite /d/y 1", "mv /d/s /f\nmv /d /e", "+1 delete /d/s to /f\n+1 delete /d/s/x\n+1 dir /f\n+1 file /f/x\n+2 delete /d to /e\n+2 delete /d/y\n+2 dir /e\n+2 file /e/y"},
	{"moved, and the old one told of again", "write /d/s/x 1", "mv /d /e\ntouch /d", "+1 delete /d/s\n+1 delete /d/s/x\n+1 dir /e\n+1 dir /e/s\n+1 file /e/s/x\n+2 delete /d"},
	{"moved to something inside of its old name", "write /d/x 1", "mv /d /e\nmkdir /d\nmv /e /d/e", "+1 delete /d/x\n+2 dir /d\n+3 dir /d/e\n+3 file /d/e/x\n+3 delete /e to /d/e\n+3 delete /e/x"},
	{"file moved", "write /a/x 1\nmkdir /b", "mv /a/x /b/x", "+1 delete /a/x\n+1 file /b/x"},
	{"moved, and the old name taken", "write /a/x 1", "mv /a /b\nwrite /a/x 2", "+2 dir /a\n+2 file /a/x\n+1 dir /b\n+1 file /b/x"},
	{"moved over an empty directory", "write /a/x 1\nmkdir /b", "mv /a /b", "+1 delete /a to /b\n+1 delete /a/x\n+1 dir /b\n+1 file /b/x"},
	{"moved over a moved empty one", "mkdir /o\nwrite /a/x 1", "mv /o /b\nmv /a /b", "+2 delete /a to /b\n+2 delete /a/x\n+2 dir /b\n+2 file /b/x\n+1 delete /o"},
	{"file over file", "write /a 1\nwrite /b 2", "mv /a /b", "+1 delete /a\n+1 file /b"},
	{"mode only", "write /f 1", "chmod 755 /f", "+1 file /f"},
	{"directory after its content", "write /d/f 1", "write /d/f 2\nchmod 700 /d", "+1 file /d/f\n+2 dir /d"},
	{"all names of a file", "write /a 1\nlink /a /b", "write /a 2", "+1 file /a\n+1 file /b"},
	{"a new name", "write /a 1", "link /a /b", "+1 file /b"},
	{"one name removed", "write /a 1\nlink /a /b", "rm /b", "+1 delete /b"},
	{"the root", "", "dir / 700", "+1 dir /"},
	{"order of UTF-16", "", "write /d/\U0001F600 1\nwrite /d/\uFF5E 2\nmv /d /e", "+3 delete /d to /e\n+3 delete /d/\U0001F600\n+3 delete /d/\uFF5E\n+3 dir /e\n+3 file /e/\U0001F600\n+3 file /e/\uFF5E"},

	{"applied again", "file /f 644 x\ndir /d 755\nlnk /l t", "file /f 644 x\ndir /d 755\nlnk /l t\ndel /n", ""},
	{"applied mode", "file /f 644 x", "file /f 755 x", "+1 file /f"},
	{"applied kinds leave no tombs", "write /d/x 1", "file /d 644 y\ndir /d 755", "+2 dir /d"},
	{"changed kinds do", "write /d/x 1", "file! /d 644 y\ndir! /d 755", "+1 delete /d/x\n+3 dir /d"},
	{"changed kind of a parent", "write /d/x 1\nwrite /f 1", "lnk! /d f\nfile! /d/y 644 2", "+1 delete /d/x\n+3 dir /d\n+3 file /d/y"},
	{"applied over a moved one", "write /a/x 1", "mv /a /b\nfile /b 644 y", "+1 delete /a\n+1 delete /a/x\n+2 file /b"},
	{"applied delete, then its child", "write /d/x 1", "del /d\ndel /d/x", "+1 delete /d\n+1 delete /d/x"},
	{"children before their directory", "", "file /w/new/f 644 1\nlnk /w/new/l f\ndir /w/new 700\ndir /w 711", "+1 file /w/new/f\n+2 symlink /w/new/l\n+3 dir /w/new\n+4 dir /w"},
}

func changes(t *testing.T, open func(testing.TB) tree.Store) {
	store := open(t)
	defer share(t, store, "changes").check()
	for i, tt := range changeCases {
		t.Run(tt.name, func(t *testing.T) {
			b := share(t, store, fmt.Sprint("change", i))
			b.run("share\n" + tt.first)
			rev := b.rev()
			b.run(tt.do)
			// The expected order is that of the cursors, whatever the order of writing.
			if diff := cmp.Diff(inOrder(tt.want), b.since(tree.At(rev), rev)); diff != "" {
				t.Error(diff)
			}
			if got := b.since(tree.At(b.rev()), 0); got != "" {
				t.Errorf("after all of it: %s", got)
			}
		})
	}
	for name, fn := range map[string]func(*bench){
		"from the start": fromTheStart, "windows": windows, "resume": resume, "ignore": ignore,
		"while it is open": whileOpen, "not shared": notShared, "entries": entries, "peers": peers,
	} {
		t.Run(name, func(t *testing.T) { fn(newBench(t, open(t))) })
	}
}

// inOrder sorts lines by their revision, and leaves those of one revision as they are.
func inOrder(text string) string {
	var out strings.Builder
	for rev := range 10 {
		for line := range strings.Lines(lines(text)) {
			if strings.HasPrefix(line, fmt.Sprintf("+%d ", rev)) {
				out.WriteString(line)
			}
		}
	}
	return out.String()
}

// A new tree is at its first revision, and its root is not offered.
func fromTheStart(b *bench) {
	if b.rev() != 1 || b.since(tree.Cursor{}, 0) != "" {
		b.Errorf("revision %d, %q", b.rev(), b.since(tree.Cursor{}, 0))
	}
	b.run("write /d/f x\nrm /d/f")
	if got, want := b.since(tree.Cursor{}, 0), "+2 dir /d\n+3 delete /d/f\n"; got != want {
		b.Errorf("%q", got)
	}
	// Without a first revision it is above any that a store made before can have had.
	f := tree.New(b.store, tree.Config{Now: b.clock.now})
	other, err := f.Tree(b.Context(), "other")
	if err != nil {
		b.Fatal(err)
	}
	info, err := other.Info(b.Context())
	if want := b.clock.UnixMicro(); err != nil || info.Rev != want || info.Rev > tree.MaxRev {
		b.Error(info, err)
	}
	if again, err := f.Tree(b.Context(), "other"); err != nil {
		b.Error(err)
	} else if i, err := again.Info(b.Context()); err != nil || i != info {
		b.Error(i, err)
	}
}

func windows(b *bench) {
	b.run("write /a 1\nwrite /b 1\nwrite /c 1\nrm /b\nwrite /d 1") // revisions 2 to 6
	for _, tt := range []struct {
		after, through tree.Cursor
		want           string
	}{
		{tree.At(0), tree.At(4), "+2 file /a\n+4 file /c\n"},
		{tree.At(2), tree.At(5), "+4 file /c\n+5 delete /b\n"},
		{tree.At(4), tree.At(4), ""},
		{tree.At(5), tree.At(4), ""},
		{tree.At(5), tree.At(99), "+6 file /d\n"},
		{tree.At(99), tree.At(100), ""},
		{tree.AtPath(4, ""), tree.AtPath(4, "/c"), "+4 file /c\n"},
		{tree.AtPath(4, "/c"), tree.AtPath(5, "/a"), ""},
		{tree.AtPath(4, "/b"), tree.AtPath(5, "/b"), "+4 file /c\n+5 delete /b\n"},
	} {
		c, err := b.tree.Changes(b.Context(), tree.ChangesQuery{After: tt.after, Through: &tt.through})
		if err != nil {
			b.Fatal(err)
		}
		want := tt.through
		if end := tree.At(b.rev()); want.Compare(end) > 0 {
			want = end
		}
		if c.Current != want {
			b.Errorf("%v to %v: the end is %v", tt.after, tt.through, c.Current)
		}
		if got := b.drain(c, 0); got != tt.want {
			b.Errorf("%v to %v: %q, want %q", tt.after, tt.through, got, tt.want)
		}
	}
}

// Within one revision of many paths, a stream can go on from any of them.
func resume(b *bench) {
	b.run("share")
	_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error {
		for i := range 300 {
			if err := e.PutFile(fmt.Sprintf("/d/%d/%d", i%7, i), tree.File{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	rev := b.rev()
	b.run("mv /d /e")
	all := strings.SplitAfter(strings.TrimSpace(b.since(tree.At(rev), rev)), "\n")
	if len(all) != 2*308 {
		b.Fatalf("%d entries", len(all))
	}
	at := tree.At(rev)
	for i := 0; i < len(all); {
		c, err := b.tree.Changes(b.Context(), tree.ChangesQuery{After: at})
		if err != nil {
			b.Fatal(err)
		}
		list, err := c.Next(b.Context(), 50)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range list {
			if got := shown(&e, rev); got != strings.TrimSpace(all[i]) {
				b.Fatalf("entry %d is %s, want %s", i, got, all[i])
			}
			at = tree.AtPath(e.Rev, e.Path)
			i++
		}
	}
	if got := b.since(at, rev); got != "" {
		b.Errorf("after the last: %q", got)
	}
}

func ignore(b *bench) {
	b.run(`share
		write /.cache/a 1
		write /x/.cache/b 1
		write /.cached/c 1
		write /my.cache 1
		write /build/d 1
		write /rebuild/e 1
		write /Build/f 1
		write /y/build 1
		symlink build /lnk
		rmr /build`)
	want := "+3 dir /x\n+4 dir /.cached\n+4 file /.cached/c\n+5 file /my.cache\n+7 dir /rebuild\n+7 file /rebuild/e\n" +
		"+8 dir /Build\n+8 file /Build/f\n+9 dir /y\n+10 symlink /lnk\n"
	if diff := cmp.Diff(want, b.since(tree.Cursor{}, 0, ".cache", "", "/", "build")); diff != "" {
		b.Error(diff)
	}
	if _, err := b.tree.Entry(b.Context(), "/.cache/a"); err != nil {
		b.Error(err)
	}
}

// What changes while a stream is open comes with the next one, and only there.
func whileOpen(b *bench) {
	b.run("share\nwrite /a 1\nwrite /b 1\nwrite /c/x 1\nwrite /d 1\nwrite /e 1\nrm /e")
	c, err := b.tree.Changes(b.Context(), tree.ChangesQuery{})
	if err != nil {
		b.Fatal(err)
	}
	if list, err := c.Next(b.Context(), 1); err != nil || len(list) != 1 || list[0].Path != "/a" {
		b.Fatal(list, err)
	}
	b.run("write /a 2\nwrite /b 2\nmv /c /f\nrm /d\nwrite /e 2") // 8 to 12
	if got, want := b.drain(c, 0), ""; got != want {
		b.Errorf("the rest: %q", got)
	}
	if _, err := c.Next(b.Context(), 1); !errors.Is(err, io.EOF) {
		b.Error(err)
	}
	want := "+8 file /a\n+9 file /b\n+10 delete /c to /f\n+10 delete /c/x\n+10 dir /f\n+10 file /f/x\n+11 delete /d\n+12 file /e\n"
	if diff := cmp.Diff(want, b.since(c.Current, 0)); diff != "" {
		b.Error(diff)
	}
}

// Before anybody can hold a cursor a moved directory has no old paths.
func notShared(b *bench) {
	b.run("write /d/x 1\nmv /d /e")
	if got, want := b.since(tree.Cursor{}, 0), "+3 dir /e\n+3 file /e/x\n"; got != want {
		b.Errorf("%q", got)
	}
	b.run("mv /e /f")
	if got, want := b.since(tree.At(3), 0), "+4 delete /e to /f\n+4 delete /e/x\n+4 dir /f\n+4 file /f/x\n"; got != want {
		b.Errorf("%q", got)
	}
}

func entries(b *bench) {
	b.run("share\nfile /d/f 755 alpha\nlnk /l d/f\ndir /d 700\nwrite /gone alpha\nrm /gone\nwrite /m/a alpha\nmv /m /n")
	clock := time.Unix(b.clock.Unix(), 0)
	alpha := []tree.Part{{Hash: tree.Sum([]byte("alpha")), Size: 5}}
	for _, want := range []tree.Entry{
		{Kind: tree.KindFile, Rev: 2, Path: "/d/f", Mode: 0o755, MTime: clock, Size: 5, Parts: alpha},
		{Kind: tree.KindSymlink, Rev: 3, Path: "/l", Mode: 0o777, MTime: clock, Target: "d/f"},
		{Kind: tree.KindDir, Rev: 4, Path: "/d", Mode: 0o700, MTime: clock},
		{Kind: tree.KindDelete, Rev: 6, Path: "/gone", Prior: "133f59f26825ffdb38f9d7774807cb47b82beed7aba84ef8cdf775909ae68979"},
		{Kind: tree.KindFile, Rev: 8, Path: "/n/a", Mode: 0o644, MTime: clock, Size: 5, Parts: alpha},
		{Kind: tree.KindDelete, Rev: 8, Path: "/m", Prior: "8005b43fb02a795e6a11dd305b107499b10af35fb7fb66a8411cdb323a4f4434"},
		{Kind: tree.KindDelete, Rev: 8, Path: "/m/a", Prior: "133f59f26825ffdb38f9d7774807cb47b82beed7aba84ef8cdf775909ae68979"},
	} {
		if got, err := b.tree.Entry(b.Context(), want.Path); err != nil || cmp.Diff(want, got) != "" {
			b.Errorf("%s: %v\n%s", want.Path, err, cmp.Diff(want, got))
		}
	}
	for path, want := range map[string]string{
		"/never": "ENOENT", "/m/b": "ENOENT", "/m/a/x": "ENOENT", "/l/x": "ENOENT", "d": "EINVAL", "/d/../x": "EINVAL", "": "EINVAL",
	} {
		if _, err := b.tree.Entry(b.Context(), path); code(err) != want {
			b.Errorf("%q: %v", path, err)
		}
	}
}

func peers(b *bench) {
	steps := []struct{ give, want tree.Peer }{
		{tree.Peer{ID: "p", Push: tree.At(1), Fetch: tree.AtPath(9, "/x")}, tree.Peer{ID: "p", Push: tree.At(1), Fetch: tree.AtPath(9, "/x")}},
		{tree.Peer{ID: "p", Fetch: tree.AtPath(9, "/a")}, tree.Peer{ID: "p", Push: tree.At(1), Fetch: tree.AtPath(9, "/x")}},
		{tree.Peer{ID: "p", Fetch: tree.At(9)}, tree.Peer{ID: "p", Push: tree.At(1), Fetch: tree.At(9)}},
		{tree.Peer{ID: "p", Fetch: tree.AtPath(10, "")}, tree.Peer{ID: "p", Push: tree.At(1), Fetch: tree.AtPath(10, "")}},
	}
	for _, s := range steps {
		s.want.Seen = b.clock.UnixMilli()
		var stored tree.Peer
		_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error {
			var err error
			stored, err = e.SetPeer(s.give)
			return err
		})
		got, err2 := b.tree.Peer(b.Context(), "p")
		if err != nil || err2 != nil || got != s.want || stored != s.want {
			b.Errorf("%v: stored %v, %v; read %v, %v", s.give, stored, err, got, err2)
		}
	}
	if b.rev() != 1 {
		b.Errorf("revision %d", b.rev())
	}
	_, err := b.tree.Update(b.Context(), func(e *tree.Edit) error { return e.ResetPeer(tree.Peer{ID: "p"}) })
	if got, err2 := b.tree.Peer(b.Context(), "p"); err != nil || err2 != nil || got != (tree.Peer{ID: "p", Seen: b.clock.UnixMilli()}) {
		b.Error(got, err, err2)
	}
	_, err = b.tree.Update(b.Context(), func(e *tree.Edit) error { _, err := e.SetPeer(tree.Peer{}); return err })
	if code(err) != "EINVAL" {
		b.Error(err)
	}
}
