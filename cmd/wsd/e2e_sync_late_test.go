package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What could not be written here is no file that was removed here: each run tries again, and says
// what has come.
func TestLateA(t *testing.T) {
	w := newUserWorld(t)
	for _, name := range []string{"a", "b", "d/c"} {
		w.write(w.there, name, "1")
	}
	w.take(w.here)
	const cannot = "Error: 4 paths could not be written; all else is the same on both sides"
	w.wantSync(1, cannot)
	w.wantSync(1, cannot)
	w.own(w.here)
	w.wantSync(0, "written here now, as runs before were to: 4 paths")
	w.wantFile(filepath.Join(w.here, "d/c"), "1")
	w.wantSync(0, "nothing has changed")

	// What it has had is.
	for _, name := range []string{"a", "b", "d"} {
		if err := os.RemoveAll(filepath.Join(w.here, name)); err != nil {
			t.Fatal(err)
		}
	}
	out, code := w.sync()
	if code != 3 || !strings.Contains(out, "had 3 files when it was last synchronised, and has nothing now") {
		t.Errorf("status %d: %s", code, out)
	}
}

// A file that could not be replaced has not lost its owner.
func TestLateAOwner(t *testing.T) {
	w := newUserWorld(t)
	w.write(w.there, "ro/n", "1")
	w.wantSync(0)
	w.take(filepath.Join(w.here, "ro/n"))
	w.chmod(filepath.Join(w.here, "ro/n"), 0o644)
	w.take(filepath.Join(w.here, "ro"))
	w.write(w.there, "ro/n", "22")
	out, code := w.sync()
	w.wantLines(out, code, 1, "not written here: ro/n: permission denied")
	if n := strings.Count(out, "ro/n"); n != 1 {
		t.Errorf("it says %d lines about ro/n:\n%s", n, out)
	}
}

// A watch of a directory that is emptied ends, however few the files were.
func TestLateB(t *testing.T) {
	p := newSyncPair(t)
	want := map[string]string{}
	for i := range 5 {
		name := fmt.Sprint("d/f", i)
		want[name] = name
		writeFile(t, filepath.Join(p.here, name), name)
	}
	p.serve()
	watch := p.command("sync", "--watch", "--state", p.state, p.here, p.url)
	out := &logBuffer{}
	watch.Stdout, watch.Stderr = out, out
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = watch.Process.Kill() }).Stop()
	waitFor(t, out, "watching both sides")
	if err := os.Rename(filepath.Join(p.here, "d"), filepath.Join(p.home, "d")); err != nil { // all at one moment
		t.Fatal(err)
	}
	_ = watch.Wait()
	if code := watch.ProcessState.ExitCode(); code != 3 || !strings.Contains(out.String(), "here had 5 files when it was last synchronised, and has nothing now") {
		t.Errorf("status %d: %s", code, out)
	}
	p.want(map[string]string{}, want)
	p.sync().want(t, 3, "here had 5 files")
}

// Two servers, or a store beside a server, are one too many.
func TestLateE(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	for _, args := range [][]string{{"sync"}, {"sync", "conflicts"}, {"sync", "resolve", "--ours"}} {
		p.run(append(args, "--connect", "ws://127.0.0.1:1", p.here, p.url)...).want(t, 2, "two servers are named: --connect ws://127.0.0.1:1, and unix://")
	}
	p.run("sync", "--state", p.state, "--connect", p.url, p.here, p.url).want(t, 0)
	for _, flag := range []string{"--workspace", "--store"} {
		p.run("gc", flag, filepath.Join(p.home, "none"), "--connect", p.url).want(t, 2, "--connect excludes --workspace and --store")
	}
}

// exec --sync --mirror reports what it undoes of a command's changes, also with --json, and not with -q.
func TestExecSyncReportsUndone(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "a"), "1")
	p.serve()
	p.sync("--mirror").want(t, 0)
	exec := func(flags ...string) outcome {
		args := append([]string{"exec", "--sync", "--mirror", "--dir", p.here, "--state", p.state, "--connect", p.url}, flags...)
		return p.run(append(args, "--", "sh", "-c", "echo built >artefact; echo over >a")...)
	}
	exec().want(t, 0, "changed at the server, and undone there: 2 versions")
	exec("--json").want(t, 0, `(?m)^{"type":"undone","count":2}$`)
	if out := exec("-q"); strings.Contains(out.stderr, "undone") {
		t.Errorf("-q: %s", out.stderr)
	}
}

// The error about a conflict that comes up during a command does not say that nothing was changed.
func TestExecSyncConflictDuringCommand(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "a"), "1")
	p.serve()
	p.sync().want(t, 0)
	p.run("exec", "--sync", "--on-conflict", "fail", "--dir", p.here, "--state", p.state, "--connect", p.url, "--",
		"sh", "-c", `echo server >a; echo mine >"$0"`, filepath.Join(p.here, "a")).want(t, 3, "nothing came back, since there are conflicts")
}
