package pattern_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/pattern"
)

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern    string
		yes, no    string // paths, separated by blanks
		depth      int
		base       string
		noBaseTest bool
	}{
		{pattern: "*.go", yes: "a.go .go", no: "a/b.go a.goo", depth: 1},
		{pattern: "**/*.go", yes: "a.go a/b.go a/b/c.go", no: "a.c", depth: -1},
		{pattern: "src/**", yes: "src src/a src/a/b", no: "srcs a/src", depth: -1},
		{pattern: "a/b/**/c", yes: "a/b/c a/b/x/c", no: "a/c", depth: -1, base: "a"},
		{pattern: "src/*/x", yes: "src/a/x", no: "src/x src/a/b/x", depth: 3, base: "src"},
		{pattern: "a/b/c?", yes: "a/b/cd", no: "a/b/c a/b/cde", depth: 3, base: "a/b"},
		{pattern: "[a-c]x", yes: "ax cx", no: "dx", depth: 1},
		{pattern: "[!a]x", yes: "bx", no: "ax", depth: 1},
		{pattern: "{a,b/c}.txt", yes: "a.txt b/c.txt", no: "b.txt c.txt", depth: 2},
		{pattern: "x{a,{b,c}d}{,e}", yes: "xa xae xbd xbde xcd xcde", no: "x xb xe", depth: 1},
		{pattern: `\{a,b\}`, yes: "{a,b}", no: "a b", depth: 1},
		{pattern: "[{]x", yes: "{x", no: "x", depth: 1},
		{pattern: `a\*`, yes: "a*", no: "ab", depth: 1},
		{pattern: "a,b", yes: "a,b", no: "a", depth: 1},
		{pattern: "./a", yes: "a", no: "b", depth: 1},
		{pattern: "*", yes: "a é \xff", no: "a/b", depth: 1},
	} {
		p, err := pattern.Compile(tt.pattern)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		for path := range strings.FieldsSeq(tt.yes) {
			if !p.Match(path) {
				t.Errorf("%q does not match %q", tt.pattern, path)
			}
		}
		for path := range strings.FieldsSeq(tt.no) {
			if p.Match(path) {
				t.Errorf("%q matches %q", tt.pattern, path)
			}
		}
		if p.Depth() != tt.depth || p.Base() != tt.base {
			t.Errorf("%q: depth %d, base %q; want %d, %q", tt.pattern, p.Depth(), p.Base(), tt.depth, tt.base)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{
		"", "/a", "../a", "a/../b", "{a,/b}", "{a", "a}", "[a", `a\`, "[a/b]", "{a,{b}", "[]",
		strings.Repeat("{a,b}", 11), strings.Repeat("x", pattern.MaxBytes+1), strings.Repeat("{", 40) + strings.Repeat("}", 40),
	} {
		if _, err := pattern.Compile(text); err == nil {
			t.Errorf("%.40q compiles", text)
		}
	}
	if _, err := pattern.CompileSet([]string{"ok", "{"}); !errors.Is(err, pattern.ErrSyntax) {
		t.Errorf("set: %v", err)
	}
}

func TestSet(t *testing.T) {
	set, err := pattern.CompileSet([]string{"*.o", "build/", "docs/*.md"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"a.o": true, "x/y/a.o": true, "build": true, "x/build": true, "docs/a.md": true, "x/docs/a.md": false, "a.c": false,
	} {
		if set.Match(path) != want {
			t.Errorf("Match(%q) = %v", path, !want)
		}
	}
	if pattern.Set(nil).Match("a") {
		t.Error("an empty set matches")
	}
}

// Patterns made to be slow are not.
func TestMatchIsQuick(t *testing.T) {
	name := strings.Repeat("a", 200)
	for _, text := range []string{
		strings.Repeat("a*", 100) + "b",
		strings.Repeat("**/", 100) + "b",
		strings.Repeat("*/", 100) + "b",
		strings.Repeat("{a,aa}", 10) + "*b",
		strings.Repeat("**/*a*/", 60) + "b",
	} {
		p, err := pattern.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		p.Match(name)
		p.Match(strings.Repeat("a/", 100) + "a")
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%.30s...: %v", text, d)
		}
	}
}

// A pattern compiles or is refused, and matching neither panics nor hangs; what has
// no special character matches itself.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{
		{"**/*.go", "a/b.go"},
		{"{a,b{c,d}}", "bc"},
		{"[a-z]", "q"},
		{`\*`, "*"},
		{"[!]]", "]"},
		{"a/**/b", "a/b"},
		{"[\\", "x"},
		{"{,}", ""},
		{"\xff*", "\xffa"},
		{"**", ""},
		{"[^a-]", "-"},
		{"*{*,**/}*", "a/b"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		p, err := pattern.Compile(text)
		if err != nil {
			return
		}
		p.Match(path)
		if base := p.Base(); strings.Contains("/"+base+"/", "/../") {
			t.Errorf("%q has the base %q", text, base)
		}
		if !strings.ContainsAny(text, `*?[]{}\`) && !strings.HasPrefix(text, "./") && !p.Match(text) {
			t.Errorf("%q does not match itself", text)
		}
	})
}
