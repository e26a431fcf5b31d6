package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/wsd-dev/wsd/fs/slashpath"
)

// lay lays out rules such as "rw sub" or "-- sub" (denied), relative to dir, and
// returns base and places as text, below dir only.
func lay(t *testing.T, dir string, rules ...string) (*layout, []string, error) {
	t.Helper()
	p := &Policy{}
	for _, r := range rules {
		word, path, _ := strings.Cut(r, " ")
		if !strings.HasPrefix(path, "/") {
			path = strings.TrimSuffix(dir+"/"+path, "/")
		}
		switch word {
		case "ro":
			p.add(path, Read)
		case "rw":
			p.add(path, Write)
		case "--":
			p.add(path, Deny)
		case "glob":
			p.Globs = append(p.Globs, path)
		default:
			t.Fatalf("rule %q", r)
		}
	}
	var borrowed rights
	defer borrowed.giveBack()
	l, err := layOut(p, &borrowed)
	if err != nil {
		return nil, nil, err
	}
	var places []string
	for _, at := range l.Places {
		if !slashpath.Within(at.Path, dir) {
			continue
		}
		word := map[Access]string{Read: "ro", Write: "rw", Deny: "--"}[at.Access]
		switch {
		case at.Mask:
			word = "mask"
		case at.Pin:
			word = "pin"
		}
		name := strings.TrimPrefix(strings.TrimPrefix(at.Path, dir), "/")
		if at.Dir {
			name += "/"
		}
		places = append(places, word+" "+name)
	}
	return l, places, nil
}

func TestLayOut(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/f", "w/deep/er/still/x", "w/secret/open/y", "w/k.env", "w/deep/l.env",
		"git/.git/config", "git/.codex", "full/.git/", "full/.agents/", "full/.codex/", "full/.aws/", "full/out -> ../w",
		"tree/.git", "tree/modules/m/HEAD", "link -> w", "up/dir -> ../w/deep", "kenv -> w/k.env")
	if err := os.WriteFile(dir+"/tree/.git", []byte("gitdir: modules/m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	masks := func(root string) []string {
		return []string{"mask " + root + ".agents/", "mask " + root + ".aws/", "mask " + root + ".codex/", "mask " + root + ".git/"}
	}
	for _, tt := range []struct {
		name  string
		rules []string
		base  Access
		want  []string
	}{
		{"all to read", []string{"ro /"}, Read, nil},
		{"all to write", []string{"rw /"}, Write, nil},
		{"a place to write", []string{"ro /", "rw full"}, Read, []string{"rw full/", "ro full/.agents/", "ro full/.aws/", "ro full/.codex/", "ro full/.git/"}},
		{"what is missing is masked", []string{"ro /", "rw git"}, Read, []string{"rw git/", "mask git/.agents/", "mask git/.aws/", "ro git/.codex", "ro git/.git/"}},
		{"an entry of its own", []string{"ro /", "rw git", "rw git/.git", "rw git/.aws"}, Read, []string{"rw git/", "mask git/.agents/", "ro git/.codex"}},
		{"a file to write", []string{"ro /", "rw w/f"}, Read, []string{"rw w/f"}},
		{"nothing to write through a link that can be replaced", []string{"ro /", "rw full", "rw full/out"}, Read, []string{"rw full/", "ro full/.agents/", "ro full/.aws/", "ro full/.codex/", "ro full/.git/"}},
		{"nothing to write", []string{"ro /", "rw missing/x"}, Read, nil},
		{"no change", []string{"ro /", "ro w", "rw full", "rw full/.git"}, Read, []string{"rw full/", "ro full/.agents/", "ro full/.aws/", "ro full/.codex/"}},
		{"a gitdir elsewhere in the tree", []string{"ro /", "rw tree"}, Read, []string{"rw tree/", "mask tree/.agents/", "mask tree/.aws/", "mask tree/.codex/", "ro tree/.git", "pin tree/modules/", "ro tree/modules/m/"}},
		{"directories on the way are pinned", []string{"ro /", "rw w", "ro w/deep/er/still"}, Read, append([]string{"rw w/"}, append(masks("w/"), "pin w/deep/", "pin w/deep/er/", "ro w/deep/er/still/")...)},
		{"also to what is denied", []string{"ro /", "rw w", "-- w/deep/er/still"}, Read, append([]string{"rw w/"}, append(masks("w/"), "pin w/deep/", "pin w/deep/er/", "-- w/deep/er/still/")...)},
		{"writable in denied", []string{"ro /", "-- w/secret", "rw w/secret/open/y"}, Read, []string{"-- w/secret/", "rw w/secret/open/y"}},
		{"missing and denied", []string{"ro /", "rw full", "-- full/a/b"}, Read, []string{"rw full/", "ro full/.agents/", "ro full/.aws/", "ro full/.codex/", "ro full/.git/", "mask full/a/"}},
		{"missing where nothing can be made", []string{"ro /", "-- w/a/b", "ro w/c"}, Read, nil},
		{"below a file", []string{"ro /", "-- w/f/b"}, Read, nil},
		{"a list to read", []string{"ro w/deep", "ro w/f"}, Hidden, []string{"ro w/deep/", "ro w/f"}},
		{"denied where all is hidden", []string{"ro w/f", "-- w/deep"}, Hidden, []string{"ro w/f"}},
		{"through links", []string{"ro up/dir/er", "-- kenv"}, Hidden, []string{"ro w/deep/er/"}},
		{"globs", []string{"ro /", "glob w/**/*.env"}, Read, []string{"-- w/deep/l.env", "-- w/k.env"}},
		{"a glob matches a link", []string{"ro /", "glob ken*"}, Read, []string{"-- w/k.env"}},
		{"a glob wins over an entry", []string{"ro /", "ro w/k.env", "glob w/*.env"}, Read, []string{"-- w/k.env"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, got, err := lay(t, dir, tt.rules...)
			if err != nil {
				t.Fatal(err)
			}
			if l.Base != tt.base {
				t.Errorf("base %d, want %d", l.Base, tt.base)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !slices.IsSortedFunc(l.Places, func(a, b place) int { return slashpath.Compare(a.Path, b.Path) }) {
				t.Errorf("not sorted: %v", l.Places)
			}
		})
	}
}

func TestLayOutKeepsTheKernelsTreesReadOnly(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/")
	l, _, err := lay(t, dir, "rw /", "ro w")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/proc", "/sys"} {
		if !slices.ContainsFunc(l.Places, func(p place) bool { return p.Path == at && p.Access == Read }) {
			t.Errorf("%s stays writable", at)
		}
	}
}

// What a minimal policy gives to read has secrets in it that no program needs.
func TestLayOutHidesSecrets(t *testing.T) {
	if !exists("/etc/shadow") {
		return
	}
	denied := func(p *Policy) bool {
		l, err := layOut(p, new(rights))
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(l.Places, func(at place) bool { return at.Path == "/etc/shadow" && at.Access == Deny && at.Own })
	}
	p := &Policy{}
	p.addMinimal()
	if !denied(p) {
		t.Error("/etc/shadow can be read")
	}
	p.add("/etc/shadow", Read)
	if denied(p) {
		t.Error("/etc/shadow is denied to a policy that names it")
	}
}

func TestLayOutNotesLinks(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/f", "a -> b", "b -> w", "abs -> "+dir+"/a")
	l, places, err := lay(t, dir, "ro abs/f")
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, ln := range l.Links {
		if slashpath.Within(ln.Path, dir) {
			links = append(links, strings.TrimPrefix(ln.Path, dir+"/")+" -> "+strings.TrimPrefix(ln.Target, dir+"/"))
		}
	}
	if diff := cmp.Diff([]string{"a -> b", "abs -> a", "b -> w"}, links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ro w/f"}, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

func TestLayOutRefuses(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/in/x", "w/link -> in", "w/dangling -> nowhere", "w/out -> ../o", "o/x", "loop -> loop",
		"s/.git -> real", "s/real/", "g/.git", "g/sub/")
	if err := os.WriteFile(dir+"/g/.git", []byte("gitdir: sub"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		rules []string
	}{
		{"read-only through a link that can be replaced", []string{"ro /", "rw w", "ro w/link"}},
		{"denied through such a link", []string{"ro /", "rw w", "-- w/link/x"}},
		{"missing behind such a link", []string{"ro /", "rw w", "-- w/dangling"}},
		{"a protected name is a link", []string{"ro /", "rw s"}},
		{"a gitdir is a writable root", []string{"ro /", "rw g", "rw g/sub"}},
		{"a loop", []string{"ro /", "ro loop"}},
		{"rules in /proc", []string{"ro /", "-- /proc/1"}},
		{"writing in /proc", []string{"ro /", "rw /proc"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if l, places, err := lay(t, dir, tt.rules...); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v %v, %v", l, places, err)
			}
		})
	}
}

// Links that a command makes on the way of a rule, or where a .git file points, do not
// keep the next command from starting.
func TestSL5LinksOnTheWay(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/loop -> loop", "w/a -> b", "w/b -> a", "w/f", "w/sub/f", "g/.git", "g/loop -> loop", "g/here -> .", "g/sub/", "g/link -> sub", "g/nowhere -> no")
	name := strings.Repeat("d", 200)
	at, err := os.OpenRoot(dir + "/w")
	for depth := 0; err == nil && depth < 25; depth++ { // deeper than a path can be long
		if depth == 15 {
			err = at.Symlink(strings.Repeat(name+"/", 10), "more")
		}
		if err = errors.Join(err, at.Mkdir(name, 0o755)); err == nil {
			next, openErr := at.OpenRoot(name)
			_ = at.Close()
			at, err = next, openErr
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	if err := os.Symlink(strings.Repeat(name+"/", 15)+"more", dir+"/w/long"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"loop", "loop/x", "a/x", "f/x", "long", "long/x"} {
		if _, _, err := lay(t, dir, "ro /", "rw w", "rw w/"+at); err != nil {
			t.Errorf("%.20s: %v", at, err)
		}
	}
	for target, want := range map[string]string{"loop": "", "here": "", "nowhere": "", "link": "ro g/sub/"} {
		if err := os.WriteFile(dir+"/g/.git", []byte("gitdir: "+target), 0o644); err != nil {
			t.Fatal(err)
		}
		_, places, err := lay(t, dir, "ro /", "rw g")
		if err != nil || want != "" && !slices.Contains(places, want) {
			t.Errorf("gitdir %s: %q, %v", target, places, err)
		}
		if pinned := slices.Contains(places, "pin g/link"); pinned != (target == "link") {
			t.Errorf("gitdir %s: %q", target, places)
		}
	}
}

func TestPlanTravels(t *testing.T) {
	want := newPlan(&layout{
		Base:   Read,
		Places: []place{{Path: "/a\xff", Access: Write, Dir: true}, {Path: "/a\xff/.git", Access: Read, Mask: true, Dir: true}},
		Links:  []link{{"/l", "t\n"}},
	})
	want.Path, want.Dir, want.Network, want.Watch = []byte("/bin/\xfe"), []byte("/"), true, true
	text, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(plan{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if string(got.Places[0].Path) != "/a\xff" {
		t.Errorf("path %q", got.Places[0].Path)
	}
	if _, err := decodePlan([]byte("{")); err == nil {
		t.Error("half a plan decodes")
	}
}

func TestErrorsSayWhat(t *testing.T) {
	err := fmt.Errorf("outer: %w", unavailablef("no %s", "thing"))
	if !errors.Is(err, ErrUnavailable) || err.Error() != "outer: sandbox unavailable: no thing" {
		t.Error(err)
	}
	if processError(nil) != nil || fileError(nil) != nil {
		t.Error("nothing is an error")
	}
	plain := errors.New("plain")
	if processError(plain) != plain || fileError(plain) != plain {
		t.Error("other errors are changed")
	}
}
