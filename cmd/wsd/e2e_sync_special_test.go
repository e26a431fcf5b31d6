package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// F3: a pipe in the place of a file, or of a directory, on either side removes nothing on the other: it is named, nothing
// comes to its place, and once it is gone what is there counts.
func TestF3PipeRemovesNothing(t *testing.T) {
	for _, side := range []string{"here", "there"} {
		t.Run(side, func(t *testing.T) {
			p := newSyncPair(t)
			odd, other, where := p.here, p.there, "here"
			if side == "there" {
				odd, other, where = p.there, p.here, "at the server"
			}
			files := map[string]string{"f": "of f", "gone": "of gone", "back": "of back", "d/x": "of d/x", "keep": "k"}
			for name, text := range files {
				writeFile(t, filepath.Join(p.here, name), text)
			}
			p.serve()
			p.sync().want(t, 0)
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			pipes := []string{"f", "gone", "back", "d"}
			stay := func() {
				t.Helper()
				for _, name := range pipes {
					if info, err := os.Lstat(filepath.Join(odd, name)); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
						t.Errorf("%s is no pipe any more: %v", name, err)
					}
				}
			}
			must(os.Rename(filepath.Join(odd, "back"), filepath.Join(filepath.Dir(odd), "back")))
			for _, name := range pipes {
				must(os.RemoveAll(filepath.Join(odd, name)))
				must(syscall.Mkfifo(filepath.Join(odd, name), 0o644))
			}
			for _, args := range [][]string{{"--dry-run"}, nil, {"--on-conflict", "theirs"}, {"--on-conflict", "ours"}, {"--mirror"}} {
				said := "left out " + where + ": f: neither file, directory nor link\n"
				p.sync(args...).want(t, exitLeftOut, said, "Error: 4 paths cannot be synchronised")
				stay()
				for name, text := range files {
					wantFile(t, filepath.Join(other, name), text)
				}
			}
			p.sync("--json").want(t, exitLeftOut, `{"type":"skipped","side":"`+map[bool]string{true: "here", false: "server"}[side == "here"]+`","why":"special","path":"d"}`)
			writeFile(t, filepath.Join(other, "f"), "changed")
			writeFile(t, filepath.Join(other, "keep"), "changed")
			for range 2 {
				if side == "here" {
					p.sync().want(t, exitHeld, "left out here: f: ", "Error: 1 path held in conflict, 4 paths cannot be synchronised")
				} else {
					p.sync().want(t, 1, "not written at the server: f: a pipe, socket or device is in its place\n", "Error: 1 path could not be written, 3 paths cannot")
				}
				stay()
				wantFile(t, filepath.Join(other, "f"), "changed")
				wantFile(t, filepath.Join(odd, "keep"), "changed")
			}
			if side == "here" {
				p.run("sync", "resolve", "--theirs", "--state", p.state, filepath.Join(p.here, "f"), p.url).want(t, exitHeld,
					"not decided: f: there is something here that cannot be synchronised, such as a pipe; move it away\n")
			}
			stay()
			for _, name := range pipes {
				must(os.Remove(filepath.Join(odd, name)))
			}
			must(os.Rename(filepath.Join(filepath.Dir(odd), "back"), filepath.Join(odd, "back")))
			p.sync().want(t, 0)
			p.want(map[string]string{"f": "changed", "back": "of back", "keep": "changed"}, map[string]string{"f": "changed", "back": "of back", "keep": "changed"})
		})
	}
}
