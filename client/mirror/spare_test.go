package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// C-055, F2: a directory that one side removes stays on the other with what was never
// synchronised, and is named. It does not come back.
func TestC055RemovedDirectoryKeepsWhatIsIgnored(t *testing.T) {
	for name, tt := range map[string]struct {
		before        []string // here, and synchronised
		local, remote []string // what is done then
		stayed        string
		here, there   []string // what there is in the end, of what is ignored as well
	}{
		"removed there": {
			[]string{"write /pkg/code c", "write /pkg/.env s", "write /pkg/sub/x/code c", "write /pkg/lib/node_modules/n l"},
			nil,
			[]string{"rm /pkg"},
			"/pkg here: /pkg/.env /pkg/lib/node_modules",
			[]string{"/pkg/ 755", "/pkg/.env 644 s", "/pkg/lib/ 755", "/pkg/lib/node_modules/ 755", "/pkg/lib/node_modules/n 644 l"},
			nil,
		},
		"removed here": {
			[]string{"write /pkg/code c"},
			[]string{"rm /pkg"},
			[]string{"write /pkg/.env s"},
			"/pkg there: /pkg/.env",
			nil,
			[]string{"/pkg/ 755", "/pkg/.env 644 s"},
		},
		"moved there": {
			[]string{"write /pkg/code c", "write /pkg/.env s"},
			nil,
			[]string{"mv /pkg /lib"},
			"",
			[]string{"/lib/ 755", "/lib/.env 644 s", "/lib/code 644 c"},
			[]string{"/lib/ 755", "/lib/code 644 c"},
		},
		"moved here": {
			[]string{"write /pkg/code c", "write /pkg/d/e/code c"},
			[]string{"mv /pkg /a"},
			[]string{"write /pkg/.env s", "write /pkg/d/e/node_modules/n l"},
			"",
			[]string{"/a/ 755", "/a/code 644 c", "/a/d/ 755", "/a/d/e/ 755", "/a/d/e/code 644 c"},
			[]string{"/a/ 755", "/a/.env 644 s", "/a/code 644 c", "/a/d/ 755", "/a/d/e/ 755", "/a/d/e/code 644 c", "/a/d/e/node_modules/ 755", "/a/d/e/node_modules/n 644 l"},
		},
		"moved to where there is one": {
			[]string{"write /pkg/code c", "write /pkg/.env s", "write /lib/code c", "write /lib/.env t"},
			nil,
			[]string{"rm /lib", "mv /pkg /lib"},
			"/pkg here: /pkg/.env",
			[]string{"/lib/ 755", "/lib/.env 644 t", "/lib/code 644 c", "/pkg/ 755", "/pkg/.env 644 s"},
			[]string{"/lib/ 755", "/lib/code 644 c"},
		},
		"a file in its place": {
			[]string{"write /pkg/code c", "write /pkg/.env s"},
			nil,
			[]string{"rm /pkg", "write /pkg R"},
			"/pkg here: /pkg/.env",
			[]string{"/pkg 644 R", "/pkg.conflict-#/ 755", "/pkg.conflict-#/.env 644 s"},
			[]string{"/pkg 644 R"},
		},
		"new in it": {
			[]string{"write /q/b 1", "write /q/r/c 1"},
			[]string{"write /q/r/new 2", "chmod /q/r 700"},
			[]string{"rm /q"},
			"/q here: /q/r/new",
			[]string{"/q/ 755", "/q/r/ 700", "/q/r/new 644 2"},
			[]string{"/q/ 755", "/q/r/ 700", "/q/r/new 644 2"},
		},
	} {
		for _, policy := range []Policy{Theirs, Ours, Both} {
			t.Run(name+" "+policy.String(), func(t *testing.T) {
				var stayed []string
				w := newWorld(t, Config{OnConflict: policy, Ignore: []string{".env", "node_modules"}, Stayed: func(s Stayed) {
					where := "here"
					if s.AtRemote {
						where = "there"
					}
					stayed = append(stayed, fmt.Sprintf("%s %s: %s", s.Path, where, strings.Join(s.Names, " ")))
				}})
				w.local.do(tt.before...)
				w.sync()
				w.local.do(tt.local...)
				w.remote.do(tt.remote...)
				if r := w.sync(); r.Stayed != len(stayed) {
					t.Errorf("%d stayed, %d were told", r.Stayed, len(stayed))
				}
				for range 2 {
					if got := strings.Join(stayed, "; "); got != tt.stayed {
						t.Errorf("stayed: %s, want %s", got, tt.stayed)
					}
					for side, end := range map[string]*end{"here": w.local, "there": w.remote} {
						want := tt.here
						if side == "there" {
							want = tt.there
						}
						if got := withoutMarks(end.list()); strings.Join(got, "; ") != strings.Join(want, "; ") {
							t.Errorf("%s: %q, want %q", side, got, want)
						}
					}
					w.restart()
					w.sync()
				}
				if name != "new in it" {
					return
				}
				w.remote.do("rm /q")
				w.sync()
				w.rest()
				w.local.want()
			})
		}
	}
}

// withoutMarks leaves out the digits of names of conflicts.
func withoutMarks(list []string) []string {
	out := make([]string, len(list))
	for i, line := range list {
		out[i] = line
		if at := strings.Index(line, ".conflict-"); at >= 0 {
			at += len(".conflict-")
			out[i] = line[:at] + "#" + line[at+8:]
		}
	}
	return out
}

// F2: a directory that was removed here and in which something is new at the remote stays there, and
// is named, as it is the other way round. So is what rules hide in it.
func TestF2RemovedHereMadeNewThere(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg   Config
		here  []string
		there []string
		want  []string
	}{
		"a file":            {Config{}, []string{"rm /d"}, []string{"write /d/new 1"}, []string{"/d [/d/new] 0 true"}},
		"a directory":       {Config{Ignore: []string{".env"}}, []string{"rm /d"}, []string{"write /d/.env S", "mkdir /d/new"}, []string{"/d [/d/new] 0 true"}},
		"and by a pattern":  {Config{Rules: []string{"*.env"}}, []string{"rm /d"}, []string{"write /d/.env S", "mkdir /d/new"}, []string{"/d [/d/.env /d/new] 0 true"}},
		"deep":              {Config{}, []string{"rm /d"}, []string{"mkdir /d/sub/x", "write /d/sub/x/y 1", "write /d/sub/z 2"}, []string{"/d [/d/sub/x /d/sub/z] 0 true"}},
		"below":             {Config{}, []string{"rm /d/sub"}, []string{"write /d/sub/z 2"}, []string{"/d/sub [/d/sub/z] 0 true"}},
		"many":              {Config{}, []string{"rm /d"}, []string{"write /d/1 1", "write /d/2 1", "write /d/3 1", "write /d/4 1", "write /d/5 1"}, []string{"/d [/d/1 /d/2 /d/3] 2 true"}},
		"nothing is new":    {Config{}, []string{"rm /d"}, nil, nil},
		"new somewhere":     {Config{}, []string{"rm /d"}, []string{"write /e 1"}, nil},
		"removed, and made": {Config{}, []string{"rm /d", "mkdir /d"}, []string{"write /d/new 1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var stayed []string
			tt.cfg.Stayed = func(s Stayed) {
				stayed = append(stayed, fmt.Sprint(s.Path, " ", s.Names, " ", s.More, " ", s.AtRemote))
			}
			w := newWorld(t, tt.cfg)
			w.local.do("write /d/code 1", "write /d/sub/code 2", "write /other 3")
			w.sync()
			w.local.do(tt.here...)
			w.remote.do(tt.there...)
			w.sync()
			if diff := cmp.Diff(tt.want, stayed); diff != "" {
				t.Errorf("stayed (-want +got):\n%s", diff)
			}
			w.sync()
			if len(stayed) != len(tt.want) {
				t.Errorf("told again: %v", stayed)
			}
		})
	}
}

// OnChange gets a file once that goes with several directories which stay.
func TestC055DeletedIsToldOnce(t *testing.T) {
	var told []string
	w := newWorld(t, Config{Ignore: []string{".env"}, OnChange: func(c Change) { told = append(told, fmt.Sprint(c.What, " ", c.Path)) }})
	w.local.do("write /a/b/c/x 1", "write /a/b/y 2", "write /a/b/c/.env s", "write /a/e/z 3")
	w.sync()
	w.remote.do("rm /a")
	w.sync()
	slices.Sort(told)
	if diff := cmp.Diff([]string{"deleted /a/b/c/x", "deleted /a/b/y", "deleted /a/e", "deleted /a/e/z"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
