package computerwire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

const (
	alphaHash = `["bytes","jtP2rWhblZ6tcCJRjhr3bNgW+OjsfM3aHtQBjo8iI/g"]`
	fileText  = `{"kind":"file","rev":9,"path":"/a","mode":420,"mtime":1795814700200,"size":5,"chunks":[[{"hash":` + alphaHash + `,"size":5}]]}`
)

// decode reads an entry as it comes.
func decode(t testing.TB, text string) (tree.Entry, error) {
	t.Helper()
	var e Entry
	if err := capnweb.Unmarshal([]byte(text), &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e.Tree()
}

func TestEntryRoundTrip(t *testing.T) {
	mtime := time.UnixMilli(1795814700200)
	for text, want := range map[string]tree.Entry{
		fileText: {Kind: tree.KindFile, Rev: 9, Path: "/a", Mode: 0o644, MTime: mtime, Size: 5, Parts: []tree.Part{{Hash: tree.Sum([]byte("alpha")), Size: 5}}},
		`{"kind":"dir","rev":7,"path":"/workspace/src","mode":493,"mtime":1795814700200}`:          {Kind: tree.KindDir, Rev: 7, Path: "/workspace/src", Mode: 0o755, MTime: mtime},
		`{"kind":"file","rev":10,"path":"/e","mode":420,"mtime":-1,"size":0,"chunks":[[]]}`:        {Kind: tree.KindFile, Rev: 10, Path: "/e", Mode: 0o644, MTime: time.UnixMilli(-1)},
		`{"kind":"symlink","rev":11,"path":"/l","target":"../ü","mode":511,"mtime":1795814700200}`: {Kind: tree.KindSymlink, Rev: 11, Path: "/l", Target: "../ü", Mode: 0o777, MTime: mtime},
		`{"kind":"delete","rev":9007199254740991,"path":"/old"}`:                                   {Kind: tree.KindDelete, Rev: tree.MaxRev, Path: "/old"},
		`{"kind":"delete","rev":12,"path":"/old","prior":"` + strings.Repeat("0a", 32) + `"}`:      {Kind: tree.KindDelete, Rev: 12, Path: "/old", Prior: strings.Repeat("0a", 32)},
	} {
		got, err := decode(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		form, err := EntryOf(want)
		if err != nil {
			t.Fatal(err)
		}
		back, err := capnweb.Marshal(form)
		if err != nil || string(back) != text {
			t.Errorf("%s, %v; want %s", back, err, text)
		}
	}
}

// What some peers send all the same.
func TestLenientEntries(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		ok   func(tree.Entry) bool
	}{
		"a time with a fraction": {
			strings.Replace(fileText, "1795814700200", "1795814700200.75", 1),
			func(e tree.Entry) bool { return e.MTime.Equal(time.UnixMilli(1795814700200)) },
		},
		"a mode with the type of the file": {
			strings.Replace(fileText, "420", "33188", 1), func(e tree.Entry) bool { return e.Mode == 0o644 },
		},
		"members of another time": {
			strings.Replace(fileText, "{", `{"ino":5,"target":["undefined"],`, 1), func(e tree.Entry) bool { return e.Target == "" },
		},
		"no prior": {
			`{"kind":"delete","rev":1,"path":"/a","prior":["undefined"],"mode":null}`, func(e tree.Entry) bool { return e.Prior == "" },
		},
	} {
		if e, err := decode(t, c.text); err != nil || !c.ok(e) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func TestBadEntries(t *testing.T) {
	change := func(old, with string) string {
		if !strings.Contains(fileText, old) {
			t.Fatalf("no %s", old)
		}
		return strings.Replace(fileText, old, with, 1)
	}
	for name, text := range map[string]string{
		"no object":               `5`,
		"null":                    `null`,
		"a list":                  `[[]]`,
		"no kind":                 change(`"kind":"file",`, ``),
		"a kind that is none":     change(`"file"`, `"pipe"`),
		"a number for a kind":     change(`"file"`, `1`),
		"no path":                 change(`"path":"/a",`, ``),
		"a relative path":         change(`"/a"`, `"a"`),
		"a path that escapes":     change(`"/a"`, `"/../a"`),
		"a path with NUL":         change(`"/a"`, `"/a\u0000"`),
		"a long path":             change(`"/a"`, `"/`+strings.Repeat("a/", 3000)+`a"`),
		"no rev":                  change(`"rev":9,`, ``),
		"half a rev":              change(`"rev":9`, `"rev":9.5`),
		"a negative rev":          change(`"rev":9`, `"rev":-9`),
		"a great rev":             change(`"rev":9`, `"rev":1e300`),
		"a rev that is text":      change(`"rev":9`, `"rev":"9"`),
		"no mode":                 change(`"mode":420,`, ``),
		"no time":                 change(`"mtime":1795814700200,`, ``),
		"a time that is none":     change(`1795814700200`, `["nan"]`),
		"a time without end":      change(`1795814700200`, `["inf"]`),
		"no size":                 change(`"size":5,"chunks"`, `"chunks"`),
		"another size":            change(`"size":5,"chunks"`, `"size":6,"chunks"`),
		"no chunks":               change(`"chunks":`, `"chunk":`),
		"chunks that are none":    change(`[[{`, `[["x",{`),
		"a short hash":            change(alphaHash, `["bytes","AAAA"]`),
		"a hash that is text":     change(alphaHash, `"jtP2"`),
		"a link to nothing":       `{"kind":"symlink","rev":1,"path":"/a","mode":1,"mtime":1}`,
		"a link to an empty text": `{"kind":"symlink","rev":1,"path":"/a","mode":1,"mtime":1,"target":""}`,
		"a prior that is none":    `{"kind":"delete","rev":1,"path":"/a","prior":"x"}`,
		"a prior that is number":  `{"kind":"delete","rev":1,"path":"/a","prior":5}`,
	} {
		if e, err := decode(t, text); changes.Code(err) != "EINVAL" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// Whatever comes, an entry that is taken is one that can be sent, and says the same then.
func FuzzEntry(f *testing.F) {
	f.Add(fileText)
	f.Add(`{"kind":"dir","rev":7,"path":"/workspace/src","mode":493,"mtime":1795814700123}`)
	f.Add(`{"kind":"symlink","rev":11,"path":"/workspace/l","target":"src/a.txt","mode":511,"mtime":-1.5}`)
	f.Add(`{"kind":"delete","rev":12,"path":"/workspace/old","prior":["undefined"]}`)
	f.Add(`{"kind":"file","rev":1,"path":"/a","mode":1e3,"mtime":0,"size":0,"chunks":[[]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e Entry
		if capnweb.Unmarshal([]byte(text), &e) != nil {
			return
		}
		first, err := e.Tree()
		if err != nil {
			if changes.Code(err) != "EINVAL" {
				t.Fatalf("%v has the code %q", err, changes.Code(err))
			}
			return
		}
		form, _ := EntryOf(first) // never fails
		sent, err := capnweb.Marshal(form)
		if err != nil {
			t.Fatalf("%+v cannot be sent: %v", first, err)
		}
		again, err := decode(t, string(sent))
		if err != nil {
			t.Fatalf("%s is not taken: %v", sent, err)
		}
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestCursors(t *testing.T) {
	for text, want := range map[string]tree.Cursor{
		`{"rev":0,"path":null}`: {}, `{"rev":5,"path":null}`: tree.At(5), `{"rev":5,"path":""}`: tree.AtPath(5, ""), `{"rev":5,"path":"/a"}`: tree.AtPath(5, "/a"),
	} {
		if got, err := readCursor(text); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
		if back, err := capnweb.Marshal(changes.CursorToWire(want)); err != nil || string(back) != text {
			t.Errorf("%v is %s, %v", want, back, err)
		}
	}
	if got, err := readCursor(`{"rev":5,"path":["undefined"]}`); err != nil || got != tree.At(5) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{`{"rev":-1,"path":null}`, `{"rev":5,"path":"` + strings.Repeat("x", tree.MaxPath+1) + `"}`} {
		if got, err := readCursor(text); changes.Code(err) != "EINVAL" {
			t.Errorf("%.40s is %v, %v", text, got, err)
		}
	}
}

func readCursor(text string) (tree.Cursor, error) {
	var form protocol.Cursor
	if err := capnweb.Unmarshal([]byte(text), &form); err != nil {
		return tree.Cursor{}, err
	}
	return changes.CursorFromWire(form)
}
