package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Values that cannot be meant are errors of the command line, before anybody is asked.
func TestFlagValuesThatCannotBeMeant(t *testing.T) {
	p := newSyncPair(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"gc", "--workspace", ""}, `Error: invalid argument "" for "--workspace" flag: it is empty`},
		{[]string{"fsck", "--store", ""}, `"--store" flag: it is empty`},
		{[]string{"serve", "--workspace", ""}, `"--workspace" flag: it is empty`},
		{[]string{"sync", "--state", "", p.here, p.url}, `"--state" flag: it is empty`},
		{[]string{"sync", "lost", "--state", ""}, `"--state" flag: it is empty`},
		{[]string{"gc", "--workspace", p.here, "--mount-point", "bad"}, `invalid value "bad" for --mount-point: it is no absolute path`},
		{[]string{"serve", "--workspace", p.here, "--mount-point", "bad"}, "Hint: write --mount-point /workspace"},
		{[]string{"sync", "--connect-timeout", "-1s", p.here, p.url}, `"--connect-timeout" flag: it is negative`},
		{[]string{"ls", "--connect-timeout", "-1s"}, `"--connect-timeout" flag: it is negative`},
	} {
		p.run(tt.args...).want(t, 2, tt.want)
	}
	p.sync().want(t, 1, "Hint: is the server running\\? 'wsd serve --workspace DIR' starts one")
	p.serve()
	p.run("sync", "--state", filepath.Join(p.here, "s.db"), p.here, p.url).want(t, 2, "s.db is in .*/here, and would be synchronised with it", "Hint: choose another --state")
}

// What is restored elsewhere replaces nothing, and the list of lost versions is of what it is asked for.
func TestLostBelowAndRestoreTo(t *testing.T) {
	p := newSyncPair(t)
	for _, name := range []string{"a", "sub/b", "sub2/c"} {
		writeFile(t, filepath.Join(p.here, name), "base")
	}
	p.serve()
	p.run("sync", p.here, p.url).want(t, 0)
	for _, name := range []string{"a", "sub/b", "sub2/c"} {
		writeFile(t, filepath.Join(p.here, name), "mine")
		writeFile(t, filepath.Join(p.there, name), "theirs")
	}
	p.run("sync", "-n", "--on-conflict", "theirs", p.here, p.url).want(t, 0, "would keep the server's, and the other one as a lost version\n")
	p.run("sync", "-n", "--on-conflict", "ours", p.here, p.url).want(t, 0, "would keep the one here, and the other one as a lost version\n")
	p.run("sync", "--on-conflict", "theirs", p.here, p.url).want(t, 0)
	link := filepath.Join(p.home, "link")
	if err := os.Symlink(p.here, link); err != nil {
		t.Fatal(err)
	}
	header := "VERSION .*\n"
	for arg, want := range map[string]string{
		"":      header + ".* a\n.* sub/b\n.* sub2/c\n$",
		"sub":   header + ".* sub/b\n$",
		"sub/b": header + ".* sub/b\n$",
		"none":  "^no versions are kept of .*/here/none\n$",
	} {
		p.run("sync", "lost", filepath.Join(p.here, arg)).want(t, 0, want)
	}
	p.run("sync", "lost", filepath.Join(p.here, "sub", "gone")).want(t, 0, "no versions are kept of ")
	file := filepath.Join(p.here, "a")
	p.run("sync", "restore", "--to", file, file).want(t, 1, "Error: .*/here/a is there already, and is not replaced", "Hint: name a new file")
	p.run("sync", "restore", "--to", p.home, file).want(t, 1, "Error: .* is a directory", "Hint: name a new file in it")
	p.run("sync", "restore", "--to", filepath.Join(p.home, "none/a"), file).want(t, 1, "Hint: make the directory first")
}

// A directory in one that is synchronised is named as such the first time.
func TestNestedDirectoriesAreNamed(t *testing.T) {
	p := newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "a"), "1")
	writeFile(t, filepath.Join(p.here, "in/b"), "1")
	p.serve()
	p.run("sync", p.here, p.url).want(t, 0)
	other := newSyncPair(t)
	other.serve()
	in := filepath.Join(p.here, "in")
	p.run("sync", in, other.url).want(t, 0, "/here/in is in .*/here, which 'wsd sync' keeps in step too")
	if o := p.run("sync", in, other.url); o.code != 0 || o.stderr != "" {
		t.Errorf("the second time: %d, %s", o.code, o.stderr)
	}
}

// Where two servers might be meant, the one that is taken is named.
func TestSyncNamesOneOfTwoServers(t *testing.T) {
	p, other := newSyncPair(t), newSyncPair(t)
	writeFile(t, filepath.Join(p.here, "a"), "1")
	run := "XDG_RUNTIME_DIR=" + p.home
	for _, pair := range []*syncPair{other, p} {
		serve := pair.command("serve", "--workspace", pair.there, "--store", pair.store, "--listen", pair.url)
		serve.Env = append(serve.Env, run)
		pair.server = startReal(t, serve)
		sync := p.command("sync", map[bool]string{true: p.here, false: other.here}[pair == p])
		sync.Env = append(sync.Env, run)
		out, err := sync.CombinedOutput()
		named := strings.HasPrefix(string(out), "with "+p.there+" at "+p.url+", which you started last; 1 other of yours has")
		if err != nil || named != (pair == p) {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// So it is by the commands about what is held, also where LOCAL was never in step with it.
func TestConflictsNameOneOfTwoServers(t *testing.T) {
	p, other := newSyncPair(t), newSyncPair(t)
	p.runtime, other.runtime = p.home, p.home
	other.serve()
	p.serve()
	here := filepath.Join(p.here, "a")
	writeFile(t, here, "1")
	p.run("sync", p.here).want(t, 0)
	writeFile(t, here, "mine")
	writeFile(t, filepath.Join(p.there, "a"), "theirs")
	p.run("sync", "--on-conflict", "hold", p.here).want(t, exitHeld)
	named := "with " + p.there + " at " + p.url + ", which you started last; 1 other of yours has"
	for _, args := range [][]string{{"conflicts", p.here}, {"resolve", "--theirs", here}} {
		o := p.run(append([]string{"sync"}, args...)...)
		o.want(t, 0)
		if !strings.HasPrefix(o.stderr, named) {
			t.Errorf("%v: %s", args, o.stderr)
		}
	}
	wantFile(t, here, "theirs")
	named = other.here + " was never in step with " + p.there + " at " + p.url + ", the server that you started last"
	other.run("sync", "conflicts", other.here).want(t, exitFailure, "Error: "+named, "Hint: write the URL")
	other.run("sync", "resolve", "--ours", filepath.Join(other.here, "a")).want(t, exitFailure, "Error: neither .* was in step with "+p.there+" at ", "Hint: write the URL")
}
