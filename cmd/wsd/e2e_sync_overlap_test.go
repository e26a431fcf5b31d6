package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestC054OverlappingDirectories: a directory that is the workspace, holds it or is in it is
// refused, whatever its name and the server's, and so is one that a store of either side is
// in.
func TestC054OverlappingDirectories(t *testing.T) {
	dir := shortDir(t)
	proj, ws := filepath.Join(dir, "proj"), filepath.Join(dir, "proj/ws")
	writeFile(t, filepath.Join(ws, "a"), "1\n")
	writeFile(t, filepath.Join(ws, "sub/b"), "2\n")
	writeFile(t, filepath.Join(dir, "other/store/c"), "3\n")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("proj/ws", link); err != nil {
		t.Fatal(err)
	}
	p := newSyncPair(t)
	serve := p.command("serve", "--workspace", ws, "--store", filepath.Join(dir, "other/store/w.db"), "--listen", "ws://127.0.0.1:0")
	serve.Env = append(serve.Env, "XDG_RUNTIME_DIR="+p.home)
	s := startReal(t, serve)
	before := readTree(t, proj)
	for local, want := range map[string]string{
		ws:                                "is the workspace of that server itself, " + ws,
		link:                              "is the workspace of that server itself, " + ws,
		filepath.Join(ws, "sub"):          "is in the workspace of that server, " + ws,
		filepath.Join(link, "sub"):        "is in the workspace of that server, " + ws,
		filepath.Join(ws, "new"):          "is in the workspace of that server, " + ws,
		proj:                              "holds the workspace of that server, " + ws,
		dir:                               "holds the workspace of that server, " + ws,
		filepath.Join(dir, "other"):       "holds the store of the workspace, " + ws,
		filepath.Join(dir, "other/store"): "holds the store of the workspace, " + ws,
	} {
		for _, url := range []string{s.url, strings.Replace(s.url, "ws:", "http:", 1), ""} {
			args := []string{"sync", "--create", "--merge", local}
			if url != "" {
				args = append(args, url)
			}
			cmd := p.command(args...)
			cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+p.home)
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), local+" "+want) {
				t.Errorf("sync %s %s: %v, %s", local, url, err, out)
			}
		}
	}
	p.run("sync", "--merge", "--state", filepath.Join(ws, "s.db"), p.here, s.url).want(t, 2, "s.db is in the workspace of the server")
	p.run("exec", "--sync", "--merge", "--dir", proj, "--connect", s.url, "--", "true").want(t, 2, "holds the workspace")
	p.run("sync", p.here, s.url).want(t, 0)
	if diff := cmp.Diff(before, readTree(t, proj)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
