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
