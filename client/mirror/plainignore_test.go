package mirror

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// C-055: ignored files stay and are named, also at a remote whose pushes cannot say which names are ignored.
func TestC055PlainRemote(t *testing.T) {
	for name, tt := range map[string]struct {
		here, there []string // what is ignored there is made by there
		stays       []string // lines
		want        []string // the rest of what is there
	}{
		"removed": {
			[]string{"rm /pkg"},
			[]string{"write /pkg/.env S", "write /pkg/sub/node_modules/x/y 1"},
			[]string{"/pkg: [/pkg/.env /pkg/sub/node_modules] 0"},
			[]string{"/other 644 o", "/pkg/ 755", "/pkg/.env 644 S", "/pkg/sub/ 755", "/pkg/sub/node_modules/ 755", "/pkg/sub/node_modules/x/ 755", "/pkg/sub/node_modules/x/y 644 1"},
		},
		"renamed": {
			[]string{"mv /pkg /new"},
			[]string{"write /pkg/.env S"},
			[]string{"/pkg: [/pkg/.env] 0"},
			[]string{"/new/ 755", "/new/code 644 c", "/new/sub/ 755", "/new/sub/f 644 f", "/other 644 o", "/pkg/ 755", "/pkg/.env 644 S"},
		},
		"some of it": {
			[]string{"rm /pkg/sub"},
			[]string{"write /pkg/.env S"},
			nil,
			[]string{"/other 644 o", "/pkg/ 755", "/pkg/.env 644 S", "/pkg/code 644 c"},
		},
		"a file instead": {
			[]string{"rm /pkg", "write /pkg file"},
			[]string{"write /pkg/.env S"},
			[]string{"/pkg: [/pkg/.env] 0"},
			[]string{"/other 644 o", "/pkg/ 755", "/pkg/.env 644 S"},
		},
		"nothing ignored": {
			[]string{"rm /pkg"},
			[]string{"write /.env S"},
			nil,
			[]string{"/.env 644 S", "/other 644 o"},
		},
		"ignored itself": {
			[]string{"write /.env/x 1", "rm /.env"},
			[]string{"write /.env/y 2"},
			nil,
			[]string{"/.env/ 755", "/.env/y 644 2", "/other 644 o", "/pkg/ 755", "/pkg/code 644 c", "/pkg/sub/ 755", "/pkg/sub/f 644 f"},
		},
	} {
		for rules, cfg := range map[string]Config{
			"names": {Ignore: []string{".env", "node_modules"}}, "patterns": {Rules: []string{"*.env\nnode_module?"}},
			"both": {Ignore: []string{"node_modules"}, Rules: []string{"*.env"}},
		} {
			t.Run(name+"/"+rules, func(t *testing.T) {
				var stays []string
				cfg.Stayed = func(s Stayed) { stays = append(stays, fmt.Sprintf("%s: %v %d", s.Path, s.Names, s.More)) }
				w := newWorld(t, cfg)
				w.cfg.Remote = &racing{Peer: w.remote.server, old: true, plain: true}
				w.restart()
				w.local.do("write /pkg/code c", "write /pkg/sub/f f", "write /other o")
				w.sync()
				w.remote.do(tt.there...)
				w.sync()
				w.local.do(tt.here...)
				for range 2 {
					if _, err := w.m.Sync(t.Context()); err != nil && !errors.Is(err, errMoved) {
						t.Fatal(err)
					}
				}
				w.remote.want(tt.want...)
				slices.Sort(stays)
				if diff := cmp.Diff(tt.stays, slices.Compact(stays)); diff != "" {
					t.Errorf("stays (-want +got):\n%s", diff)
				}
			})
		}
	}
}
