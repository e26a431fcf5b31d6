package changes_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/tree"
)

var conflictMark = regexp.MustCompile(`\.conflict-[0-9a-f]{8}`)

// C-055, F2: a push removes nothing that its sender ignores, and names what stays.
func TestC055PushSparesWhatIsIgnored(t *testing.T) {
	for name, tt := range map[string]struct {
		before string
		entry  tree.Entry
		kept   []changes.Kept
		paths  string
	}{
		"removed": {
			"write /d/code a\nwrite /d/.env b\nwrite /d/e/.env b\nwrite /d/f/code a", gone(5, "/d"),
			[]changes.Kept{{Path: "/d", Names: []string{"/d/.env", "/d/e/.env"}}},
			"/d /d/.env /d/e /d/e/.env",
		},
		"a whole directory": {
			"write /d/code a\nwrite /d/node_modules/x/y b", gone(5, "/d"),
			[]changes.Kept{{Path: "/d", Names: []string{"/d/node_modules"}}},
			"/d /d/node_modules /d/node_modules/x /d/node_modules/x/y",
		},
		"nothing ignored": {"write /d/code a\nwrite /.env b", gone(5, "/d"), nil, "/.env"},
		"a file":          {"write /f a\nwrite /.env b", gone(5, "/f"), nil, "/.env"},
		"another kind": {
			"write /d/code a\nwrite /d/.env b\nwrite /d/e/.env b", linkEntry(5, "/d", "to"),
			[]changes.Kept{{Path: "/d", Names: []string{"/d/.env", "/d/e/.env"}}},
			"/d /d.conflict-# /d.conflict-#/.env /d.conflict-#/e /d.conflict-#/e/.env",
		},
		"itself": {"write /.env/x a", gone(5, "/.env"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.do(tt.before)
			in := changes.PushInput{SenderRev: 6, Ignore: []string{".env", "node_modules"}}
			got, err := e.Push(t.Context(), in, changes.FromSlice([]tree.Entry{tt.entry}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.kept, got.Kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if paths := conflictMark.ReplaceAllString(e.paths(), ".conflict-#"); paths != tt.paths {
				t.Errorf("paths %q, want %q", paths, tt.paths)
			}
		})
	}
}

// What is ignored goes with its directory when that is renamed, unless something at the new place
// leaves it no room: nothing is looked for, or written, through a link there.
func TestRenameTakesWhatIsIgnoredAlong(t *testing.T) {
	const stays = "/d /d/sub /d/sub/.env "
	for name, tt := range map[string]struct{ before, paths string }{
		"nothing":                   {"", "/e /e/code /e/sub /e/sub/.env"},
		"a directory":               {"write /e/sub/x f", "/e /e/code /e/sub /e/sub/.env /e/sub/x"},
		"it":                        {"write /e/sub/.env f", stays + "/e /e/code /e/sub /e/sub/.env"},
		"a file":                    {"write /e/sub f", stays + "/e /e/code /e/sub"},
		"a link to a directory":     {"link /e/sub ../x\nmkdir /x", stays + "/e /e/code /e/sub /x"},
		"a link to another":         {"link /e/sub ../x\nwrite /x/.env f", stays + "/e /e/code /e/sub /x /x/.env"},
		"a link that leads nowhere": {"link /e/sub nowhere", stays + "/e /e/code /e/sub"},
		"a link in a circle":        {"link /e/sub sub", stays + "/e /e/code /e/sub"},
		"what was there once":       {"write /e/sub/.env f\nrm /e", "/e /e/code /e/sub /e/sub/.env"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.do("write /d/code a\nwrite /d/sub/.env b\n" + tt.before)
			e.keep("a")
			in := changes.PushInput{SenderRev: 6, Ignore: []string{".env"}}
			_, err := e.Push(t.Context(), in, changes.FromSlice([]tree.Entry{
				gone(5, "/d"), gone(5, "/d/code"), gone(5, "/d/sub"), dirEntry(5, "/e", 0o755), fileEntry(5, "/e/code", 0o644, "a"),
			}))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.paths(); got != tt.paths {
				t.Errorf("paths %q, want %q", got, tt.paths)
			}
		})
	}
}

// Also when its entries are those of several pushes, and none of them has both a removal and a new
// path. The second push alone is no rename.
func TestRenameInSeveralPushesTakesWhatIsIgnoredAlong(t *testing.T) {
	renamed := func(rev int64, path, to string) tree.Entry {
		e := gone(rev, path)
		e.RenamedTo = to
		return e
	}
	for name, tt := range map[string]struct {
		pushes [][]tree.Entry
		paths  string
	}{
		"removals first": {
			[][]tree.Entry{{renamed(5, "/d", "/e"), gone(5, "/d/code")}, {gone(5, "/d/sub"), dirEntry(5, "/e", 0o755)}, {fileEntry(5, "/e/code", 0o644, "a")}},
			"/e /e/code /e/sub /e/sub/.env",
		},
		"new paths first": {
			[][]tree.Entry{{dirEntry(5, "/a", 0o755)}, {fileEntry(5, "/a/code", 0o644, "a")}, {renamed(5, "/d", "/a")}, {gone(5, "/d/code"), gone(5, "/d/sub")}},
			"/a /a/code /a/sub /a/sub/.env",
		},
		"of an older sender": {
			[][]tree.Entry{{gone(5, "/d"), gone(5, "/d/code")}, {gone(5, "/d/sub"), dirEntry(5, "/e", 0o755)}, {fileEntry(5, "/e/code", 0o644, "a")}},
			"/d /d/sub /d/sub/.env /e /e/code",
		},
		"into itself": {[][]tree.Entry{{renamed(5, "/d", "/d/e")}, {renamed(6, "/d/sub", "/d/sub")}}, "/d /d/sub /d/sub/.env"},
		"to the root": {[][]tree.Entry{{renamed(5, "/d", "/")}}, "/d /d/sub /d/sub/.env"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t)
			e.do("write /d/code a\nwrite /d/sub/.env b")
			e.keep("a")
			for _, list := range tt.pushes {
				last := changes.After(&list[len(list)-1])
				in := changes.PushInput{SenderRev: 6, Cursor: &last, Ignore: []string{".env"}}
				if _, err := e.Push(t.Context(), in, changes.FromSlice(list)); err != nil {
					t.Fatal(err)
				}
			}
			if got := e.paths(); got != tt.paths {
				t.Errorf("paths %q, want %q", got, tt.paths)
			}
		})
	}
}

// A push that removes many directories with something in each is answered with the first.
func TestPushKeepsMany(t *testing.T) {
	e := newEnd(t)
	var list []tree.Entry
	for i := range changes.MaxKept + 3 {
		dir := "/d" + strconv.Itoa(i)
		e.do("write " + dir + "/.env b")
		list = append(list, gone(5, dir))
	}
	in := changes.PushInput{SenderRev: 6, Ignore: []string{".env"}}
	got, err := e.Push(t.Context(), in, changes.FromSlice(list))
	if err != nil || len(got.Kept) != changes.MaxKept || got.MoreKept != 3 {
		t.Errorf("%d are named, %d more, %v", len(got.Kept), got.MoreKept, err)
	}
	in.Ignore = make([]string, changes.MaxIgnored+1)
	if _, err := e.Push(t.Context(), in, changes.FromSlice(list)); changes.Code(err) != "EPROTOCOL" {
		t.Errorf("too many names: %v", err)
	}
}
