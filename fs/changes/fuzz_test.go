package changes_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// FuzzEntry decodes an entry as it comes in a pack. What is accepted can be written, is
// then read as the same, and can be applied to a tree.
func FuzzEntry(f *testing.F) {
	for _, e := range []tree.Entry{
		fileEntry(1, "/a", 0o644, "alpha"), fileEntry(1, "/a", 0o644, ""), dirEntry(2, "/", 0o7777), linkEntry(3, "/\U0001F600/\uFF5E", "../x"), gone(4, "/a/b"),
	} {
		b, err := json.Marshal(changes.EntryToWire(&e))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Add(`{"kind":"file","rev":1,"path":"/a","mode":420,"mtime":-1.5,"size":0,"chunks":[],"target":null}`)
	e := newEnd(f)
	e.keep("alpha")
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		var w protocol.ChangeEntry
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			return
		}
		got, err := changes.EntryFromWire(&w)
		if err != nil {
			if changes.Code(err) != "EINVAL" {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		out, err := wire.Append(nil, changes.EntryToWire(&got))
		if err != nil {
			t.Fatal(err)
		}
		var again protocol.ChangeEntry
		if err := wire.Unmarshal(out, &again); err != nil {
			t.Fatalf("%s became %s: %v", text, out, err)
		}
		if back, err := changes.EntryFromWire(&again); err != nil || !cmp.Equal(got, back) {
			t.Fatalf("%s became %s: %v", text, out, err)
		}
		if _, err := e.push(0, got); err != nil {
			switch changes.Code(err) {
			case "EUNKNOWN_HASH", "EPERM", "EINVAL":
			default:
				t.Fatalf("%s: %v", text, err)
			}
		}
	})
}

// FuzzCursor decodes cursors, which order totally and are read as they are written.
func FuzzCursor(f *testing.F) {
	f.Add(`{"rev":1,"path":null}`, `{"rev":1,"path":""}`)
	f.Add("{\"rev\":5,\"path\":\"/\U0001F600\"}", "{\"rev\":5,\"path\":\"/\uFF5E\"}")
	f.Add(`{"rev":9007199254740991}`, `{"rev":-1}`)
	f.Fuzz(func(t *testing.T, x, y string) {
		a, ok := decodeCursor(t, x)
		if !ok {
			return
		}
		b, ok := decodeCursor(t, y)
		if !ok {
			return
		}
		if a.Compare(a) != 0 || a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%v and %v", a, b)
		}
	})
}

func decodeCursor(t *testing.T, text string) (tree.Cursor, bool) {
	var w protocol.Cursor
	if json.Unmarshal([]byte(text), &w) != nil {
		return tree.Cursor{}, false
	}
	c, err := changes.CursorFromWire(w)
	if err != nil {
		if changes.Code(err) != "EINVAL" {
			t.Fatalf("%s: %v", text, err)
		}
		return c, false
	}
	out, err := json.Marshal(changes.CursorToWire(c))
	if err != nil {
		t.Fatal(err)
	}
	var again protocol.Cursor
	if err := json.Unmarshal(out, &again); err != nil {
		t.Fatal(err)
	}
	if back, err := changes.CursorFromWire(again); err != nil || back != c {
		t.Fatalf("%s became %s and %v, %v", text, out, back, err)
	}
	return c, true
}
