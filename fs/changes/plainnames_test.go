package changes_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

// The forms of caf\xe9, \xe9, \xff and of the real name U+10FEE9.
const (
	rawName  = "caf\U0010FEE9"
	rawDir   = "\U0010FEE9"
	rawOther = "\U0010FEFF"
	private  = "\U0010FEF4\U0010FE8F\U0010FEBB\U0010FEA9"
)

const realName = "\U0010FEE9"

// plain lists what a peer of PlainNames fetches behind a cursor.
func (e *end) plain(after tree.Cursor) []tree.Entry {
	e.Helper()
	f, err := e.PlainNames().FetchChanges(e.Context(), changes.FetchQuery{After: after, Ignore: []string{}})
	if err != nil {
		e.Fatal(err)
	}
	list, err := changes.Collect(e.Context(), f.Entries)
	if err != nil {
		e.Fatal(err)
	}
	return list
}

// F3: a peer that does not know names that are not UTF-8 sees none, and one that is UTF-8 as it is.
func TestF3HiddenFromPlainPeers(t *testing.T) {
	e := newEnd(t)
	e.do("write /" + rawName + " a\nwrite /" + rawDir + "/x b\nwrite /" + private + "/y c\nlink /l " + rawOther + "\nlink /m " + private + "\nwrite /z d")
	want := "file /" + realName + "/y, symlink /m, file /z"
	all := e.plain(tree.Cursor{})
	var got []string
	for i := range all {
		if all[i].Kind != tree.KindDir && all[i].Path != "/l" {
			got = append(got, all[i].Kind.String()+" "+all[i].Path)
		}
	}
	if strings.Join(got, ", ") != want {
		t.Errorf("it sees %q, want %q", got, want)
	}
	for i := range all {
		switch x := &all[i]; x.Path {
		case "/l":
			if x.Kind != tree.KindDelete || x.Target != "" {
				t.Errorf("a link to what is not UTF-8 is %+v", x)
			}
		case "/m":
			if x.Target != realName {
				t.Errorf("the target is %q", x.Target)
			}
		}
		// Behind each entry come those after it.
		if rest := e.plain(changes.After(&all[i])); brief(rest) != brief(all[i+1:]) {
			t.Errorf("behind %q: %s", all[i].Path, brief(rest))
		}
	}
	for path, there := range map[string]bool{"/" + realName + "/y": true, "/" + rawName: false, "/" + private: false, "/l": false, "/m": true, "/z": true} {
		x, err := e.PlainNames().ReadEntry(t.Context(), path)
		if err != nil || (x != nil && x.Kind != tree.KindDelete) != there || x != nil && x.Path != path {
			t.Errorf("%q is %+v, %v", path, x, err)
		}
	}
	p, err := e.PlainNames().FetchChangePack(t.Context(), changes.PackQuery{FetchQuery: changes.FetchQuery{Ignore: []string{}}, MaxEntries: 100, MaxBytes: 1 << 20})
	if err != nil || p.Entries != len(all) {
		t.Errorf("a pack has %+v, %v", p, err)
	}
	p.Pieces.Close(nil)
	if w, err := e.PlainNames().Watermarks(t.Context(), false); err != nil || w.AnyNames {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := e.Watermarks(t.Context(), false); err != nil || !w.AnyNames {
		t.Errorf("%+v, %v", w, err)
	}
	if list := e.since(tree.Cursor{}); !strings.Contains(brief(list), "file /"+rawName) || !strings.Contains(brief(list), "symlink /l") {
		t.Errorf("others see %s", brief(list))
	}
}

// F3: what a peer does not know it does not remove, nor overwrite in silence.
func TestF3PlainPeersSpareWhatTheyDoNotSee(t *testing.T) {
	for name, tt := range map[string]struct {
		before string
		entry  tree.Entry
		kept   []changes.Kept
		paths  string
		lost   int
	}{
		"removed": {
			"write /d/code a\nwrite /d/" + rawName + " b", gone(5, "/d"),
			[]changes.Kept{{Path: "/d", Names: []string{`/d/caf\xe9`}}},
			"/d /d/" + rawName, 0,
		},
		"a link in it": {
			"write /d/code a\nlink /d/l " + rawName, gone(5, "/d"),
			[]changes.Kept{{Path: "/d", Names: []string{"/d/l"}}},
			"/d /d/l", 0,
		},
		"a real name":  {"write /d/code a\nwrite /d/" + private + " b", gone(5, "/d"), nil, "", 0},
		"the link":     {"link /l " + rawName, gone(5, "/l"), []changes.Kept{{Path: "/l", Names: []string{"/l"}}}, "/l", 0},
		"overwritten":  {"link /l " + rawName, dirEntry(5, "/l", 0o755), nil, "/l", 1},
		"another kind": {"write /d/" + rawName + " b", linkEntry(5, "/d", "to"), []changes.Kept{{Path: "/d", Names: []string{`/d/caf\xe9`}}}, "/d /d.conflict-# /d.conflict-#/" + rawName, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, base := range []*tree.Cursor{nil, {Rev: 1 << 40}} {
				e := newEnd(t)
				e.do(tt.before)
				got, err := e.PlainNames().Push(t.Context(), changes.PushInput{SenderRev: 6, Base: base}, changes.FromSlice([]tree.Entry{tt.entry}))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.kept, got.Kept); diff != "" {
					t.Errorf("kept (-want +got):\n%s", diff)
				}
				if paths := conflictMark.ReplaceAllString(e.paths(), ".conflict-#"); paths != tt.paths {
					t.Errorf("paths %q, want %q", paths, tt.paths)
				}
				kept, _, err := e.Lost(t.Context(), 0, 0)
				if err != nil || len(kept) != tt.lost {
					t.Errorf("lost versions: %+v, %v", kept, err)
				}
				if shown, _, err := e.PlainNames().Lost(t.Context(), 0, 0); err != nil || len(shown) != 0 {
					t.Errorf("it is told of %+v, %v", shown, err)
				}
			}
		})
	}
}

// F3: a path of a peer that does not know such names is what it is, and that of one that does has
// one form.
func TestF3PathsOfPeers(t *testing.T) {
	const noForm = "/\U0010FEC3\U0010FEA9"
	e := newEnd(t)
	e.do("write /é mine")
	for _, entry := range []tree.Entry{dirEntry(3, noForm, 0o755), gone(3, noForm), linkEntry(3, "/l", noForm)} {
		if _, err := e.push(3, entry); changes.Code(err) != "EINVAL" {
			t.Errorf("%+v: %v", entry, err)
		}
	}
	if x, err := e.ReadEntry(t.Context(), noForm); changes.Code(err) != "EINVAL" {
		t.Errorf("%+v, %v", x, err)
	}
	if got := e.paths(); got != "/é" {
		t.Errorf("the tree has %q", got)
	}
	in := changes.PushInput{SenderRev: 4, Ignore: []string{realName}}
	if _, err := e.PlainNames().Push(t.Context(), in, changes.FromSlice([]tree.Entry{dirEntry(4, noForm, 0o755), linkEntry(4, "/l", realName)})); err != nil {
		t.Fatal(err)
	}
	sent := e.plain(tree.Cursor{})
	if got := brief(sent); got != "file /é, dir "+noForm+", symlink /l" || sent[2].Target != realName {
		t.Errorf("it has %s, %+v", got, sent)
	}
	if x, err := e.ReadEntry(t.Context(), "/l"); err != nil || x.Target != private {
		t.Errorf("%+v, %v", x, err)
	}
	// Paths that it ignores stay.
	e.do("write /d/" + private + "/x a")
	if got, err := e.PlainNames().Push(t.Context(), in, changes.FromSlice([]tree.Entry{gone(4, "/d")})); err != nil || len(got.Kept) != 1 || got.Kept[0].Names[0] != "/d/"+realName {
		t.Errorf("%+v, %v", got, err)
	}
}

// F3: over JSON-RPC a call says which of both its sender is.
func TestF3AnyNamesOverTheWire(t *testing.T) {
	e := newEnd(t)
	e.do("write /" + rawName + " a\nwrite /b b")
	c := talk(t, e.Server)
	for asked, want := range map[string]string{`,"anyNames":true`: `"anyNames":true`, "": ""} {
		c.Say(`{"id":1,"method":"sync/watermarks","params":{"settle":true` + asked + `}}`)
		if got := c.Hear(); strings.Contains(got, "anyNames") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%q: %s", asked, got)
		}
		c.Say(`{"id":2,"method":"sync/readEntry","params":{"path":"/` + rawName + `"` + asked + `}}`)
		if got := c.Hear(); strings.Contains(got, `"kind":"file"`) != (want != "") {
			t.Errorf("%q: %s", asked, got)
		}
	}
}
