package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// states lists the states that are kept by themselves.
func (p *syncPair) states() []string {
	p.t.Helper()
	list, err := filepath.Glob(filepath.Join(p.home, "state", "wsd", "sync", "*.db"))
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// watching begins a watch, with the state that is kept by itself, and waits until it is in step.
func (p *syncPair) watching() (*exec.Cmd, *logBuffer) {
	p.t.Helper()
	watch := p.command("sync", "--watch", p.here, p.url)
	out := &logBuffer{}
	watch.Stdout, watch.Stderr = out, out
	if err := watch.Start(); err != nil {
		p.t.Fatal(err)
	}
	endless := time.AfterFunc(patience, func() { _ = watch.Process.Kill() })
	p.t.Cleanup(func() {
		_ = watch.Process.Kill()
		_ = watch.Wait()
		endless.Stop()
	})
	waitFor(p.t, out, "watching both sides")
	return watch, out
}

// A directory that a watch has in step is in use, by whatever name the server is called.
func TestSyncWatchHoldsDirectory(t *testing.T) {
	p := newSyncPair(t)
	p.runtime, p.url = p.home, "ws://127.0.0.1:0"
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.serve()
	p.url = p.server.url
	other := strings.Replace(p.url, "ws://", "http://", 1)
	p.run("sync", p.here, p.url).want(t, 0)
	watch, _ := p.watching()
	for _, args := range [][]string{
		{"sync", p.here, p.url},
		{"sync", p.here},
		{"sync", p.here, other},
		{"sync", "--watch", p.here},
		{"sync", "--dry-run", p.here, other},
	} {
		o := p.run(args...)
		o.want(t, 1, "is in use by the 'wsd sync --watch' of this directory \\(pid [0-9]+\\)", "to run this command, end it first: 'kill [0-9]+'")
		if strings.Contains(o.stderr, "never in step") {
			t.Errorf("%v: %s", args, o.stderr)
		}
	}
	p.run("sync", "conflicts", p.here).want(t, 0, "no path is held in conflict") // of the watch
	p.run("sync", "conflicts", p.here, other).want(t, 0, "no path is held in conflict")
	p.run("sync", "resolve", "--ours", filepath.Join(p.here, "f")).want(t, exitFailure, "Error: f is not held in conflict")
	p.run("exec", "--sync", "--dir", p.here, "--", "true").want(t, exitTransport, "is in use by the 'wsd sync --watch' of this directory \\(pid [0-9]+\\)", "to run this command, end it first")
	if list := p.states(); len(list) != 1 {
		t.Errorf("states: %v", list)
	}
	if err := watch.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = watch.Wait()
	p.run("sync", p.here).want(t, 0, "nothing has changed")
	p.run("sync", p.here, other).want(t, 0, "nothing has changed")
	if list := p.states(); len(list) != 1 {
		t.Errorf("states: %v", list)
	}
}

// A state that cannot be read fails no run with another server.
func TestSyncDamagedStateApart(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.run("sync", p.here, p.url).want(t, 0)
	list := p.states()
	if len(list) != 1 {
		t.Fatalf("states: %v", list)
	}
	name := strings.TrimSuffix(list[0], ".db")
	damaged := name[:len(name)-16] + strings.Repeat("0", 16) + ".db"
	if err := os.WriteFile(damaged, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	other := newSyncPair(t)
	other.here, other.home = p.here, p.home
	other.serve()
	other.run("sync", p.here, other.url).want(t, 0, "a state of .*/here is left alone, as if there were none: look at .*"+filepath.Base(damaged))
	if list := p.states(); len(list) != 3 || !slices.Contains(list, damaged) {
		t.Errorf("states: %v", list)
	}
	wantFile(t, filepath.Join(other.there, "f"), "f\n")
}

// A directory that has taken the place of the one that is watched is not it, and a watch whose directory
// has gone says so.
func TestSyncWatchReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, dir string){
		"another": func(t *testing.T, dir string) { writeFile(t, filepath.Join(dir, "n1"), "new\n") },
		"empty": func(t *testing.T, dir string) {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		},
		"link": func(t *testing.T, dir string) {
			if err := os.Symlink(dir+".old", dir); err != nil {
				t.Fatal(err)
			}
		},
		"gone": func(*testing.T, string) {},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSyncPair(t)
			for _, name := range []string{"a", "b"} {
				writeFile(t, filepath.Join(p.here, name), name)
			}
			p.serve()
			watch, out := p.watching()
			if err := os.Rename(p.here, p.here+".old"); err != nil {
				t.Fatal(err)
			}
			replace(t, p.here)
			writeFile(t, filepath.Join(p.there, "c"), "c") // the watch hears of it, if of nothing else
			_ = watch.Wait()
			said := strings.Contains(out.String(), "here was removed or renamed while it was kept in step; nothing was changed for that") ||
				name != "gone" && strings.Contains(out.String(), "here was replaced while it was kept in step: another one has its name now") // it may look between
			if code := watch.ProcessState.ExitCode(); code != 3 || !said {
				t.Errorf("status %d: %s", code, out)
			}
			for _, name := range []string{"a", "b", "c"} {
				wantFile(t, filepath.Join(p.there, name), name)
			}
		})
	}
}

// A watch whose LOCAL is renamed or replaced ends at once, also if nobody tells of anything else.
func TestSyncWatchRenamed(t *testing.T) {
	for name, said := range map[string]string{"gone": "was removed or renamed while", "replaced": " while it was kept in step"} {
		t.Run(name, func(t *testing.T) {
			p := newSyncPair(t)
			writeFile(t, filepath.Join(p.here, "a"), "a")
			p.serve()
			watch, out := p.watching()
			if err := os.Rename(p.here, p.here+".old"); err != nil {
				t.Fatal(err)
			}
			if name == "replaced" {
				writeFile(t, filepath.Join(p.here, "b"), "b")
			}
			late := time.AfterFunc(changes.MaxAwait/2, func() { _ = watch.Process.Kill() })
			_ = watch.Wait()
			late.Stop()
			if code := watch.ProcessState.ExitCode(); code != exitRefused || !strings.Contains(out.String(), said) {
				t.Errorf("status %d: %s", code, out)
			}
			wantFile(t, filepath.Join(p.there, "a"), "a")
		})
	}
}

// A directory is the same under its name as long as that names it.
func TestSyncLocalCheckSame(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "here")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(t.TempDir(), "s.db")
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: state})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	root, err := os.Lstat(dir)
	if err != nil {
		t.Fatal(err)
	}
	l := &syncLocal{dir: dir, root: root, db: db}
	writeFile(t, filepath.Join(dir, "f"), "f")
	check := func(want string) {
		t.Helper()
		err := l.checkSame()
		if (err == nil) != (want == "") || err != nil && (!isRefused(err) || !strings.Contains(err.Error(), dir+want)) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	check("")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	check(" was removed or renamed while it was kept in step")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	check(" was replaced while it was kept in step")
	if err := errors.Join(os.Remove(dir), os.Rename(dir+".old", dir)); err != nil {
		t.Fatal(err)
	}
	check("")
}

// Another workspace at the URL of the one of before is told from it, and what can be done is said.
func TestSyncSameURLOtherWorkspace(t *testing.T) {
	p := newSyncPair(t)
	p.runtime = p.home
	writeFile(t, filepath.Join(p.here, "f"), "f\n")
	p.serve()
	p.run("sync", p.here, p.url).want(t, 0)
	p.run("sync", p.here).want(t, 0)
	p.server.end(syscall.SIGTERM)
	p.store, p.there = p.store+"2", p.there+"2"
	writeFile(t, filepath.Join(p.there, "g"), "g\n")
	p.serve()
	o := p.run("sync", p.here)
	o.want(t, 3, "no server was named, and .*/there2 at unix://.* is the one that you started last; .*/here was in step with another workspace, which was served at the same URL\n")
	if strings.Contains(o.stderr, "to synchronise with that") {
		t.Errorf("%s", o.stderr)
	}
	o = p.run("sync", p.here, p.url)
	o.want(t, 3, "is of the workspace .*/there, which was served at unix://.*, and not of the workspace .*/there2, which is served there now; nothing was changed\n",
		"Hint: --state FILE keeps a state of its own for these two sides; to begin anew, remove .*db, and the lost versions with it")
	if strings.Contains(o.stderr, "or none") {
		t.Errorf("%s", o.stderr)
	}
}
