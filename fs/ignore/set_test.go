package ignore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/ignore"
)

// TestIgnorePatterns has what git check-ignore says of single patterns: each matches the
// paths before, and not those behind. A slash at its end makes a path a directory.
func TestIgnorePatterns(t *testing.T) {
	for _, c := range []struct{ rule, matches, not string }{
		{`*.o`, `a.o x/b.o x.o/ x.o/y`, `a.oo`},
		{`build/`, `build/ x/build/ build/y`, `buil/ xbuild/`},
		{`/build`, `build build/`, `x/build`},
		{`a/b`, `a/b a/b/ a/b/c`, `x/a/b b`},
		{`a/*/c`, `a/b/c`, `a/c a/b/b/c`},
		{`a/**/c`, `a/c a/b/c a/b/b/c`, `x/a/c`},
		{`**/c`, `c a/c a/b/c`, `cc`},
		{`a/**`, `a/b a/b/c`, `a/ x/a/b`},
		{`a**b`, `axb a--b`, `a/b x/a/b/`},
		{`a?c`, `abc x/abc`, `ac a/c`},
		{`[a-c]x`, `ax x/bx`, `dx -x`},
		{`[!a-c]x`, `dx -x`, `ax`},
		{`[^a]x`, `bx`, `ax`},
		{`[]a]x`, `]x ax`, `bx`},
		{`[a-]x`, `-x ax`, `bx`},
		{`[[:digit:]a]x`, `5x ax`, `:x`},
		{`[[:nothing:]]x`, ``, `nx :x`},
		{`\#a`, `#a`, `\#a`},
		{`\!a`, `!a`, `a`},
		{`a\*b`, `a*b`, `axb`},
		{`[\]]x`, `]x`, `\x`},
		{`a\`, ``, `a a\`},
		{`[a`, ``, `a [a`},
		{`é?x`, `éax`, `éx ééx`},
		{`{a,b}`, `{a,b}`, `a b`},
		{`*a*a*b`, `aab xaxab`, `ab aaa`},
		{`x/*.[ch]`, `x/a.c x/b.h`, `a.c x/y/a.c`},
		{`foo**/bar`, `foo/bar foox/bar foox/y/bar`, `fo/bar`},
	} {
		m := ignore.NewMatcher(&ignore.Set{Files: map[string]string{"": c.rule}})
		for want, paths := range map[bool]string{true: c.matches, false: c.not} {
			for path := range strings.FieldsSeq(paths) {
				if got := m.Hides(strings.TrimSuffix(path, "/"), strings.HasSuffix(path, "/")); got != want {
					t.Errorf("%s: %s: ignored is %v", c.rule, path, got)
				}
			}
		}
	}
}

func TestIgnoreOrder(t *testing.T) {
	m := ignore.NewMatcher(&ignore.Set{
		Files: map[string]string{"": "*.log\nout/\nx*\n", "a": "!keep.log\n", "a/b": "keep.log\n", "out": "!*\n"},
		All:   []string{"!x1\nnever\n", "x1\n!never\n# no rule\nsp\\ \n"},
	})
	for path, want := range map[string]bool{
		"k.log": true, "a/keep.log": false, "a/other.log": true, "a/b/keep.log": true, "out/f": true,
		"x1": true, "x2": true, "never": false, "sp ": true, "sp": false, "# no rule": false,
	} {
		if got := m.Hides(path, false); got != want {
			t.Errorf("%q: ignored is %v", path, got)
		}
	}
	if (*ignore.Matcher)(nil).Hides("a", true) {
		t.Error("no matcher hides something")
	}
}

func TestIgnoreNames(t *testing.T) {
	for _, c := range []struct {
		rules, want string
		all         bool
	}{
		{"a\nb\na\n", "a b", true},
		{"a\n*.o\nb/\n/c\nd/e\n", "a", false},
		{"a\nb\n!x/a\n", "b", true},
		{"a\nb\n!*\n", "", false},
		{"a\n!x/**\n", "", false},
		{"1\n2\n3\n4\n", "1 2 3", false},
	} {
		m := ignore.NewMatcher(&ignore.Set{All: []string{c.rules}})
		names, all := m.Names(3)
		if got := strings.Join(names, " "); got != c.want || all != c.all && !strings.Contains(c.rules, "!") {
			t.Errorf("%q: names %q, all is %v", c.rules, got, all)
		}
	}
	// A name of one directory's file is none of all others.
	m := ignore.NewMatcher(&ignore.Set{Files: map[string]string{"d": "a\n"}, All: []string{"b\n"}})
	if names, all := m.Names(9); strings.Join(names, " ") != "b" || all {
		t.Errorf("names %q, all is %v", names, all)
	}
}

func TestIgnoreCheck(t *testing.T) {
	for _, bad := range []string{"", "!", "/", "[a", `a\`, "[[:no:]]", "a\nb", strings.Repeat("a", ignore.MaxPattern+1)} {
		if err := ignore.Check(bad); !errors.Is(err, ignore.ErrPattern) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"a", "!a", "*", "**", "[]]", "[!]]", "[[:alpha:]x]", `\[`, "a/", "é", "[a-]"} {
		if err := ignore.Check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	n, err := ignore.CheckText("# [\n\na\n[\n")
	if n != 4 || !errors.Is(err, ignore.ErrPattern) || !strings.Contains(err.Error(), `"["`) {
		t.Errorf("line %d: %v", n, err)
	}
	for _, name := range []string{"#a", "a  ", `a\ `, "#", " a"} {
		m := ignore.NewMatcher(&ignore.Set{All: []string{"x\n" + ignore.Line(name) + "\n"}})
		if literal := strings.ReplaceAll(name, `\`, ""); !m.Hides(literal, false) {
			t.Errorf("%q as a line does not match itself", name)
		}
	}
}

// A pattern with many stars takes no time.
func TestIgnoreStars(t *testing.T) {
	m := ignore.NewMatcher(&ignore.Set{All: []string{strings.Repeat("**/*a*/", 100) + "b\n"}})
	if m.Hides(strings.Repeat("aaaa/", 100)+"c", false) {
		t.Error("it matches")
	}
}

// git judges random trees with random rules.
func TestIgnoreLikeGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git to compare with; TestIgnorePatterns has what it said")
	}
	for seed := range uint64(6) {
		likeGit(t, git, rand.New(rand.NewPCG(seed, 12)))
	}
}

func likeGit(t *testing.T, git string, r *rand.Rand) {
	t.Helper()
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	name := func() string {
		return pick("a", "b", "ab", "a.o", "b.o", "build", "x", "[a]", "a b", "b ", "é", "A1", "-", "#a", "!a", `a\`, "*")
	}
	dir := t.TempDir()
	dirs := []string{""}
	isDir := map[string]bool{}
	for range 60 {
		path := filepath.Join(dirs[r.IntN(len(dirs))], name())
		if _, known := isDir[path]; known {
			continue
		}
		isDir[path] = r.IntN(2) == 0 && strings.Count(path, "/") < 4
		if isDir[path] {
			dirs = append(dirs, path)
			if err := os.Mkdir(filepath.Join(dir, path), 0o777); err != nil {
				t.Fatal(err)
			}
		} else {
			put(t, filepath.Join(dir, path), "")
		}
	}
	word := func() string {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			b.WriteString(pick("*", "?", "**", "a", "b", "o", ".", "[ab]", "[!a]", "[^b-z]", "[[:alpha:]]", "[a", `\a`, `\*`, "build", "x", "é", " ", `\ `, "#", "!", "[]a]", "-", `\`, "[", "]", "[[:x", "[\\]]"))
		}
		return b.String()
	}
	line := func() string {
		parts := []string{pick(word(), name(), "*", "**")}
		for r.IntN(3) == 0 {
			parts = append(parts, pick(word(), name(), "*", "**"))
		}
		return pick("", "", "", "!", "/", "!/", "#") + strings.Join(parts, "/") + pick("", "", "/", " ", "\r")
	}
	s := ignore.Set{Files: map[string]string{}}
	for _, d := range dirs {
		if d != "" && r.IntN(3) > 0 {
			continue
		}
		var text strings.Builder
		for range 1 + r.IntN(6) {
			fmt.Fprintf(&text, "%s\n", line())
		}
		s.Files[d] = strings.TrimSuffix(text.String(), pick("", "\n"))
		put(t, filepath.Join(dir, d, ignore.FileName), s.Files[d])
	}
	run := func(in []byte, args ...string) []byte {
		cmd := exec.Command(git, args...)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(in)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.Output()
		if code, ok := errors.AsType[*exec.ExitError](err); err != nil && !(ok && code.ExitCode() == 1) {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	run(nil, "init", "-q")
	var paths []string
	for path := range isDir {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	out := run([]byte(strings.Join(paths, "\x00")), "check-ignore", "--no-index", "--stdin", "-z", "-v", "-n")
	m := ignore.NewMatcher(&s)
	f := strings.Split(string(out), "\x00")
	for i, path := range paths {
		rule, at := f[4*i+2], f[4*i+3]
		if at != path {
			t.Fatalf("git answers for %q, not %q", at, path)
		}
		want := rule != "" && rule[0] != '!'
		if got := m.Hides(path, isDir[path]); got != want {
			t.Errorf("%q (directory: %v): ignored is %v, git says %v by %q of %s\nrules %q", path, isDir[path], got, want, rule, f[4*i], s.Files)
		}
	}
}
