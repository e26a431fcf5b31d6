package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is here and was not sent, since the server has something else there that is ignored, is a conflict
// once the server has something there that is not: over each wire, at and below the path.
func TestBlockedIsKept(t *testing.T) {
	for _, wire := range []string{"ws:", "http:"} {
		for _, tt := range []struct {
			name, there, path, told string
			rules                   []string
		}{
			{"file", "d/x", "d", "kept: d: here, and not sent: the server has something else of that name", []string{"--ignore", "d/"}},
			{"directory", "d", "d/f", "kept: d: here, and not sent: the server has something else of that name", []string{"--ignore", "/d", "--include", "/d/"}},
			{".gitignore", "d/x", "d", "kept: d: here, and not sent: the server has something else of that name", []string{"--gitignore"}},
		} {
			t.Run(wire+tt.name, func(t *testing.T) {
				p := newSyncPair(t)
				p.server = startReal(t, p.command("serve", "--workspace", p.there, "--store", p.store, "--listen", "ws://127.0.0.1:0"))
				p.url = strings.Replace(p.server.url, "ws:", wire, 1)
				if tt.name == ".gitignore" {
					writeFile(t, filepath.Join(p.there, ".gitignore"), "d/\n")
				}
				writeFile(t, filepath.Join(p.there, tt.there), "x")
				writeFile(t, filepath.Join(p.there, "o"), "o")
				p.sync(tt.rules...).want(t, 0)
				writeFile(t, filepath.Join(p.here, tt.path), "mine")
				p.sync(tt.rules...).want(t, 0, tt.told)
				p.sync(tt.rules...).want(t, 0, "nothing has changed")
				if err := os.RemoveAll(filepath.Join(p.there, "d")); err != nil {
					t.Fatal(err)
				}
				writeFile(t, filepath.Join(p.there, tt.path), "theirs")
				o := p.sync(append(tt.rules, "--on-conflict", "both")...)
				o.want(t, 0, "conflict: "+tt.path+": ")
				files := readTree(t, p.here)
				texts := map[string]bool{}
				for _, text := range files {
					texts[text] = true
				}
				if !texts["mine"] || files[tt.path] != "theirs" {
					t.Errorf("here: %v\n%s", files, o.stderr)
				}
				p.sync(tt.rules...).want(t, 0, "nothing has changed")
			})
		}
	}
}
