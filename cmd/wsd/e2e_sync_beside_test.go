package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
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

// front forwards TCP connections to the server at a socket until the test ends, and returns its address. It refuses
// them while there is no server.
func front(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				_ = near.Close()
				continue
			}
			forward := func(to, from net.Conn) {
				_, _ = io.Copy(to, from)
				_ = to.Close()
				_ = from.Close()
			}
			all.Go(func() { forward(near, far) })
			all.Go(func() { forward(far, near) })
		}
	})
	t.Cleanup(func() { // after the commands have ended
		_ = l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

// A watch that waits to connect again restores, lists and collects.
func TestBesideWatchWithoutServer(t *testing.T) {
	p := newSyncPair(t)
	p.runtime = p.home
	address := front(t, strings.TrimPrefix(p.url, "unix://"))
	p.serve()
	writeFile(t, filepath.Join(p.here, "a"), "base")
	socket := p.url
	p.url = "http://" + address
	p.run("sync", p.here, p.url).want(t, 0)
	w := &besideWatch{syncPair: p}
	w.start("--on-conflict", "theirs")
	w.conflict("a")
	w.both("a", "theirs a")
	p.server.end(syscall.SIGTERM)
	waitFor(t, w.out, "trying again")
	p.run("gc", p.here).want(t, 0, "deleted ")
	p.run("sync", "lost", p.here).want(t, 0, "(?m)^1 .* a$")
	p.run("sync", "restore", filepath.Join(p.here, "a")).want(t, 0, "restored version 1")
	wantFile(t, filepath.Join(p.here, "a"), "mine a")
	p.url = socket
	p.serve()
	w.both("a", "mine a")
	waitFor(t, w.out, "to the server: 1 path")
	w.end()
}

// A watch that was stopped does not do later what a command has asked for that has ended. One that was killed is none.
func TestBesideWatchThatIsStopped(t *testing.T) {
	w := newBesideWatch(t, "--on-conflict", "hold")
	w.conflict("a")
	if err := w.watch.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.run("sync", w.here, w.url).want(t, exitFailure, "is in use by the 'wsd sync --watch' of this directory", "Hint: the watch brings changes over by itself")
	resolve := w.command("sync", "resolve", "--theirs", filepath.Join(w.here, "a"), w.url)
	if err := resolve.Start(); err != nil {
		t.Fatal(err)
	}
	_ = resolve.Process.Signal(syscall.SIGTERM)
	if err := resolve.Wait(); err == nil {
		t.Error("it is resolved by a watch that is stopped")
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

// All lost versions are listed beside a watch, and each can be restored, however many there are.
func TestBesideWatchManyLost(t *testing.T) {
	p := newSyncPair(t)
	p.runtime = p.home
	p.serve()
	writeFile(t, filepath.Join(p.here, "a"), "base")
	p.run("sync", p.here, p.url).want(t, 0)
	const versions = 1900
	long := strings.Repeat(strings.Repeat("long", 50)+"/", 18)
	p.lose(versions, long)
	before := p.run("sync", "lost", "--json", p.here)
	before.want(t, 0)
	if n := strings.Count(before.stdout, "\n"); n != versions {
		t.Fatalf("%d versions are kept, want %d", n, versions)
	}
	w := &besideWatch{syncPair: p}
	w.start()
	if o := w.run("sync", "lost", "--json", w.here); o.code != 0 || o.stdout != before.stdout {
		t.Errorf("the list is another one beside a watch: status %d, %d and %d bytes\n%s", o.code, len(o.stdout), len(before.stdout), o.stderr)
	}
	w.run("sync", "lost", filepath.Join(w.here, long, "7")).want(t, 0, `^VERSION .*\n7 .*/7\n$`)
	w.run("sync", "restore", filepath.Join(w.here, long, "1899")).want(t, 0, "restored version 1899 of ")
	w.both(long+"1899", "base")
	w.end()
}

// lose has the state of a pair keep lost versions: number N is of the file N in a directory.
func (p *syncPair) lose(versions int, dir string) {
	p.t.Helper()
	list := p.states()
	if len(list) != 1 {
		p.t.Fatalf("the states: %v", list)
	}
	err := withKept(p.t.Context(), list[0], func(s *keptState) error {
		parts, err := s.forest.Stage(p.t.Context(), strings.NewReader("base"))
		if err != nil {
			return err
		}
		_, err = s.tree.Update(p.t.Context(), func(e *tree.Edit) error {
			for i := range versions {
				v := lost.Version{Path: localMount + "/" + dir + strconv.Itoa(i+1), At: time.Now(), Why: lost.Restored, Entry: tree.Entry{
					Kind: tree.KindFile, Mode: 0o644, MTime: time.Now(), Size: int64(len("base")), Parts: parts,
				}}
				if err := lost.Keep(e, &v); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// A command that does not name the part of the workspace that a watch has in step is told which one that is.
func TestBesideWatchOfPart(t *testing.T) {
	p := newSyncPair(t)
	p.runtime = p.home
	p.serve()
	writeFile(t, filepath.Join(p.there, "part/a"), "base")
	part := []string{"--remote-path", "/workspace/part"}
	p.run(append(append([]string{"sync"}, part...), p.here, p.url)...).want(t, 0)
	w := &besideWatch{syncPair: p}
	w.start(part...)
	list := p.states()
	if len(list) != 1 {
		t.Fatalf("the states: %v", list)
	}
	w.run("sync", "conflicts", "--state", list[0], w.here, w.url).want(t, exitRefused, "Hint: name the directory .*, with --remote-path /workspace/part")
	w.run("sync", "conflicts", "--remote-path", "/workspace/part", w.here, w.url).want(t, 0, "no path is held in conflict")
	w.end()
}
