package main

import (
	"os"
	"path/filepath"
	"testing"
)

// --mirror makes the server what is here each time, and keeps what it undoes.
func TestMirrorOneWay(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	p.sync("--mirror").want(t, 3, "--from here")
	p.sync("--mirror", "--merge").want(t, 2, "--mirror merges nothing")
	p.sync("--mirror", "--on-conflict", "ours").want(t, 2, "--on-conflict is for both ways")
	p.sync("--mirror", "--from", "here").want(t, 0)
	writeFile(t, filepath.Join(p.there, "a"), "changed there\n")
	writeFile(t, filepath.Join(p.there, "new/f"), "made there\n")
	if err := os.Remove(filepath.Join(p.there, "same")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.here, "b"), "made here\n")
	here := readTree(t, p.here)
	p.sync("--mirror", "--dry-run").want(t, 0, "(?m)^> delete new/f$", "(?m)^> file a$", "(?m)^> file same$", "(?m)^> file b$", "(?m)^would be replaced or removed at the server, and kept here: 2 versions$")
	p.sync("--mirror", "--max-delete", "0").want(t, 3, `1 of \d files would be removed at the server \(new/f\)`)
	p.sync("--mirror").want(t, 0, "undone there: 2 versions")
	p.want(here, here)
	p.run("sync", "lost", "--state", p.state).want(t, 0, "undone .* new/f\n")
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "new/f")).want(t, 0)
	p.sync("--mirror").want(t, 0)
	wantFile(t, filepath.Join(p.there, "new/f"), "made there\n")
	cmd := p.command("exec", "--sync", "--mirror", "--dir", p.here, "--state", p.state, "--connect", p.url, "--", "sh", "-c", "cat new/f; echo x >out")
	if out, err := cmd.Output(); err != nil || string(out) != "made there\n" {
		t.Errorf("exec --sync --mirror: %v, %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(p.there, "out")); err == nil {
		t.Error("what the command has made is still there")
	}
}

// --one-way-safe sends what has changed here, and overwrites nothing that has changed there.
func TestOneWaySafe(t *testing.T) {
	p := newSyncPair(t)
	for _, name := range []string{"a", "b", "c"} {
		writeFile(t, filepath.Join(p.here, name), "base\n")
	}
	p.serve()
	p.sync("--one-way-safe").want(t, 0)
	writeFile(t, filepath.Join(p.there, "a"), "theirs\n")
	writeFile(t, filepath.Join(p.there, "only"), "theirs\n")
	writeFile(t, filepath.Join(p.here, "a"), "mine\n")
	writeFile(t, filepath.Join(p.here, "b"), "mine\n")
	for range 2 {
		p.sync("--one-way-safe").want(t, exitHeld, "Error: 2 paths held in conflict; all else is the same on both sides", "Hint: to list them, with the command for each: wsd sync conflicts ")
		p.want(map[string]string{"a": "mine\n", "b": "mine\n", "c": "base\n"}, map[string]string{"a": "theirs\n", "b": "mine\n", "c": "base\n", "only": "theirs\n"})
		writeFile(t, filepath.Join(p.here, "b"), "mine\n")
	}
	p.run("sync", "resolve", "--one-way-safe", "--theirs", "--state", p.state, filepath.Join(p.here, "only"), p.url).want(t, 0, "held in conflict, and left as they are on both sides: 1 path; to list them: wsd sync conflicts ")
	p.run("sync", "resolve", "--one-way-safe", "--ours", "--state", p.state, filepath.Join(p.here, "a"), p.url).want(t, 0)
	both := map[string]string{"a": "mine\n", "b": "mine\n", "c": "base\n", "only": "theirs\n"}
	p.want(both, both)
}

// What only the server has made is nothing here: 'wsd sync resolve --ours' removes it there and keeps
// it here as a lost version, and brings nothing.
func TestOneWaySafeResolveOurs(t *testing.T) {
	for name, flags := range map[string][]string{"with the flag": {"--one-way-safe"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			p := newSyncPair(t)
			writeFile(t, filepath.Join(p.here, "mine"), "1")
			p.serve()
			p.sync("--one-way-safe").want(t, 0)
			writeFile(t, filepath.Join(p.there, "theirs"), "2")
			writeFile(t, filepath.Join(p.there, "d/e/f"), "3")
			p.sync("--one-way-safe")
			for _, path := range []string{"theirs", "d"} {
				args := append([]string{"sync", "resolve", "--ours", "--state", p.state}, flags...)
				p.run(append(args, filepath.Join(p.here, path), p.url)...).want(t, 0, "(?m)^replaced or removed at the server: 1 version, kept here; to list what is kept: wsd sync lost ")
			}
			want := map[string]string{"mine": "1"}
			p.want(want, want)
			p.run("sync", "lost", "--state", p.state).want(t, 0, "undone .* theirs\n", "undone .* d/e/f\n")
			p.sync("--one-way-safe").want(t, 0, "nothing has changed")
		})
	}
}
