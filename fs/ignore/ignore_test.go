package ignore_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/ignore"
)

func put(t *testing.T, path, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

// kept lists the files of a tree that are not left out, the way a walk finds them.
func kept(t *testing.T, root string) string {
	t.Helper()
	var out []string
	var walk func(dir string, rules *ignore.Rules)
	walk = func(dir string, rules *ignore.Rules) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case rules.Match(dir, e.Name(), e.IsDir()):
			case e.IsDir():
				walk(path, rules.Enter(path))
			default:
				rel, _ := filepath.Rel(root, path)
				out = append(out, rel)
			}
		}
	}
	walk(root, ignore.ForTree(root))
	return strings.Join(out, " ")
}

var tree = []string{
	"a.o", "a.c", "keep.o", "build/x", "src/build/y", "src/a.o", "src/deep/b.o", "src/deep/root.txt", "root.txt",
	"logs/today/log", "logs/log", "doc/a/b/c.md", "doc/c.md", "doc/x.txt", "{a}", "a b ", "x#y", "#h", "!bang", "in/side/z", "src/in/z",
	"target", "sub/target/t", "v[1]", "tmp/keep/me", "tmp/drop",
}

const rules = `# a comment
*.o
!keep.o
build/
/root.txt
logs/**
doc/**/c.md
{a}
a b\ 
x#y
\#h
\!bang
in/side
target/
v\[1\]
tmp/*
!tmp/keep/
`

func TestRules(t *testing.T) {
	dir := t.TempDir()
	for _, name := range tree {
		put(t, filepath.Join(dir, name), "")
	}
	put(t, filepath.Join(dir, ".gitignore"), rules)
	put(t, filepath.Join(dir, "src", ".gitignore"), "!*.o\n/deep/root.txt\r\n")
	want := ".gitignore a.c doc/x.txt keep.o src/.gitignore src/a.o src/deep/b.o src/in/z target tmp/keep/me"
	if got := kept(t, dir); got != want {
		t.Errorf("kept\n%s, want\n%s", got, want)
	}
}

// git itself judges the same tree.
func TestLikeGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git to compare with; TestRules has what it said")
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	run("init", "-q")
	for _, name := range tree {
		put(t, filepath.Join(dir, name), "")
	}
	put(t, filepath.Join(dir, ".gitignore"), rules)
	put(t, filepath.Join(dir, "src", ".gitignore"), "!*.o\n/deep/root.txt\r\n")
	put(t, filepath.Join(dir, ".git", "info", "exclude"), "x.txt\n")
	listed := strings.Split(strings.TrimSuffix(run("ls-files", "-z", "--others", "--exclude-standard"), "\x00"), "\x00")
	if got, want := kept(t, dir), strings.Join(listed, " "); got != want {
		t.Errorf("kept\n%s, git keeps\n%s", got, want)
	}
}

// A search that begins inside a work tree knows the rules from above.
func TestRulesFromAbove(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "repo", ".git"), 0o777); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, ".gitignore"), "*.txt\n") // outside the work tree
	put(t, filepath.Join(dir, "repo", ".gitignore"), "*.o\n/sub/x\n")
	put(t, filepath.Join(dir, "repo", "sub", "a.o"), "")
	put(t, filepath.Join(dir, "repo", "sub", "a.txt"), "")
	put(t, filepath.Join(dir, "repo", "sub", "x"), "")
	if got := kept(t, filepath.Join(dir, "repo", "sub")); got != "a.txt" {
		t.Errorf("kept %s", got)
	}
}

// The empty directory by which a sandbox keeps .git from being made is no work tree.
func TestNoTreeBelowAMask(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"host": os.ModeSticky | 0o555, "view": 0o555} {
		git := filepath.Join(dir, name, ".git")
		put(t, filepath.Join(dir, name, ".gitignore"), "*.txt\n")
		put(t, filepath.Join(dir, name, "sub", "a.txt"), "")
		if err := errors.Join(os.Mkdir(git, 0o700), os.Chmod(git, mode)); err != nil {
			t.Fatal(err)
		}
		if got := kept(t, filepath.Join(dir, name, "sub")); got != "a.txt" {
			t.Errorf("%s: kept %q", name, got)
		}
		if err := os.Chmod(git, 0o700); err != nil {
			t.Fatal(err)
		}
		if got := kept(t, filepath.Join(dir, name, "sub")); got != "" {
			t.Errorf("%s, once it can be written: kept %q", name, got)
		}
		put(t, filepath.Join(git, "HEAD"), "ref: refs/heads/main\n")
		if err := os.Chmod(git, mode); err != nil {
			t.Fatal(err)
		}
		if got := kept(t, filepath.Join(dir, name, "sub")); got != "" {
			t.Errorf("%s, with a repository in it: kept %q", name, got)
		}
		if err := os.Chmod(git, 0o700); err != nil { // so that it can be removed
			t.Fatal(err)
		}
	}
}
