package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/workspace"
)

// A syncPair is a directory, and a server with another one.
type syncPair struct {
	t           *testing.T
	here, there string
	state       string // of here
	store       string // of the server
	url         string
	home        string
	runtime     string // where running servers are found, "" for nowhere
	server      *realServer
}

func newSyncPair(t *testing.T) *syncPair {
	t.Helper()
	dir := shortDir(t)
	p := &syncPair{
		t: t, here: filepath.Join(dir, "here"), there: filepath.Join(dir, "there"), home: filepath.Join(dir, "home"),
		state: filepath.Join(dir, "here.db"), store: filepath.Join(dir, "there.db"), url: "unix://" + filepath.Join(dir, "s"),
	}
	for _, d := range []string{p.here, p.there, p.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (p *syncPair) serve() {
	p.t.Helper()
	p.server = startReal(p.t, p.command("serve", "--workspace", p.there, "--store", p.store, "--listen", p.url))
}

func (p *syncPair) command(args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := program(p.t, args...)
	cmd.Env = append(cmd.Env, "HOME="+p.home, "XDG_STATE_HOME="+filepath.Join(p.home, "state"))
	if p.runtime != "" {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+p.runtime)
	}
	return cmd
}

// An outcome is what a command has printed, and its status.
type outcome struct {
	stdout, stderr string
	code           int
}

func (p *syncPair) run(args ...string) outcome {
	p.t.Helper()
	cmd := p.command(args...)
	var out, errs logBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Start()
	if err == nil {
		endless := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		err = cmd.Wait()
		endless.Stop()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
		p.t.Fatalf("wsd %v: %v\n%s", args, err, &errs)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// sync runs wsd sync with the state of the pair.
func (p *syncPair) sync(args ...string) outcome {
	p.t.Helper()
	return p.run(append(append([]string{"sync", "--state", p.state}, args...), p.here, p.url)...)
}

// want checks a status, and that what was printed has some texts.
func (o outcome) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if o.code != code {
		t.Errorf("status %d, want %d\nstdout: %s\nstderr: %s", o.code, code, o.stdout, o.stderr)
	}
	for _, text := range texts {
		if !regexp.MustCompile(text).MatchString(o.stdout + o.stderr) {
			t.Errorf("%q is missing\nstdout: %s\nstderr: %s", text, o.stdout, o.stderr)
		}
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s: %q, %v; want %q", path, got, err, want)
	}
}

// lose keeps a version of a path in a store that nobody has open.
func lose(t *testing.T, store, path, text string, mode uint32, at time.Time) {
	t.Helper()
	w, err := workspace.OpenStore(t.Context(), workspace.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	of, err := w.Forest.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := w.Forest.Stage(t.Context(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	v := lost.Version{Path: path, At: time.Now(), Why: lost.Conflict, Entry: tree.Entry{
		Kind: tree.KindFile, Mode: mode, MTime: at, Size: int64(len(text)), Parts: parts,
	}}
	if _, err := of.Update(t.Context(), func(e *tree.Edit) error { return lost.Keep(e, &v) }); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Versions that are kept are listed and come back, with mode and time, to a path that has
// something, that is gone, and whose directory is gone; what was there is kept.
func TestLosersAreFiles(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "zzz"), "a\n")
	writeFile(t, filepath.Join(p.here, "d/e/f"), "old\n")
	writeFile(t, filepath.Join(p.here, "keep"), "")
	p.sync().want(t, 0)
	then := time.Date(2020, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	lose(t, p.state, "/workspace/zzz", "first\n", 0o600, then)
	lose(t, p.state, "/workspace/zzz", "my-evening-work\n", 0o750, then)
	lose(t, p.state, "/workspace/d/e/f", "deep\n", 0o644, then)

	list := p.run("sync", "lost", "--state", p.state)
	list.want(t, 0, `(?m)^VERSION  LOST +WHY +SIZE +PATH$`, `(?m)^2 +20\S+ \S+ +conflict +16 B +zzz\n3 .* d/e/f$`)
	var first syncLost
	line, _, _ := strings.Cut(p.run("sync", "lost", "--json", "--state", p.state).stdout, "\n")
	if err := json.Unmarshal([]byte(line), &first); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if first.Type != "lost" || first.Version != 1 || first.Path != "zzz" || first.File != filepath.Join(p.here, "zzz") || first.Entry.Mode != "0600" || first.Entry.Size != 6 || first.Entry.MTime != "2020-01-02T03:04:05.006Z" {
		t.Errorf("the first version: %+v", first)
	}

	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "zzz")).want(t, 0, `restored version 2 of \S+/here/zzz; the one that was there is version 4`)
	wantFile(t, filepath.Join(p.here, "zzz"), "my-evening-work\n")
	if info, err := os.Stat(filepath.Join(p.here, "zzz")); err != nil || info.Mode() != 0o750 || !info.ModTime().Equal(then) {
		t.Errorf("mode and time: %v, %v", info, err)
	}
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "zzz")).want(t, 0, "restored version 4")
	wantFile(t, filepath.Join(p.here, "zzz"), "a\n")
	p.run("sync", "restore", "--state", p.state, "--version", "2", filepath.Join(p.here, "zzz")).want(t, 0, "restored version 2")
	p.run("sync", "restore", "--state", p.state, "--version", "2", filepath.Join(p.here, "zzz")).want(t, 0, "is version 2 already")
	p.run("sync", "restore", "--state", p.state, "--version", "3", filepath.Join(p.here, "zzz")).want(t, 1, "has no version 3", "'wsd sync lost' lists")
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "keep")).want(t, 1, "no version of .*/keep is kept")

	if err := os.RemoveAll(filepath.Join(p.here, "d")); err != nil {
		t.Fatal(err)
	}
	p.sync().want(t, 0)
	wantFile(t, filepath.Join(p.there, "zzz"), "my-evening-work\n")
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "d/e/f")).want(t, 0, "restored version 3")
	p.sync().want(t, 0)
	wantFile(t, filepath.Join(p.there, "d/e/f"), "deep\n")

	// What is in the way stays.
	if err := os.RemoveAll(filepath.Join(p.here, "d/e")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.here, "d/e"), "a file\n")
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "d/e/f")).want(t, 1, "d/e is no directory any more")
	wantFile(t, filepath.Join(p.here, "d/e"), "a file\n")
	if err := os.Remove(filepath.Join(p.here, "zzz")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.here, "zzz/in"), "in\n")
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "zzz")).want(t, 1, "zzz is a directory now")
	out := filepath.Join(p.home, "out")
	p.run("sync", "restore", "--state", p.state, "--to", out, filepath.Join(p.here, "zzz")).want(t, 0, "wrote version")
	wantFile(t, out, "a\n")
	p.run("sync", "restore", "--state", p.state, "--to", out, filepath.Join(p.here, "zzz")).want(t, 1, "is there already")

	// A directory that is gone is not made with one file in it.
	if err := os.RemoveAll(p.here); err != nil {
		t.Fatal(err)
	}
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "zzz")).want(t, 1, "here is gone or empty", "--to FILE")
	if _, err := os.Stat(p.here); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

// The state is found by the path: from below the directory, through a link, and beside
// other directories. A running sync that cannot be asked has it for itself.
func TestLosersAreFound(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "sub/f"), "now\n")
	p.run("sync", p.here, p.url).want(t, 0)
	stores, err := filepath.Glob(filepath.Join(p.home, "state/wsd/sync/*.db"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("the states: %v, %v", stores, err)
	}
	lose(t, stores[0], "/workspace/sub/f", "before\n", 0o644, time.Now())
	for _, dir := range []string{p.here, filepath.Join(p.here, "sub")} {
		p.run("sync", "lost", dir).want(t, 0, `(?m)^1 .* sub/f$`)
	}
	p.run("sync", "lost", p.home).want(t, 1, "no 'wsd sync' keeps a state of it", "--state FILE")
	link := filepath.Join(p.home, "link")
	if err := os.Symlink(filepath.Join(p.here, "sub"), link); err != nil {
		t.Fatal(err)
	}

	watch := p.command("sync", "--watch", "--json", p.here, p.url)
	p.runtime = shortDir(t) // where the watch does not listen
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	// A change is sent while it runs, so that it is known to have the state open.
	writeFile(t, filepath.Join(p.here, "sub/g"), "")
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	p.run("sync", "lost", p.here).want(t, 1, "in use", "wait for its end, or end it")
	p.run("sync", "restore", filepath.Join(p.here, "sub/f")).want(t, 1, "in use", "wait for its end, or end it")
	if err := watch.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Fatal(err)
	}
	p.run("sync", "restore", filepath.Join(link, "f")).want(t, 0, "restored version 1 of .*/here/sub/f")
	wantFile(t, filepath.Join(p.here, "sub/f"), "before\n")
	p.run("sync", "--lost-max-age", "1ns", p.here, p.url).want(t, 0)
	p.run("sync", "lost", p.here).want(t, 0, "no versions are kept")
}

// The store of a server is read while no server has it open.
func TestLosersOfAServer(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "now\n")
	p.sync().want(t, 0)
	p.run("sync", "lost", "--state", p.store).want(t, 1, "in use", "'wsd serve' has it open")
	p.server.end(syscall.SIGTERM)
	lose(t, p.store, "/workspace/f", "written there\n", 0o644, time.Now())
	p.run("sync", "lost", "--state", p.store).want(t, 0, `(?m)^1 .* f$`)
	p.run("sync", "restore", "--state", p.store, filepath.Join(p.there, "f")).want(t, 0, "restored version 1")
	p.run("sync", "lost", "--state", filepath.Join(p.home, "none.db")).want(t, 1, "there is no store")
	p.serve()
	p.sync().want(t, 0)
	wantFile(t, filepath.Join(p.here, "f"), "written there\n")
}

// A conflict of modes says the modes, and one of content the content.
func TestConflictOfModes(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "text\n")
	writeFile(t, filepath.Join(p.here, "d/g"), "text\n")
	p.sync().want(t, 0)
	for path, mode := range map[string]os.FileMode{
		filepath.Join(p.here, "f"): 0o755, filepath.Join(p.there, "f"): 0o600,
		filepath.Join(p.here, "d"): 0o700, filepath.Join(p.there, "d"): 0o750,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	p.sync("--on-conflict", "theirs").want(t, 0,
		"(?m)^conflict: f: here mode 0755, at the server mode 0600; kept the server's",
		"(?m)^conflict: d: here mode 0700, at the server mode 0750; kept the server's")
}

// A conflict names the command that brings the version back that was not kept, also where
// the name is one that a shell would take apart.
func TestConflictNamesTheCommand(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	name := "it's a\tfile"
	writeFile(t, filepath.Join(p.here, name), "base\n")
	writeFile(t, filepath.Join(p.here, "plain"), "base\n")
	p.sync().want(t, 0)
	for _, n := range []string{name, "plain"} {
		writeFile(t, filepath.Join(p.here, n), "mine\n")
		writeFile(t, filepath.Join(p.there, n), "theirs\n")
	}
	out := p.sync("--on-conflict", "theirs")
	out.want(t, 0, `(?m); kept the server's; to bring the other one back: wsd sync restore --version \d+ --state \S+/here\.db \S+/here/plain$`)
	wantFile(t, filepath.Join(p.here, name), "theirs\n")
	shell := bashPath(t)
	commands := regexp.MustCompile(`wsd (sync restore .*)`).FindAllStringSubmatch(out.stderr, -1)
	if len(commands) != 2 {
		t.Fatalf("the commands: %q", commands)
	}
	for _, c := range commands {
		cmd := p.command()
		wsd := cmd.Path
		cmd.Path, cmd.Args = shell, []string{"bash", "-c", wsd + " " + c[1]}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c[1], err, out)
		}
	}
	for _, n := range []string{name, "plain"} {
		wantFile(t, filepath.Join(p.here, n), "mine\n")
	}
}

// A path can be held in conflict, and resolved later.
func TestConflictHeldAndResolved(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	for _, n := range []string{"a", "d/b", "d/c"} {
		writeFile(t, filepath.Join(p.here, n), "base\n")
	}
	p.sync().want(t, 0)
	for _, n := range []string{"a", "d/b", "d/c"} {
		writeFile(t, filepath.Join(p.here, n), "mine\n")
		writeFile(t, filepath.Join(p.there, n), "theirs\n")
	}
	writeFile(t, filepath.Join(p.here, "other"), "moves\n")
	p.sync("--on-conflict", "hold", "--dry-run").want(t, exitHeld, "(?m)^conflict: a: .*; would be held$", "Error: 3 paths would be held in conflict")
	p.sync("--on-conflict", "hold").want(t, exitHeld,
		`(?m)^conflict: a: here 5 B of \S+ \S+, at the server 7 B of \S+ \S+; held; to decide, with --ours \(the one here\), --theirs or --both: wsd sync resolve --ours --state \S+ \S+/here/a unix:\S+$`, "Error: 3 paths held in conflict; all else is the same on both sides")
	p.sync("--on-conflict", "hold").want(t, exitHeld, "Error: 3 paths held in conflict")
	wantFile(t, filepath.Join(p.there, "other"), "moves\n")
	wantFile(t, filepath.Join(p.here, "a"), "mine\n")
	wantFile(t, filepath.Join(p.there, "a"), "theirs\n")
	p.run("sync", "conflicts", "--state", p.state, p.here, p.url).want(t, 0, "(?m)^conflict: a: here", "(?m)^conflict: d/c: here")
	p.run("sync", "resolve", "--state", p.state, filepath.Join(p.here, "a"), p.url).want(t, 2, "wants one of --ours, --theirs and --both")
	p.run("sync", "resolve", "--ours", "--state", p.state, filepath.Join(p.here, "other"), p.url).want(t, 1, "Error: other is not held in conflict", `Hint: to list what is held: wsd sync conflicts --state \S+ \S+/here unix:`)
	p.run("sync", "resolve", "--ours", "--state", p.state, filepath.Join(p.here, "a"), p.url).want(t, 0)
	wantFile(t, filepath.Join(p.there, "a"), "mine\n")
	p.run("sync", "resolve", "--theirs", "--state", p.state, filepath.Join(p.here, "d"), p.url).want(t, 0)
	wantFile(t, filepath.Join(p.here, "d/b"), "theirs\n")
	wantFile(t, filepath.Join(p.here, "d/c"), "theirs\n")
	for _, n := range []string{"a", "d/c"} {
		writeFile(t, filepath.Join(p.here, n), "mine again\n")
		writeFile(t, filepath.Join(p.there, n), "theirs again\n")
	}
	p.sync("--on-conflict", "hold").want(t, exitHeld, "Error: 2 paths held in conflict")
	p.run("sync", "resolve", "--ours", "--state", p.state, p.here, p.url).want(t, 0) // all of them
	wantFile(t, filepath.Join(p.there, "a"), "mine again\n")
	wantFile(t, filepath.Join(p.there, "d/c"), "mine again\n")
	p.run("sync", "conflicts", "--json", "--state", p.state, p.here, p.url).want(t, 0)
	p.run("sync", "conflicts", "--state", p.state, p.here, p.url).want(t, 0, "no path is held in conflict")
	p.run("sync", "conflicts", p.here, p.url).want(t, 1, "was never in step with the server")
}

// A version of a path comes back by the command that was printed, also when a link has taken the place of a
// directory above it: the path is one of the tree, and links below LOCAL are not followed.
func TestLosersBehindALink(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "d/e/x"), "base\n")
	writeFile(t, filepath.Join(p.here, "l/x"), "base\n")
	writeFile(t, filepath.Join(p.here, "keep"), "")
	p.run("sync", p.here, p.url).want(t, 0)
	other := newSyncPair(t) // where the link leads to is synchronised too, and has lost a version of that name
	other.home = p.home
	other.serve()
	writeFile(t, filepath.Join(other.here, "e/x"), "other\n")
	other.run("sync", other.here, other.url).want(t, 0)
	writeFile(t, filepath.Join(other.here, "e/x"), "other mine\n")
	writeFile(t, filepath.Join(other.there, "e/x"), "other theirs\n")
	other.run("sync", "--on-conflict", "theirs", other.here, other.url).want(t, 0)

	writeFile(t, filepath.Join(p.here, "d/e/x"), "mine\n")
	writeFile(t, filepath.Join(p.here, "l/x"), "mine\n")
	for name, to := range map[string]string{"d": other.here, "l": "nowhere"} {
		if err := errors.Join(os.RemoveAll(filepath.Join(p.there, name)), os.Symlink(to, filepath.Join(p.there, name))); err != nil {
			t.Fatal(err)
		}
	}
	o := p.run("sync", "--on-conflict", "theirs", p.here, p.url)
	o.want(t, 0)
	out := filepath.Join(p.home, "out")
	for _, name := range []string{"d/e/x", "l/x"} {
		file := filepath.Join(p.here, name)
		printed := regexp.MustCompile(`wsd (sync restore --version \d+ (?:--state \S+ )?` + file + `)\n`).FindStringSubmatch(o.stderr)
		if printed == nil {
			t.Fatalf("no command for %s:\n%s", name, o.stderr)
		}
		dir := strings.SplitN(name, "/", 2)[0]
		p.run(strings.Fields(printed[1])...).want(t, 1, "Error: .*/here/"+dir+" is no directory any more", "Hint: move it away, or write the version elsewhere with --to FILE")
		p.run("sync", "restore", file).want(t, 1, "/here/"+dir+" is no directory any more")
		p.run("sync", "restore", "--to", out, file).want(t, 0, "wrote version")
		wantFile(t, out, "mine\n")
		p.run("sync", "lost", filepath.Dir(file)).want(t, 0, `(?m)^\d+ .* `+name+`$`)
		if err := errors.Join(os.Remove(out), os.Rename(filepath.Join(p.here, dir), filepath.Join(p.here, dir+".away"))); err != nil {
			t.Fatal(err)
		}
		p.run(strings.Fields(printed[1])...).want(t, 0, "restored version")
		wantFile(t, file, "mine\n")
	}
	wantFile(t, filepath.Join(other.here, "e/x"), "other theirs\n")

	// Links above LOCAL, at it, and from elsewhere into it are followed.
	above := filepath.Join(p.home, "above")
	at := filepath.Join(p.home, "at")
	into := filepath.Join(p.home, "into")
	if err := errors.Join(os.Symlink(filepath.Dir(p.here), above), os.Symlink(p.here, at), os.Symlink(filepath.Join(p.here, "d/e"), into)); err != nil {
		t.Fatal(err)
	}
	for i, file := range []string{filepath.Join(above, "here/d/e/x"), filepath.Join(at, "d/e/x"), filepath.Join(into, "x")} {
		text := fmt.Sprintf("before link %d\n", i)
		writeFile(t, filepath.Join(p.here, "d/e/x"), text)
		p.run("sync", "restore", file).want(t, 0, "restored version")
		if got, err := os.ReadFile(filepath.Join(p.here, "d/e/x")); err != nil || string(got) == text {
			t.Errorf("%s: restored nothing: %q, %v", file, got, err)
		}
		p.run("sync", "restore", file).want(t, 0, "restored version")
		wantFile(t, filepath.Join(p.here, "d/e/x"), text)
		p.run("sync", "lost", file).want(t, 0, `(?m)^\d+ .* d/e/x$`)
	}
}
