package mirror

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/changes"
)

// A directory that the remote has removed, and that stayed for what rules hide in it, goes once nothing of that is left. It
// stays if something new is in it, or if the remote has it again.
func TestStayedGoesOnceItIsEmptied(t *testing.T) {
	for name, c := range map[string]struct {
		here, there string
		want        string // the directories here in the end
		sent        string // what the remote has in the end
	}{
		"emptied":                  {"rm /p/.env; rm /p/sub/x.env", "", "", ""},
		"not yet":                  {"rm /p/.env", "", "/p /p/sub", ""},
		"another one hidden":       {"rm /p/.env; rm /p/sub/x.env; write /p/new.env 1", "", "/p", ""},
		"new file":                 {"rm /p/.env; rm /p/sub/x.env; write /p/new 1", "", "/p", "/p /p/new"},
		"new file below":           {"rm /p/.env; rm /p/sub/x.env; write /p/sub/new 1", "", "/p /p/sub", "/p /p/sub /p/sub/new"},
		"new directory":            {"rm /p/.env; rm /p/sub/x.env; mkdir /p/new", "", "/p /p/new", "/p /p/new"},
		"new file, then none":      {"write /p/new 1|rm /p/new; rm /p/.env; rm /p/sub/x.env", "", "/p", "/p"},
		"made again":               {"rm /p; mkdir /p", "", "/p", "/p"},
		"removed here":             {"rm /p", "", "", ""},
		"removed here, made again": {"rm /p|mkdir /p", "", "/p", "/p"},
		"renamed":                  {"mv /p /q|rm /q/.env; rm /q/sub/x.env", "", "/q /q/sub", "/q /q/sub"},
		"there again":              {"|rm /p/.env; rm /p/sub/x.env", "mkdir /p|", "/p", "/p"},
		"there again, at once":     {"rm /p/.env; rm /p/sub/x.env", "mkdir /p", "/p", "/p"},
		"something there again":    {"|rm /p/.env; rm /p/sub/x.env|", "write /p/new 1||rm /p/new", "/p", "/p"},
		"there again, and gone":    {"||rm /p/.env; rm /p/sub/x.env", "mkdir /p|rm /p|", "", ""},
	} {
		for _, policy := range []Policy{Theirs, Both, Ours, Hold} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, %t", name, policy, restart), func(t *testing.T) {
					w := newWorld(t, Config{Rules: []string{"*.env*\n"}, OnConflict: policy})
					w.local.do("write /p/code 1", "write /p/sub/code 1", "write /other 1")
					w.sync()
					w.local.do("write /p/.env 1", "write /p/sub/x.env 1")
					w.sync()
					w.remote.do("rm /p")
					w.sync()
					if got := w.local.line("/p/.env") + w.local.line("/p/sub/x.env"); got != "/p/.env 644 1/p/sub/x.env 644 1" {
						t.Fatalf("here is %q", w.local.list())
					}
					here, there := strings.Split(c.here, "|"), strings.Split(c.there, "|")
					for i := range max(len(here), len(there)) {
						for on, steps := range map[*end][]string{w.local: here, w.remote: there} {
							if i < len(steps) && steps[i] != "" {
								on.do(lines(steps[i])...)
							}
						}
						if restart {
							w.restart()
						}
						w.sync()
					}
					w.nothingPends()
					var dirs, sent []string
					for _, line := range w.local.list() {
						if dir, is := strings.CutSuffix(line, "/ 755"); is {
							dirs = append(dirs, dir)
						}
					}
					for _, line := range w.remote.list() {
						if path := strings.TrimSuffix(strings.Fields(line)[0], "/"); path != "/other" {
							sent = append(sent, path)
						}
					}
					if diff := cmp.Diff([]string{c.want, c.sent}, []string{strings.Join(dirs, " "), strings.Join(sent, " ")}); diff != "" {
						t.Errorf("directories here, and what is there (-want +got):\n%s", diff)
					}
					w.wantConflicts()
					w.local.check()
					w.remote.check()
				})
			}
		}
	}
}

// A .gitignore file that stayed with what it hides goes with its directory.
func TestStayedGoesWithItsRules(t *testing.T) {
	for _, edited := range []bool{false, true} {
		w := newWorld(t, Config{GitIgnore: true, OnConflict: Both})
		w.local.do("write /p/.gitignore *.env", "write /p/code 1", "write /p/d/code 1", "write /other 1")
		w.sync()
		w.local.do("write /p/x.env 1")
		w.sync()
		w.remote.do("rm /p")
		w.sync()
		w.local.want("/other 644 1", "/p/ 755", "/p/.gitignore 644 *.env", "/p/x.env 644 1")
		w.local.do("rm /p/x.env")
		want := []string{"/other 644 1"}
		if edited {
			w.local.do("write /p/.gitignore *.txt")
			want = append(want, "/p/ 755", "/p/.gitignore 644 *.txt")
		}
		w.sync()
		w.local.want(want...)
		w.rest()
	}
}

// A plan and a run name the directories that go.
func TestStayedGoesIsTold(t *testing.T) {
	var told []string
	w := newWorld(t, Config{Rules: []string{"*.env\n"}, OnChange: func(c Change) { told = append(told, fmt.Sprint(c.What, " ", c.Path)) }})
	w.local.do("write /p/d/code 1")
	w.sync()
	w.local.do("write /p/d/x.env 1")
	w.sync()
	w.remote.do("rm /p")
	w.sync()
	w.local.do("rm /p/d/x.env")
	told = nil
	var planned []string
	p, err := w.m.Plan(t.Context(), func(m Move) error {
		planned = append(planned, fmt.Sprint(m.ToRemote, " ", m.Kind, " ", m.Path))
		return nil
	})
	if err != nil || p.ToLocal != len(planned) {
		t.Errorf("plan %+v, %v", p, err)
	}
	w.sync()
	if diff := cmp.Diff([][]string{{"deleted /p", "deleted /p/d"}, {"false delete /p", "false delete /p/d"}}, [][]string{told, planned}); diff != "" {
		t.Errorf("told and planned (-want +got):\n%s", diff)
	}
}

// The directories that are remembered are bounded.
func TestStayedIsBounded(t *testing.T) {
	w := newWorld(t, Config{Rules: []string{"*.env\n"}})
	for i := range maxLeft + 3 {
		w.local.do(fmt.Sprintf("write /d%04d/code 1", i), fmt.Sprintf("write /d%04d/x.env 1", i))
	}
	w.sync()
	for i := range maxLeft + 3 {
		w.remote.do(fmt.Sprintf("rm /d%04d", i))
	}
	w.sync()
	if n := len(w.m.s.notes.Left); n != maxLeft {
		t.Errorf("%d are remembered", n)
	}
	for i := range maxLeft + 3 {
		w.local.do(fmt.Sprintf("rm /d%04d/x.env", i))
	}
	w.sync()
	if n := len(w.local.list()); n != 3 || len(w.m.s.notes.Left) != 0 {
		t.Errorf("%d stay, %d are remembered", n, len(w.m.s.notes.Left))
	}
}

// An identified Workspace has identities of directories.
type identified struct {
	changes.Workspace
	numbers map[string]int
}

func (w *identified) Identity(path string) string { return fmt.Sprint(w.numbers[path]) }

// A directory that was made again here between two looks is new, and so is the one that it is in.
func TestStayedAndMadeAgain(t *testing.T) {
	for path, want := range map[string][]string{
		"":       {"/other 644 1"},
		"/p":     {"/other 644 1", "/p/ 755"},
		"/p/sub": {"/other 644 1", "/p/ 755", "/p/sub/ 755"},
	} {
		w := newWorld(t, Config{Rules: []string{"*.env\n"}})
		ws := &identified{w.local.ws, map[string]int{}}
		w.local.ws = ws
		w.restart()
		w.local.do("write /p/code 1", "write /p/sub/code 1", "write /other 1")
		w.sync()
		w.local.do("write /p/sub/x.env 1")
		w.sync()
		w.remote.do("rm /p")
		w.sync()
		w.local.do("rm /p/sub/x.env")
		ws.numbers[path]++
		for range 3 {
			w.sync()
			w.restart()
		}
		w.local.want(want...)
		w.remote.want("/other 644 1")
	}
}
