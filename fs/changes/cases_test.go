package changes_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// pair is a server and a host of the new style.
func pair(t *testing.T) (*end, *host) {
	t.Helper()
	return newEnd(t), &host{end: newEnd(t), style: newStyle, block: 1000}
}

// same does a session, wants both to be the same, and a second session to change nothing.
func same(t *testing.T, server *end, h *host) {
	t.Helper()
	if err := h.sync(t.Context(), server, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(server.all(), h.all()); diff != "" {
		t.Fatalf("the server (-) is not what the host (+) is:\n%s", diff)
	}
	revs := [2]int64{server.marks().CurrentRev, h.marks().CurrentRev}
	if err := h.sync(t.Context(), server, false); err != nil {
		t.Fatal(err)
	}
	if again := [2]int64{server.marks().CurrentRev, h.marks().CurrentRev}; again != revs {
		t.Errorf("a second session changed %v to %v", revs, again)
	}
}

func TestC038ChildBeforeItsDirectory(t *testing.T) {
	e := newEnd(t)
	e.keep("x")
	stream := []tree.Entry{fileEntry(4, "/w/new/f", 0o644, "x"), linkEntry(5, "/w/new/l", "f"), dirEntry(8, "/w/new", 0o700), dirEntry(9, "/w", 0o711)}
	e.mustPush(9, stream...)
	want := map[string]string{
		"/": "dir 755", "/w": "dir 711", "/w/new": "dir 700", "/w/new/l": "link f",
		"/w/new/f": describe(tree.KindFile, 0o644, tree.ManifestOf(stream[0].Parts), ""),
	}
	if diff := cmp.Diff(want, e.all()); diff != "" {
		t.Error(diff)
	}
	was := e.marks()
	if was.Fetch != tree.At(9) {
		t.Error(was)
	}
	e.mustPush(9, stream...)
	if e.marks() != was {
		t.Errorf("again: %+v, want %+v", e.marks(), was)
	}
	for name, order := range map[string][]tree.Entry{
		"the directory first": {gone(12, "/w/new"), gone(12, "/w/new/f"), gone(12, "/w/new/l")},
		"the directory last":  {gone(12, "/w/new/f"), gone(12, "/w/new/l"), gone(12, "/w/new")},
	} {
		e := newEnd(t)
		e.keep("x")
		e.mustPush(9, stream...)
		e.mustPush(12, order...)
		if e.paths() != "/w" || e.marks().Fetch != tree.At(12) {
			t.Errorf("%s: %s, %+v", name, e.paths(), e.marks())
		}
	}
}

func TestC039KindsChange(t *testing.T) {
	server, h := pair(t)
	h.do("write /t 1\nwrite /d/1 a\nwrite /d/2 b\nwrite /d/3/4 c\nwrite /x 2\nwrite /y 3\nwrite /e/in 4\nwrite /r/in 5\nwrite /p 6\nwrite /q 7")
	for i := range 1000 {
		h.do(fmt.Sprintf("write /many/%d/%d text%d", i%10, i, i))
	}
	same(t, server, h)
	h.do(`rm /t
		write /t/t 1
		rm /d
		write /d file
		rm /x
		link /x y
		rm /r
		link /r e
		mv /p /tmp
		mv /q /p
		mv /tmp /q
		mv /many /moved`)
	counted := &counter{Server: server.Server}
	if err := h.sync(t.Context(), counted, false); err != nil {
		t.Fatal(err)
	}
	if counted.objects != 1 { // "file": the others were known
		t.Errorf("%d objects were sent", counted.objects)
	}
	same(t, server, h)
	if server.text("/p") != "7" || server.text("/q") != "6" || server.text("/moved/3/13") != "text13" || server.text("/e/in") != "4" {
		t.Error("wrong content")
	}
	if list := server.all(); list["/e/in"] == "" || list["/e/t"] != "" || list["/r"] != "link e" {
		t.Error("something was written through a link")
	}
}

// What a peer calls a directory is one, and nothing is written through a link that has
// come to be there: not even when the directory's own entry comes in a later push.
func TestC039NothingThroughALink(t *testing.T) {
	server, h := pair(t)
	h.do("write /e/in 1\nwrite /d/x 2")
	same(t, server, h)
	server.do("rm /d\nlink /d e")
	h.do("write /d/y 3\nchmod /d 700") // the entry of /d comes last
	h.block = 1
	if err := h.sync(t.Context(), server, false); err != nil {
		t.Fatal(err)
	}
	same(t, server, h)
	if got := server.paths(); got != "/d /d/y /e /e/in" {
		t.Error(got)
	}
}

// counter counts what is sent to a server.
type counter struct {
	*changes.Server
	objects, bytes int
}

func (c *counter) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	return c.Server.PushObjects(ctx, changes.Map(objects, func(d tree.Data) (tree.Data, error) {
		c.objects++
		c.bytes += len(d.Bytes)
		return d, nil
	}))
}

func TestC040Modes(t *testing.T) {
	for _, toServer := range []bool{true, false} {
		server, h := pair(t)
		from := server
		if toServer {
			from = h.end
		}
		for _, mode := range []string{"755", "644", "600", "444", "0"} {
			from.do("write /" + mode + " x\nchmod /" + mode + " " + mode)
		}
		from.do("write /fresh x\nchmod /fresh 700\nwrite /fresh y\nmkdir /d\nchmod /d 710\nwrite /over x\nwrite /under y\nchmod /under 755")
		same(t, server, h)
		from.do("chmod /644 755\nchmod /755 640\nwrite /755 z\nmv /under /over\nchmod /d 700\nchmod /600 4755")
		same(t, server, h)
		for path, want := range map[string]string{"/644": "755", "/755": "640", "/600": "4755", "/444": "444", "/0": "0", "/over": "755", "/fresh": "700", "/d": "700"} {
			if got := strings.Fields(server.all()[path])[1]; got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
	}
	// A link has the one mode, and bits that are no permissions are cut off.
	e := newEnd(t)
	l := linkEntry(2, "/l", "t")
	l.Mode = 0o600
	e.keep("x")
	e.mustPush(3, l, fileEntry(3, "/f", 0o100644, "x"))
	if got := e.since(tree.At(1)); got[0].Mode != 0o777 || got[1].Mode != 0o644 {
		t.Errorf("%o, %o", got[0].Mode, got[1].Mode)
	}
}

func TestC041IgnoredNames(t *testing.T) {
	e := newEnd(t)
	e.do("write /.cache/a 1\nwrite /x/.cache/b 1\nwrite /.cached/c 1\nwrite /my.cache 1\nwrite /build/d 1\nwrite /rebuild/e 1\nwrite /Build/f 1\nwrite /y/build 1\nlink /lnk build")
	visible := func(ignore ...string) string {
		var out []string
		for _, entry := range e.since(tree.Cursor{}, ignore...) {
			if entry.Kind != tree.KindDir {
				out = append(out, entry.Path)
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	if got, want := visible(".cache", "build"), "/.cached/c /Build/f /lnk /my.cache /rebuild/e"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A list affects nothing but the stream: not what can be read, nor what is taken.
	if got, err := e.ReadEntry(t.Context(), "/build/d"); err != nil || got == nil || got.Kind != tree.KindFile {
		t.Error(got, err)
	}
	e.keep("p")
	e.mustPush(2, fileEntry(2, "/build/p", 0o644, "p"))
	if e.text("/build/p") != "p" {
		t.Error("a push did not get through")
	}

	// Beginning to ignore sends no deletes, and an end to it no conflict.
	h := newEnd(t)
	pull := func(after tree.Cursor, ignore ...string) tree.Cursor {
		t.Helper()
		f, err := e.FetchChanges(t.Context(), changes.FetchQuery{After: after, Ignore: ignore})
		if err != nil {
			t.Fatal(err)
		}
		list, err := changes.Collect(t.Context(), f.Entries)
		if err != nil {
			t.Fatal(err)
		}
		if err := move(t.Context(), e.Server, h.Server, list); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Push(t.Context(), changes.PushInput{SenderRev: f.Current.Rev}, changes.FromSlice(list)); err != nil {
			t.Fatal(err)
		}
		return f.Current
	}
	at := pull(tree.Cursor{}, []string{}...)
	if !maps.Equal(e.all(), h.all()) {
		t.Fatal(cmp.Diff(e.all(), h.all()))
	}
	e.do("write /x/new 2\nwrite /seen 2")
	at = pull(at, "x")
	if got := h.paths(); !strings.Contains(got, "/x/.cache/b") || strings.Contains(got, "/x/new") || !strings.Contains(got, "/seen") {
		t.Error(got)
	}
	if got := e.since(at); len(got) != 0 { // the cursor has moved past what is hidden
		t.Error(brief(got))
	}
	pull(tree.Cursor{}, []string{}...)
	if !maps.Equal(e.all(), h.all()) {
		t.Error(cmp.Diff(e.all(), h.all()))
	}
}

func TestIgnoreDefault(t *testing.T) {
	for name, tt := range map[string]struct {
		config, call []string
		want         string
	}{
		"of the server":       {nil, nil, "file /a, dir /node_modules_old, file /node_modules_old/y"},
		"none in the call":    {nil, []string{}, "file /a, dir /node_modules, file /node_modules/x, dir /node_modules_old, file /node_modules_old/y"},
		"of the call":         {nil, []string{"a"}, "dir /node_modules, file /node_modules/x, dir /node_modules_old, file /node_modules_old/y"},
		"of the config":       {[]string{"node_modules_old"}, nil, "file /a, dir /node_modules, file /node_modules/x"},
		"none in the config":  {[]string{}, nil, "file /a, dir /node_modules, file /node_modules/x, dir /node_modules_old, file /node_modules_old/y"},
		"a pattern is a name": {nil, []string{"node*", "/a", ""}, "file /a, dir /node_modules, file /node_modules/x, dir /node_modules_old, file /node_modules_old/y"},
	} {
		e := endOn(t, tree.NewMemory(), changes.Config{DefaultIgnore: tt.config})
		e.do("write /a 1\nwrite /node_modules/x 2\nwrite /node_modules_old/y 3")
		f, err := e.FetchChanges(t.Context(), changes.FetchQuery{Ignore: tt.call})
		if err != nil {
			t.Fatal(err)
		}
		list, err := changes.Collect(t.Context(), f.Entries)
		if err != nil || brief(list) != tt.want {
			t.Errorf("%s: %s, %v", name, brief(list), err)
		}
	}
}

func TestC042DeletedStaysDeleted(t *testing.T) {
	server, h := pair(t)
	server.do("write /f 1\nwrite /d/x 2\nwrite /d/y/z 3\nwrite /keep 4")
	same(t, server, h)

	// (a) Deletes reach a peer that was away, by its old cursor and from the beginning.
	cold := &host{end: newEnd(t), style: newStyle, block: 1000}
	copyAll(t, h.end, cold.end)
	server.do("rm /f\nrm /d")
	same(t, server, h)
	if h.paths() != "/keep" {
		t.Error(h.paths())
	}
	if err := cold.pull(t.Context(), server); err != nil || cold.paths() != "/keep" {
		t.Error(cold.paths(), err)
	}

	// (b) Deleted and made again between two pulls.
	server.do("write /f 1")
	same(t, server, h)
	server.do("rm /f\nwrite /f 2")
	if got := brief(server.since(tree.At(server.marks().CurrentRev - 2))); got != "file /f" {
		t.Error(got)
	}
	same(t, server, h)
	if h.text("/f") != "2" {
		t.Error(h.text("/f"))
	}

	// (c) One side edits what the other deletes: who is applied last stays. Here, where
	// the host pushes first, that is what it did; the outcome is the same on both sides.
	server.do("rm /f")
	h.do("write /f 3")
	same(t, server, h)
	if server.text("/f") != "3" {
		t.Error(server.text("/f"))
	}
	h.do("rm /f")
	server.do("write /f 4")
	same(t, server, h)
	if server.paths() != "/keep" {
		t.Error(server.paths())
	}
}

// copyAll makes one tree what another is, with no word to anybody.
func copyAll(t *testing.T, from, to *end) {
	t.Helper()
	list := from.since(tree.Cursor{})
	if err := move(t.Context(), from.Server, to.Server, list); err != nil {
		t.Fatal(err)
	}
	to.mustPush(0, list...)
}

// (d) of C-042 is TestPushAllOrNothing.

// A push whose answer got lost is sent again. What was made in between, where it had
// deleted something, stays; and what it had deleted stays gone.
func TestC042ReplayedDeletes(t *testing.T) {
	server, h := pair(t)
	h.do("write /f 1\nwrite /d/x 2\nwrite /d/y/z 3\nlink /l f\nwrite /again 5\nwrite /e/f/g 6")
	same(t, server, h)
	before, err := h.peer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.do("rm /f\nrm /d\nrm /l\nrm /again\nrm /e")
	lost := &line{to: server, left: 2, late: true} // watermarks and push, whose answer is lost
	if err := h.sync(t.Context(), lost, false); err == nil {
		t.Fatal("the line was not cut")
	}
	if p, err := h.peer(t.Context()); err != nil || p.Push != before.Push || server.paths() != "" {
		t.Fatal(p, err, server.paths())
	}
	server.do("write /f new\nwrite /d/x 2\nwrite /d/new 4\nlink /l other\nmkdir /e/f")
	same(t, server, h)
	// /d/x and the directories of /e are again exactly what was deleted: that stays so.
	if got := h.paths(); got != "/d /d/new /f /l" {
		t.Error(got)
	}

	// From a peer that does not say what it has deleted, a delete is one.
	server.mustPush(h.marks().CurrentRev, gone(2, "/f"))
	if got := server.paths(); got != "/d /d/new /l" {
		t.Error(got)
	}
}

// A directory that holds tombs becomes a file and a directory again. A peer that looks now and then
// has the same as the server after each look, whatever kind of peer made the changes.
func TestL9TombsBelowAFile(t *testing.T) {
	steps := []struct {
		name    string
		entries []tree.Entry
		want    string
	}{
		{"a directory", []tree.Entry{fileEntry(1, "/p/a", 0o644, "x"), fileEntry(2, "/p/b/c", 0o644, "x"), fileEntry(3, "/q", 0o644, "x")}, "/p /p/a /p/b /p/b/c /q"},
		{"a tomb in it", []tree.Entry{gone(4, "/p/a")}, "/p /p/b /p/b/c /q"},
		{"a file", []tree.Entry{fileEntry(5, "/p", 0o644, "x")}, "/p /q"},
		{"deletes below it", []tree.Entry{gone(6, "/p/a"), gone(6, "/p/b"), gone(6, "/p/b/c"), gone(6, "/p/never/was")}, "/p /q"},
		{"a delete below it, and others", []tree.Entry{gone(7, "/p/b/c"), fileEntry(8, "/r", 0o644, "x")}, "/p /q /r"},
		{"a directory again", []tree.Entry{dirEntry(9, "/p", 0o755)}, "/p /q /r"},
		{"with a file where one was", []tree.Entry{fileEntry(10, "/p/a", 0o644, "x")}, "/p /p/a /q /r"},
		{"a link", []tree.Entry{linkEntry(11, "/p", "q")}, "/p /q /r"},
		{"a delete below that", []tree.Entry{gone(12, "/p/a")}, "/p /q /r"},
		{"a directory with other names", []tree.Entry{gone(13, "/p"), fileEntry(14, "/p/b", 0o644, "x")}, "/p /p/b /q /r"},
		{"renamed", []tree.Entry{gone(15, "/p"), gone(15, "/p/b"), fileEntry(15, "/s/b", 0o644, "x")}, "/q /r /s /s/b"},
		{"a file in its place", []tree.Entry{fileEntry(16, "/p", 0o644, "x"), gone(17, "/p/b")}, "/p /q /r /s /s/b"},
	}
	for name, store := range map[string]func() tree.Store{
		"memory": func() tree.Store { return tree.NewMemory() }, "sqlite": func() tree.Store { return database(t).Tree() },
	} {
		t.Run(name, func(t *testing.T) {
			server := endOn(t, store(), changes.Config{})
			server.keep("x")
			var readers []*end
			at := make([]tree.Cursor, len(steps))
			for range steps {
				readers = append(readers, newEnd(t))
			}
			for i, s := range steps {
				server.mustPush(s.entries[len(s.entries)-1].Rev, s.entries...)
				if got := server.paths(); got != s.want {
					t.Fatalf("%s: the server has %s, want %s", s.name, got, s.want)
				}
				for n, r := range readers { // the first looks each time, the second every other time, and so on
					if i%(n+1) != 0 && i < len(steps)-1 {
						continue
					}
					list := server.since(at[n])
					at[n] = tree.At(server.marks().CurrentRev)
					r.keep("x")
					r.mustPush(at[n].Rev, list...)
					if got := r.paths(); got != s.want {
						t.Errorf("%s: reader %d has %s, want %s; it read\n%s", s.name, n, got, s.want, brief(list))
					}
				}
			}
		})
	}
}
