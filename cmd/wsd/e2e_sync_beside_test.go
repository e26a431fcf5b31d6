package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A besideWatch is a pair that a watch keeps in step, and what that prints.
type besideWatch struct {
	*syncPair
	watch *exec.Cmd
	out   *logBuffer
}

func newBesideWatch(t *testing.T, flags ...string) *besideWatch {
	t.Helper()
	p := newSyncPair(t)
	p.runtime = p.home
	p.serve()
	for _, name := range []string{"a", "b", "d/c"} {
		writeFile(t, filepath.Join(p.here, name), "base")
	}
	p.run("sync", p.here, p.url).want(t, 0)
	w := &besideWatch{syncPair: p}
	w.start(flags...)
	return w
}

// start starts a watch, and waits until both sides are the same.
func (w *besideWatch) start(flags ...string) {
	w.t.Helper()
	w.out = &logBuffer{}
	w.watch = w.command(append(append([]string{"sync", "--watch"}, flags...), w.here, w.url)...)
	w.watch.Stdout, w.watch.Stderr = w.out, w.out
	if err := w.watch.Start(); err != nil {
		w.t.Fatal(err)
	}
	watch := w.watch
	w.t.Cleanup(func() {
		_ = watch.Process.Kill() // ended already, unless the test has failed
		_ = watch.Wait()
	})
	waitFor(w.t, w.out, "watching both sides")
}

// end ends the watch, which has nothing left to do.
func (w *besideWatch) end() {
	w.t.Helper()
	err := w.watch.Process.Signal(syscall.SIGTERM)
	if err == nil {
		err = w.watch.Wait()
	}
	if err != nil {
		w.t.Errorf("the watch ended with %v\n%s", err, w.out)
	}
}

// both waits until a path has the same on both sides.
func (w *besideWatch) both(name, want string) {
	w.t.Helper()
	deadline := time.After(patience)
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		here, _ := os.ReadFile(filepath.Join(w.here, name))
		there, _ := os.ReadFile(filepath.Join(w.there, name))
		if string(here) == want && string(there) == want {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("%s: %q here, %q at the server, want %q\n%s", name, here, there, want, w.out)
		}
	}
}

// conflict has paths held in conflict by the watch.
func (w *besideWatch) conflict(names ...string) {
	w.t.Helper()
	if err := w.watch.Process.Signal(syscall.SIGSTOP); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		writeFile(w.t, filepath.Join(w.here, name), "mine "+name)
		writeFile(w.t, filepath.Join(w.there, name), "theirs "+name)
	}
	if err := w.watch.Process.Signal(syscall.SIGCONT); err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		waitFor(w.t, w.out, "conflict: "+name+": ")
	}
}

// The commands about what is held and what was lost work beside a watch of the same state: as they are
// printed, and what is decided is done at once.
func TestBesideWatch(t *testing.T) {
	w := newBesideWatch(t, "--on-conflict", "hold")
	w.run("sync", "conflicts", w.here, w.url).want(t, 0, "no path is held in conflict")
	w.conflict("a", "b", "d/c")
	printed := regexp.MustCompile(`; held; to decide, with --ours \(the one here\), --theirs or --both: wsd (sync resolve --ours \S+/here/a unix:\S+)\n`).FindStringSubmatch(w.out.String())
	if printed == nil {
		t.Fatalf("no command that works beside it:\n%s", w.out)
	}
	w.run("sync", "conflicts", w.here, w.url).want(t, 0, "(?m)^conflict: a: here", "(?m)^conflict: d/c: here .*: wsd sync resolve --ours ")
	w.run("sync", "conflicts", "--json", w.here, w.url).want(t, 0, `(?m)^\{"type":"conflict","path":"d/c",`)
	w.run(strings.Fields(printed[1])...).want(t, 0, "to the server: 1 path")
	w.both("a", "mine a")
	w.run("sync", "resolve", "--ours", filepath.Join(w.here, "a"), w.url).want(t, exitFailure, "Error: a is not held in conflict", "Hint: to list what is held: wsd sync conflicts ")
	o := w.run("sync", "resolve", "--theirs", filepath.Join(w.here, "b"), w.url)
	o.want(t, 0, `(?m)^conflict: b: here 6 B .*; kept the server's; to bring the other one back: wsd sync restore --version \d+ \S+/here/b$`)
	w.both("b", "theirs b")
	waitFor(t, w.out, "kept the server's") // the watch says so too
	w.run("sync", "resolve", "--both", w.here, w.url).want(t, 0, "kept the server's, and the one here as d/c.conflict-")
	w.both("d/c", "theirs d/c")
	w.run("sync", "conflicts", w.here, w.url).want(t, 0, "no path is held in conflict")
	waitFor(t, w.out, "nothing is held in conflict any more")

	w.run("sync", "lost", w.here).want(t, 0, `(?m)^VERSION .*\n\d+ +20\S+ \S+ +conflict +8 B +a\n\d+ .* b$`)
	w.run("sync", "lost", "--json", filepath.Join(w.here, "b")).want(t, 0, `^\{"type":"lost","version":\d+,.*"path":"b","file":"\S+/here/b","state":"\S+\.db",`)
	restore := regexp.MustCompile(`wsd (sync restore \S+ \S+ \S+)\n`).FindStringSubmatch(o.stderr)
	w.run(strings.Fields(restore[1])...).want(t, 0, `restored version \d+ of \S+/here/b; the one that was there is version \d+`)
	w.both("b", "mine b")
	w.run("sync", "restore", filepath.Join(w.here, "b")).want(t, 0, "restored version")
	w.both("b", "theirs b")
	w.run("sync", "restore", "--version", "99", filepath.Join(w.here, "b")).want(t, exitFailure, "has no version 99")
	to := filepath.Join(w.home, "to")
	w.run("sync", "restore", "--to", to, filepath.Join(w.here, "a")).want(t, 0, "wrote version")
	wantFile(t, to, "theirs a")
	w.run("sync", "restore", "--to", to, filepath.Join(w.here, "a")).want(t, exitFailure, "is there already, and is not replaced", "Hint: name a new file")

	// What the watch was not told is not done.
	w.run("sync", "resolve", "--theirs", "--max-delete", "1", w.here, w.url).want(t, exitFailure, "was not given --max-delete 1", "Hint: leave it out, or end the watch first")
	other := newSyncPair(t)
	other.serve()
	states, err := filepath.Glob(filepath.Join(w.home, "state/wsd/sync/*.db"))
	if err != nil || len(states) != 1 {
		t.Fatalf("the states: %v, %v", states, err)
	}
	w.run("sync", "conflicts", "--state", states[0], w.here, other.url).want(t, exitRefused, "the state .* is of the server .*, and not of ")
	w.run("sync", "conflicts", "--state", states[0], w.here, w.url).want(t, 0, "no path is held in conflict")
	w.end()
}

// Several commands at once are answered one after the other.
func TestBesideWatchAtOnce(t *testing.T) {
	w := newBesideWatch(t, "--on-conflict", "hold")
	w.conflict("a", "b")
	var all sync.WaitGroup
	for _, args := range [][]string{
		{"resolve", "--theirs", filepath.Join(w.here, "a"), w.url}, {"resolve", "--ours", filepath.Join(w.here, "b"), w.url}, {"lost", w.here},
	} {
		all.Go(func() { w.run(append([]string{"sync"}, args...)...).want(t, 0) })
	}
	all.Wait()
	w.both("a", "theirs a")
	w.both("b", "mine b")
	waitFor(t, w.out, "nothing is held in conflict any more")
	w.end()
}

// A watch that waits to connect again restores and lists.
func TestBesideWatchWithoutServer(t *testing.T) {
	p := newSyncPair(t)
	p.runtime = p.home
	serve := func(url string) {
		t.Helper()
		p.server = startReal(t, p.command("serve", "--workspace", p.there, "--store", p.store, "--listen", url))
	}
	serve("ws://127.0.0.1:0")
	url := p.server.url
	p.url = strings.Replace(url, "ws:", "http:", 1)
	writeFile(t, filepath.Join(p.here, "a"), "base")
	p.run("sync", p.here, p.url).want(t, 0)
	w := &besideWatch{syncPair: p}
	w.start("--on-conflict", "theirs")
	w.conflict("a")
	w.both("a", "theirs a")
	p.server.end(syscall.SIGTERM)
	waitFor(t, w.out, "trying again")
	p.run("sync", "lost", p.here).want(t, 0, "(?m)^1 .* a$")
	p.run("sync", "restore", filepath.Join(p.here, "a")).want(t, 0, "restored version 1")
	wantFile(t, filepath.Join(p.here, "a"), "mine a")
	serve(url)
	w.both("a", "mine a")
	waitFor(t, w.out, "to the server: 1 path")
	w.end()
}

// A watch that is stopped is not waited for long, and does not do later what nobody waits for. One that was
// killed is none.
func TestBesideWatchThatIsStopped(t *testing.T) {
	w := newBesideWatch(t, "--on-conflict", "hold")
	w.conflict("a")
	if err := w.watch.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.run("sync", "resolve", "--theirs", filepath.Join(w.here, "a"), w.url).want(t, exitFailure, "is in use by pid", "Hint: another 'wsd sync' of this directory runs; wait for its end, or end it")
	if d := time.Since(began); d < doorSilence || d > doorSilence+patience/2 {
		t.Errorf("after %v", d)
	}
	if err := w.watch.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.run("sync", "conflicts", w.here, w.url).want(t, 0, "(?m)^conflict: a: here")
	if err := w.watch.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = w.watch.Wait()
	if left, err := filepath.Glob(filepath.Join(w.home, "wsd/watch-*")); err != nil || len(left) != 1 {
		t.Errorf("what the watch has left: %v, %v", left, err)
	}
	w.run("sync", "conflicts", w.here, w.url).want(t, 0, "(?m)^conflict: a: here")
	w.run("sync", "lost", w.here).want(t, 0, "no versions are kept")
	w.start("--on-conflict", "hold")
	w.run("sync", "resolve", "--theirs", filepath.Join(w.here, "a"), w.url).want(t, 0)
	w.both("a", "theirs a")
	waitFor(t, w.out, "nothing is held in conflict any more")
	w.end()
}
