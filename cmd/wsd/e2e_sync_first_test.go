package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/client/mirror"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/workspace"
)

// strangers gives both sides files of their own.
func (p *syncPair) strangers() {
	p.t.Helper()
	for path, text := range map[string]string{
		"here/a": "mine\n", "here/d/only-here": "1\n", "here/same": "same\n",
		"there/a": "theirs\n", "there/e/f/only-there": "2\n", "there/same": "same\n",
	} {
		writeFile(p.t, filepath.Join(filepath.Dir(p.here), path), text)
	}
}

// want checks what both sides have.
func (p *syncPair) want(here, there map[string]string) {
	p.t.Helper()
	if diff := cmp.Diff(here, readTree(p.t, p.here)); diff != "" {
		p.t.Errorf("here (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(there, readTree(p.t, p.there)); diff != "" {
		p.t.Errorf("there (-want +got):\n%s", diff)
	}
}

// Two sides that both have files and were never in step are not mixed: it is said how many
// files would go each way, and nothing is left that would make the next run do it.
func TestFirstContact(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	here, there := readTree(t, p.here), readTree(t, p.there)
	for range 2 {
		p.sync().want(t, 3,
			`Error: \S+/here and the server both have files and were never in step: 1 file would go to the server \(d/only-here\), 1 would come from there \(e/f/only-there\), 1 differs \(a\); nothing was changed`,
			"Hint: --merge brings both together, --from here .*, --from there ")
	}
	p.sync("--dry-run").want(t, 3, "--merge")
	p.sync("--watch").want(t, 3, "--merge")
	p.sync("--json").want(t, 3, `(?m)^{"type":"contact","toRemote":1,"toLocal":1,"differ":1,"same":1,"toRemoteNames":\["d/only-here"\],"toLocalNames":\["e/f/only-there"\],"differNames":\["a"\]}$`)
	cmd := p.command("exec", "--sync", "--dir", p.here, "--state", p.state, "--connect", p.url, "--", "touch", "ran")
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exec --sync: %v, %s", err, out)
	}
	p.want(here, there)
	if _, err := os.Stat(p.state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a state is left: %v", err)
	}
	p.sync("--merge").want(t, 0, "conflict: a: ", "kept the server's, and the one here as a.conflict-")
	p.sync().want(t, 0, "nothing has changed")
}

// What is offered instead is what goes with the other flags.
func TestFirstContactOneWay(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	p.sync("--mirror").want(t, 3, "Hint: --from here makes the server what is here; without --mirror, --merge brings both together")
	p.sync("--one-way-safe").want(t, 3, "Hint: --merge sends what is here and holds .*, --from here makes the server what is here; nothing comes from there")
}

// A first contact that is refused, or tried with --dry-run, leaves nothing behind.
func TestFirstContactLeavesNothing(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	top, created := filepath.Dir(p.here), filepath.Join(filepath.Dir(p.here), "created")
	tmp := filepath.Join(top, "tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", tmp)
	all := func() (list []string) {
		t.Helper()
		err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			if rel, _ := filepath.Rel(top, path); !strings.HasPrefix(rel, "there.db") { // the server's
				list = append(list, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := all()
	for _, tt := range []struct {
		code int
		args []string
	}{
		{3, []string{p.here}},
		{3, []string{"--dry-run", p.here}},
		{0, []string{"--dry-run", "--merge", p.here}},
		{0, []string{"--dry-run", "--from", "there", p.here}},
		{3, []string{"--mirror", p.here}},
		{3, []string{"--mirror", "--create", created}},
		{3, []string{"--from", "here", "--create", created}},
		{0, []string{"--dry-run", "--create", created}},
		{3, []string{"--from", "there", "--max-delete", "0", p.here}},
		{3, []string{"--state", filepath.Join(top, "new", "state", "s.db"), p.here}},
	} {
		p.run(append(append([]string{"sync"}, tt.args...), p.url)...).want(t, tt.code)
		if diff := cmp.Diff(before, all()); diff != "" {
			t.Errorf("%v left (-want +got):\n%s", tt.args, diff)
		}
	}
	cmd := p.command("exec", "--sync", "--dir", p.here, "--connect", p.url, "--", "true")
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exec --sync: %v, %s", err, out)
	}
	if diff := cmp.Diff(before, all()); diff != "" {
		t.Errorf("exec --sync left (-want +got):\n%s", diff)
	}
}

// A LOCAL that has nothing, and was never in step, is not what the server is made, nor held against
// all that it has.
func TestFirstContactWithNothingHere(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.there, "a"), "1")
	writeFile(t, filepath.Join(p.there, "d/b"), "2")
	p.serve()
	there := readTree(t, p.there)
	for _, flags := range [][]string{{"--mirror"}, {"--mirror", "--dry-run"}, {"--mirror", "--max-delete", "1"}, {"--mirror", "--watch"}} {
		p.sync(flags...).want(t, 3, `here has no files and was never in step with the server, where --mirror would remove 2 files \(a, d/b\); nothing was changed`,
			"Hint: leave --mirror out to bring what the server has")
	}
	p.sync("--one-way-safe").want(t, 3, `here has no files and was never in step with the server, and --one-way-safe brings none of 2 files \(a, d/b\)`, "Hint: leave --one-way-safe out")
	p.want(map[string]string{}, there)
	p.sync("--mirror", "--dry-run", "--max-delete", "100%").want(t, 0, "(?m)^> delete d/b$")
	p.sync("--mirror", "--max-delete", "100%").want(t, 0, "undone there: 2 versions, kept here")
	p.want(map[string]string{}, map[string]string{})
}

// --from takes no more away than --max-delete says, if that is given.
func TestFromHeedsMaxDelete(t *testing.T) {
	for from, where := range map[string]string{"here": "at the server", "there": "here"} {
		t.Run(from, func(t *testing.T) {
			p := newSyncPair(t)
			p.strangers()
			writeFile(t, filepath.Join(p.here, "d/another"), "1")
			writeFile(t, filepath.Join(p.there, "e/another"), "2")
			p.serve()
			here, there := readTree(t, p.here), readTree(t, p.there)
			for _, limit := range []string{"1", "49%"} {
				p.sync("--from", from, "--max-delete", limit).want(t, 3, "2 of 4 files would be removed "+where+` \([de]/`)
				p.want(here, there)
			}
			p.sync("--from", from, "--max-delete", "2").want(t, 0)
			if from == "here" {
				there = here
			}
			p.want(there, there)
		})
	}
}

// --from here makes the server what is here, and keeps its versions here.
func TestFirstContactFromHere(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	here := readTree(t, p.here)
	p.sync("--dry-run", "--from", "here").want(t, 0, "(?m)^> delete e/f/only-there$", "(?m)^> file a$")
	p.sync("--from", "here").want(t, 0, "replaced or removed at the server: 2 versions, kept here")
	p.want(here, here)
	p.run("sync", "lost", "--state", p.state).want(t, 0, "undone .* a\n", "undone .* e/f/only-there\n")
	p.run("sync", "restore", "--state", p.state, filepath.Join(p.here, "e/f/only-there")).want(t, 0)
	p.sync().want(t, 0)
	wantFile(t, filepath.Join(p.there, "e/f/only-there"), "2\n")
	p.sync("--from", "here").want(t, 3, "have been in step before")
}

// --from there is the other way round; nothing is removed by a directory that has no files.
func TestFirstContactFromThere(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	there := readTree(t, p.there)
	p.sync("--dry-run", "--from", "there").want(t, 0, "(?m)^< delete d/only-here$", "(?m)^< file a$")
	if out := p.sync("--dry-run", "--from", "there"); strings.Contains(out.stdout, "> ") {
		t.Errorf("something would go to the server: %s", out.stdout)
	}
	p.sync("--from", "there").want(t, 0, "only here, and removed: 1 file, kept as lost versions")
	p.want(there, there)
	p.run("sync", "lost", "--state", p.state).want(t, 0, "undone .* d/only-here\n")

	// What was just kept is there, however little is to be kept.
	p = newSyncPair(t)
	p.strangers()
	p.serve()
	p.sync("--from", "there", "--lost-max-bytes", "1").want(t, 0, "only here, and removed: 1 file, kept as lost versions")
	p.sync("--lost-max-bytes", "1").want(t, 0)
	p.run("sync", "lost", "--state", p.state).want(t, 0, "undone .* d/only-here\n", "conflict .* a\n")

	p = newSyncPair(t)
	writeFile(t, filepath.Join(p.there, "f"), "1\n")
	p.serve()
	p.sync("--from", "here").want(t, 3, "has no files, and all of the server's would be removed")
	p.sync().want(t, 0)
	wantFile(t, filepath.Join(p.here, "f"), "1\n")
}

// begun has the state of a pair say that a first run with a choice did not come to its end, which began at revisions here
// and at the server.
func (p *syncPair) begun(first string, here, there int64) {
	p.t.Helper()
	w, err := workspace.OpenStore(p.t.Context(), workspace.Config{Store: p.state})
	if err != nil {
		p.t.Fatal(err)
	}
	of, err := w.Forest.Tree(p.t.Context(), tree.DefaultName)
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = of.Update(p.t.Context(), func(e *tree.Edit) error {
		return e.ResetPeer(tree.Peer{ID: mirror.DefaultPeerID + " notes", Fetch: tree.AtPath(0, fmt.Sprintf(`{"first":%q,"begun":%d,"begunThere":%d}`, first, here, there))})
	})
	if err := errors.Join(err, w.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// A first run that did not come to its end is gone on with as it was begun, unless that is
// not what is asked for.
func TestFirstContactGoesOn(t *testing.T) {
	for first, other := range map[string]string{"here": "there", "there": "here", "merge": "here"} {
		t.Run(first, func(t *testing.T) {
			p := newSyncPair(t)
			p.strangers()
			p.serve()
			p.sync("--merge").want(t, 0)
			writeFile(t, filepath.Join(p.here, "new-here"), "1\n")
			writeFile(t, filepath.Join(p.there, "new-there"), "2\n")
			here, there := readTree(t, p.here), readTree(t, p.there)
			p.begun(first, math.MaxInt64, math.MaxInt64) // what is new now is older
			for _, flags := range [][]string{{"--from", other}, {"--from", other, "--dry-run"}} {
				p.sync(flags...).want(t, 3, "has begun to bring .* together with --.*"+first+" and did not come to its end: --from "+other+" cannot take its place",
					"Hint: leave --from "+other+" out to go on; to begin anew, remove ")
			}
			p.run("sync", "resolve", "--ours", "--state", p.state, filepath.Join(p.here, "a"), p.url).want(t, 3, "did not come to its end", "to go on with it first: wsd sync --state ")
			p.want(here, there)
			p.sync("--dry-run").want(t, 0, "going on with --.*"+first+", since")
			p.sync().want(t, 0, "going on with --.*"+first+", since")
			switch first {
			case "here":
				p.want(here, here)
			case "there":
				p.want(there, there)
			default:
				here["new-there"] = there["new-there"]
				p.want(here, here)
			}
			if out := p.sync(); out.code != 0 || strings.Contains(out.stderr, "going on") {
				t.Errorf("status %d, %s", out.code, out.stderr)
			}
		})
	}
}

// A file that is new here since a --from there that did not come to its end goes with the flag alone.
func TestFromThereAsksAgain(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	p.sync("--merge").want(t, 0)
	writeFile(t, filepath.Join(p.here, "evening"), "1\n")
	writeFile(t, filepath.Join(p.here, "same"), "no longer\n")
	writeFile(t, filepath.Join(p.there, "same"), "other\n")
	p.begun("there", 1, 1)
	here, there := readTree(t, p.here), readTree(t, p.there)
	for _, flags := range [][]string{nil, {"--dry-run"}, {"--watch"}} {
		p.sync(flags...).want(t, 3, `did not come to its end: [0-9]+ paths new or changed here since then \(.*same.*evening.* would be removed or replaced; nothing was changed`, "Hint: --from there has that removed or replaced too")
	}
	p.want(here, there)
	p.sync("--from", "there").want(t, 0, "only here, and removed: 1 file, kept as lost versions")
	p.want(there, there)
	p.sync().want(t, 0, "nothing has changed")
}

// A file that is new at the server since a --from here that did not come to its end goes with the flag alone.
func TestFromHereAsksAgain(t *testing.T) {
	p := newSyncPair(t)
	p.strangers()
	p.serve()
	p.sync("--merge").want(t, 0)
	p.begun("here", 1, math.MaxInt64)
	writeFile(t, filepath.Join(p.here, "mine"), "1\n")
	p.sync().want(t, 0, "going on with --from here")
	p.begun("here", 1, 1)
	writeFile(t, filepath.Join(p.there, "evening"), "1\n")
	writeFile(t, filepath.Join(p.there, "same"), "no longer\n")
	here, there := readTree(t, p.here), readTree(t, p.there)
	for _, flags := range [][]string{nil, {"--dry-run"}, {"--watch"}} {
		p.sync(flags...).want(t, 3, `did not come to its end: [0-9]+ paths new or changed at the server since then \(.*evening.* would be removed or replaced there; nothing was changed`, "Hint: --from here has that removed or replaced there too")
	}
	p.want(here, there)
	p.sync("--from", "here").want(t, 0)
	p.want(here, here)
	p.sync().want(t, 0, "nothing has changed")
}

// Both sides that are empty, or the same, are no strangers; neither are those that have
// been in step when they get files of their own.
func TestFirstContactOfFriends(t *testing.T) {
	p := newSyncPair(t)
	p.serve()
	p.sync().want(t, 0)
	writeFile(t, filepath.Join(p.here, "a"), "1\n")
	writeFile(t, filepath.Join(p.there, "b"), "2\n")
	p.sync().want(t, 0)
	wantFile(t, filepath.Join(p.here, "b"), "2\n")
	other := newSyncPair(t)
	writeFile(t, filepath.Join(other.here, "a"), "1\n")
	writeFile(t, filepath.Join(other.here, "b"), "2\n")
	other.url = p.url
	other.sync().want(t, 0)
	if err := os.Remove(p.state); err != nil {
		t.Fatal(err)
	}
	p.sync().want(t, 0)
}

// A directory that is hardly meant is refused unless a flag says that it is.
func TestPlacesThatWantAFlag(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.home, ".ssh/id_rsa"), "key\n")
	p.serve()
	missing := filepath.Join(p.home, "typo")
	link := filepath.Join(filepath.Dir(p.home), "link")
	if err := os.Symlink(p.home, link); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		p.home: "is your home directory, .*--allow-home", link: "is your home directory, .*--allow-home", filepath.Dir(p.home): "holds your home directory .*--allow-home",
		"/": "is the root of all files.*--allow-home", missing: "does not exist.*--create",
	} {
		for _, args := range [][]string{{"sync", dir, p.url}, {"sync", "--dry-run", dir, p.url}, {"exec", "--sync", "--connect", p.url, "--dir", dir, "--", "touch", "ran"}} {
			p.run(args...).want(t, 3, "(?s)"+want)
		}
	}
	if got := readTree(t, p.there); len(got) > 0 {
		t.Errorf("there is %v", got)
	}
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made: %v", err)
	}
	writeFile(t, filepath.Join(p.there, "f"), "1\n")
	p.run("sync", "--dry-run", "--create", missing, p.url).want(t, 0, "(?m)^< file f$")
	if _, err := os.Stat(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry run made a directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.home, "state/wsd/sync")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there are states: %v", err)
	}
	p.run("sync", "--create", missing, p.url).want(t, 0)
	wantFile(t, filepath.Join(missing, "f"), "1\n")
}

// A dry run makes no state, and leaves one that there is in step.
func TestDryRunMakesNothing(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "a"), "1\n")
	p.serve()
	p.sync("--dry-run").want(t, 0, "(?m)^> file a$")
	for _, name := range []string{p.state, p.state + ".lock", p.state + "-wal"} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.sync().want(t, 0)
	p.sync("--dry-run").want(t, 0)
	p.sync().want(t, 0, "nothing has changed")
}

// A run that would remove more than half of many files, or more than --max-delete says, on
// either side changes nothing; also with --watch, around a command, and where a dotfile is
// left.
func TestMaxDelete(t *testing.T) {
	p := newSyncPair(t)
	for i := range 60 {
		writeFile(t, filepath.Join(p.here, fmt.Sprintf("d/f%02d", i)), fmt.Sprint(i))
	}
	writeFile(t, filepath.Join(p.here, ".dot"), "")
	p.serve()
	p.sync().want(t, 0)
	all := readTree(t, p.there)

	away := filepath.Join(p.home, "away")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	// Here: but for a dotfile, and but for a file that is none.
	move(filepath.Join(p.here, "d"), away)
	p.sync().want(t, 3, "had 61 files when it was last synchronised, and has nothing now but .dot", "--max-delete 100%")
	writeFile(t, filepath.Join(p.here, "new"), "new\n")
	for _, args := range [][]string{nil, {"--watch"}, {"--max-delete", "59"}, {"--max-delete", "90%"}} {
		p.sync(args...).want(t, 3, `60 of 61 files would be removed at the server \(d/f00, d/f01, d/f02, d/f03, d/f04 and 55 more\), and none was`, "--max-delete 100% lets all of them go")
	}
	p.sync("--json").want(t, 3, `(?m)^{"type":"tooMany","at":"remote","count":60,"of":61,"names":\["d/f00",`)
	p.sync("--dry-run").want(t, 0, "(?m)^> delete d/f59$", "would be removed at the server")
	cmd := p.command("exec", "--sync", "--dir", p.here, "--state", p.state, "--connect", p.url, "--", "touch", "ran")
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("exec --sync: %v, %s", err, out)
	}
	if diff := cmp.Diff(all, readTree(t, p.there)); diff != "" {
		t.Errorf("there (-want +got):\n%s", diff)
	}
	move(away, filepath.Join(p.here, "d"))
	p.sync().want(t, 0)

	// There, and a rename of all is no removal.
	move(filepath.Join(p.there, "d"), away)
	p.sync().want(t, 3, "60 of 62 files would be removed here")
	move(away, filepath.Join(p.there, "renamed"))
	p.sync().want(t, 0)
	move(filepath.Join(p.here, "renamed"), filepath.Join(p.here, "again"))
	p.sync().want(t, 0)

	if err := os.RemoveAll(filepath.Join(p.here, "again")); err != nil {
		t.Fatal(err)
	}
	p.sync("--max-delete", "60").want(t, 0)
	p.want(map[string]string{".dot": "", "new": "new\n"}, map[string]string{".dot": "", "new": "new\n"})
	if err := os.Remove(filepath.Join(p.here, "new")); err != nil {
		t.Fatal(err)
	}
	p.sync().want(t, 3, "has nothing now but .dot")
	p.sync("--max-delete", "100%").want(t, 0)
	p.want(map[string]string{".dot": ""}, map[string]string{".dot": ""})
}

// A watch that finds that too much would be removed ends, and removes nothing.
func TestMaxDeleteWhileWatching(t *testing.T) {
	p := newSyncPair(t)
	for i := range 60 {
		writeFile(t, filepath.Join(p.here, fmt.Sprintf("d/f%02d", i)), fmt.Sprint(i))
	}
	p.serve()
	watch := p.command("sync", "--watch", "--json", "--state", p.state, p.here, p.url)
	var errs logBuffer
	watch.Stderr = &errs
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(patience, func() { _ = watch.Process.Kill() }).Stop()
	if _, err := out.Read(make([]byte, 1<<16)); err != nil { // they are in step
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(p.here, "d"), filepath.Join(p.home, "away")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(p.here, "new"), "")
	for buf := make([]byte, 1<<16); err == nil; {
		_, err = out.Read(buf)
	}
	_ = watch.Wait()
	if code := watch.ProcessState.ExitCode(); code != 3 || !strings.Contains(errs.String(), "60 of 6") {
		t.Errorf("status %d: %s", code, &errs)
	}
	if n := len(readTree(t, p.there)); n < 60 {
		t.Errorf("%d files are left", n)
	}
	p.server.end(syscall.SIGTERM)
}
