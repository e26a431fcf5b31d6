package mirror

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// printAt is how names of copies say what is at a path.
func (e *end) printAt(path string) string {
	e.t.Helper()
	x, err := e.tree.Entry(context.Background(), path)
	if err != nil {
		e.t.Fatalf("%s: %v", path, err)
	}
	return printOf(&x)[:8]
}

// A copy overwrites nothing, also one of what was in a directory: not what is in its
// directory's place, nor anything behind a link there.
func TestF3CopyIsInNothingsPlace(t *testing.T) {
	p := tree.Entry{Kind: tree.KindFile, Mode: 0o644, Size: 1, Parts: []tree.Part{{Hash: tree.Sum([]byte("P")), Size: 1}}}
	name := "/a.conflict-" + printOf(&p)[:8]
	for what, tt := range map[string]struct {
		lines []string
		want  []string // beside what there always is
		copy  string
	}{
		"nothing":     {nil, []string{name + "/ 755", name + "/s/ 755", name + "/s/x 644 2", name + "/y 644 2"}, name},
		"a file":      {[]string{"write " + name + " precious"}, []string{name + " 644 precious"}, name + "-2"},
		"a link":      {[]string{"ln z " + name}, []string{name + " -> z"}, name + "-2"},
		"a directory": {[]string{"write " + name + "/other 1"}, []string{name + "/ 755", name + "/other 644 1", name + "/s/ 755", name + "/s/x 644 2", name + "/y 644 2"}, name},
		"a file in it": {
			[]string{"write " + name + "/s precious"},
			[]string{name + "/ 755", name + "/s 644 precious", name + "-2/ 755", name + "-2/s/ 755", name + "-2/s/x 644 2", name + "/y 644 2"},
			"",
		},
		"two of them": {[]string{"ln z " + name, "write " + name + "-2 precious"}, []string{name + " -> z", name + "-2 644 precious"}, name + "-3"},
		"a copy":      {[]string{"write " + name + "/y 2"}, []string{name + "/ 755", name + "/s/ 755", name + "/s/x 644 2", name + "/y 644 2"}, name},
	} {
		for _, where := range []int{here, there} {
			t.Run(what, func(t *testing.T) {
				w := newWorld(t, Config{OnConflict: Both})
				w.local.do("write /a/s/x 1", "write /a/y 1", "write /z/y precious", "write /z/s/x precious")
				w.sync()
				[...]*end{w.local, w.remote}[where].do(tt.lines...)
				w.sync()
				w.local.do("write /a/s/x 2", "write /a/y 2")
				w.remote.do("rm /a", "write /a P")
				if got := "/a.conflict-" + w.remote.printAt("/a"); got != name {
					t.Fatalf("a copy is named %s, not %s", got, name)
				}
				w.sync()
				want := append([]string{"/a 644 P", "/z/ 755", "/z/s/ 755", "/z/s/x 644 precious", "/z/y 644 precious"}, tt.want...)
				x, y := tt.copy, tt.copy
				switch tt.copy {
				case "":
					x, y = name+"-2", name
				case name:
				default:
					want = append(want, x+"/ 755", x+"/s/ 755", x+"/s/x 644 2", y+"/y 644 2")
				}
				sortLines(want)
				w.local.want(want...)
				w.wantConflicts(
					"/a/s/x: "+hash("2")+" / "+hash("P")+", kept both by /a copy "+x+"/s/x",
					"/a/y: "+hash("2")+" / "+hash("P")+", kept both by /a copy "+y+"/y",
				)
				w.rest()
			})
		}
	}
}

// Two copies are not in each other's way.
func TestF3CopiesLeaveEachOtherRoom(t *testing.T) {
	taken := names{}
	taken.add("/a.c/x")
	for path, want := range map[string]bool{"/a.c": true, "/a.c/x": true, "/a.c/x/y": true, "/a.c/y": false, "/b": false} {
		if taken.has(path) != want {
			t.Errorf("%s is taken: %t, want %t", path, !want, want)
		}
	}
}
