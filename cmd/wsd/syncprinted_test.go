package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// A word that is printed is the same word once a shell has read it, on one line, and safe on a terminal.
func TestQuotedWords(t *testing.T) {
	for word, want := range map[string]string{
		"/a/b-c_d.e": "/a/b-c_d.e", "a b": "'a b'", "it's": `'it'\''s'`, "é": "'é'", "": "''", "a|b": "'a|b'", "~/x": "'~/x'", "$HOME": "'$HOME'",
		"*.o": "'*.o'", "n\nl": `$'n\x0al'`, "caf\xe9": `$'caf\xe9'`, "\x1b]0;": `$'\x1b]0;'`, "\u202e'\\": `$'\xe2\x80\xae\'\\'`, "a=b": "'a=b'", "!x": "'!x'",
	} {
		if got := quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
		if got := safe(quoted(word)); got != quoted(word) {
			t.Errorf("%q: printed as %s", word, got)
		}
		if out, err := exec.Command("bash", "-c", "printf %s "+quoted(word)).Output(); err == nil && string(out) != word {
			t.Errorf("%q: a shell reads %q", word, out)
		}
	}
}

// A printed command has the flags of the run that another one about the same two sides needs, and no
// password.
func TestPrintedCommandsRepeatFlags(t *testing.T) {
	var connect connectFlags
	job := &syncJob{flags: syncFlags{connect: &connect}, local: &syncLocal{dir: "/my dir"}, target: &syncTarget{url: "ws://me:secret@host:1/x"}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	job.flags.add(flags)
	connect.add(flags)
	if err := flags.Parse([]string{
		"--include", "b*", "--ignore", "-x", "--merge", "--on-conflict=hold", "--mirror", "--allow-code=false", "--max-delete", "10%", "--lost-max-bytes", "2G",
		"--state", "/a b.db", "--token-file", "/t", "--remote-path", "/w", "--connect-timeout", "1s", "--create",
	}); err != nil {
		t.Fatal(err)
	}
	job.flags.repeat(flags)
	const repeated = "--token-file /t --state '/a b.db' --remote-path /w --mirror --max-delete 10% --lost-max-bytes 2G --allow-code=false --include 'b*' --ignore -x"
	for got, want := range map[string]string{
		job.syncCommand():                          "wsd sync " + repeated + " '/my dir' ws://host:1/x",
		job.conflictsCommand():                     "wsd sync conflicts " + repeated + " '/my dir' ws://host:1/x",
		job.resolveCommand(localMount + "/-f"):     "wsd sync resolve --ours " + repeated + " '/my dir/-f' ws://host:1/x",
		job.restoreCommand(7, localMount+"/a'b/c"): `wsd sync restore --version 7 --state '/a b.db' '/my dir/a'\''b/c'`,
		job.lostCommand():                          "wsd sync lost --state '/a b.db'",
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	for _, flag := range repeatedFlags {
		if flags.Lookup(flag.name) == nil {
			t.Errorf("there is no flag --%s", flag.name)
		}
	}
}

// Each command that a run prints works as it is, from any directory: where the directory was in step
// with two servers, in both directions and one way, and with names that a shell would take apart.
func TestPrintedCommandsWork(t *testing.T) {
	bash := bashPath(t)
	names := []string{"plain", "-x", "it's a|b $HOME", "n\nl", "caf\xe9", "d é/\x1b[31m*"}
	printed := regexp.MustCompile(`(?m): (wsd sync .*)$`)
	for name, mode := range map[string][]string{
		"hold": {"--on-conflict", "hold"}, "one way": {"--one-way-safe"}, "theirs": {"--on-conflict", "theirs"}, "ours": {"--on-conflict", "ours"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSyncPair(t)
			p.serve()
			for _, n := range names {
				writeFile(t, filepath.Join(p.here, n), "base\n")
			}
			writeFile(t, filepath.Join(p.here, "node_modules/x"), "stays\n")
			rules := []string{"--ignore", "node_modules"}
			run := func(args ...string) outcome { return p.run(append(append([]string{"sync"}, rules...), args...)...) }
			run(p.here, p.url).want(t, 0)
			// Another server has the same versions kept under the same numbers.
			other := newSyncPair(t)
			other.serve()
			run("--merge", p.here, other.url).want(t, 0)
			for _, server := range []*syncPair{other, p} {
				for _, n := range names {
					writeFile(t, filepath.Join(p.here, n), "mine\n")
					writeFile(t, filepath.Join(server.there, n), "theirs\n")
				}
				o := run(append(mode, p.here, server.url)...)
				o.want(t, map[string]int{"hold": exitHeld, "one way": exitHeld}[name])
				commands := printed.FindAllStringSubmatch(o.stderr, -1)
				if len(commands) < len(names) {
					t.Fatalf("the commands: %q\n%s", commands, o.stderr)
				}
				for _, c := range commands {
					cmd := p.command()
					wsd := cmd.Path
					cmd.Path, cmd.Dir = bash, t.TempDir()
					cmd.Args = []string{"bash", "-c", "wsd() { '" + wsd + "' \"$@\"; }; " + c[1]}
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%s: %v\n%s", c[1], err, out)
					}
				}
				for _, n := range names {
					want := map[string]string{"ours": "theirs\n"}[name]
					if want == "" {
						want = "mine\n"
					}
					wantFile(t, filepath.Join(p.here, n), want)
					if strings.HasPrefix(commands[0][1], "wsd sync resolve") {
						wantFile(t, filepath.Join(server.there, n), "mine\n")
					}
				}
				if _, err := os.Lstat(filepath.Join(server.there, "node_modules")); err == nil {
					t.Error("a printed command has sent what is ignored")
				}
			}
		})
	}
}

// bashPath finds the shell whose quoting the printed commands use. Some systems have none.
func bashPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash to paste commands into")
	}
	return path
}

// The commands that 'wsd sync conflicts' prints leave alone what the sync has left alone, although it was
// not given the patterns.
func TestPrintedCommandsKeepPatterns(t *testing.T) {
	bash := bashPath(t)
	p := newSyncPair(t)
	p.serve()
	writeFile(t, filepath.Join(p.here, "f"), "base\n")
	writeFile(t, filepath.Join(p.here, "node_modules/x"), "stays\n")
	writeFile(t, filepath.Join(p.here, "a.tmp"), "stays\n")
	sync := []string{"--ignore", "node_modules", "--ignore", "/*.tmp", "--on-conflict", "hold"}
	p.sync(sync...).want(t, 0)
	writeFile(t, filepath.Join(p.here, "f"), "mine\n")
	writeFile(t, filepath.Join(p.there, "f"), "theirs\n")
	p.sync(sync...).want(t, exitHeld)
	o := p.run("sync", "conflicts", "--state", p.state, p.here, p.url)
	o.want(t, 0, "conflict: f: ")
	printed := regexp.MustCompile(`: (wsd sync resolve .*)$`).FindStringSubmatch(strings.TrimSpace(o.stdout))
	if len(printed) == 0 {
		t.Fatalf("the command: %s", o.stdout)
	}
	cmd := p.command()
	wsd := cmd.Path
	cmd.Path, cmd.Dir = bash, t.TempDir()
	cmd.Args = []string{"bash", "-c", "wsd() { '" + wsd + "' \"$@\"; }; " + printed[1]}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", printed[1], err, out)
	}
	if diff := cmp.Diff(map[string]string{"f": "mine\n"}, readTree(t, p.there)); diff != "" {
		t.Error(diff)
	}
	p.sync(sync...).want(t, 0, "nothing has changed")
}
