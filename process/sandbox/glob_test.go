package sandbox

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAbsolutePattern(t *testing.T) {
	for _, tt := range []struct{ base, pattern, want string }{
		{"/w", "*.env", "/w/*.env"},
		{"/w", "./a/*", "/w/a/*"},
		{"/w", "**/*.env", "/w/**/*.env"},
		{"/w*{x}", "a?", `/w\*\{x\}/a?`},
		{"", "/a//b/*", "/a/b/*"},
		{"", "/a/**", "/a"},
		{"", "/a/**/**", "/a"},
		{"", "/a/**/b", "/a/**/b"},
		{"", "/**/b", "/**/b"},
		{"", "/a/{b,c}/[d-f]", "/a/{b,c}/[d-f]"},
	} {
		got, err := absolutePattern(tt.base, tt.pattern)
		if err != nil || got != tt.want {
			t.Errorf("absolutePattern(%q, %q) = %q, %v; want %q", tt.base, tt.pattern, got, err, tt.want)
		}
	}
	for _, bad := range []string{"/", "", "/**", "/**/**", "/a/../b", "/a/{b", "/a/[", "a\x00"} {
		if got, err := absolutePattern("", bad); err == nil {
			t.Errorf("absolutePattern(%q) = %q", bad, got)
		}
	}
}

func TestEscapeGlob(t *testing.T) {
	for _, s := range []string{"", "/a/b", `/a*?[]{}\b`, `\\`} {
		if got := unescapeGlob(escapeGlob(s)); got != s {
			t.Errorf("%q becomes %q", s, got)
		}
	}
}

// expand returns the matches of patterns below dir, relative to it.
func expand(t *testing.T, dir string, depth int, patterns ...string) []string {
	t.Helper()
	for i := range patterns {
		var err error
		if patterns[i], err = absolutePattern(dir, patterns[i]); err != nil {
			t.Fatal(err)
		}
	}
	found, err := expandGlobs(patterns, depth)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range found {
		found[i] = strings.TrimPrefix(f, dir+"/")
	}
	slices.Sort(found)
	return found
}

func TestExpandGlobs(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "a.env", "b.txt", ".hidden/c.env", "d/e.env", "d/f/g.env", "d/f/h/i.env", "keys/one", "keys/sub/two",
		"link.env -> b.txt", "[x]/y.env", "x/y.env")
	for _, tt := range []struct {
		name     string
		depth    int
		patterns []string
		want     []string
	}{
		{"everywhere", 0, []string{"**/*.env"}, []string{".hidden/c.env", "[x]/y.env", "a.env", "d/e.env", "d/f/g.env", "d/f/h/i.env", "link.env", "x/y.env"}},
		{"one level", 1, []string{"**/*.env"}, []string{"a.env", "link.env"}},
		{"two levels", 2, []string{"**/*.env"}, []string{".hidden/c.env", "[x]/y.env", "a.env", "d/e.env", "link.env", "x/y.env"}},
		{"here", 0, []string{"*.env"}, []string{"a.env", "link.env"}},
		{"a directory is not entered", 0, []string{"ke*", "**/two"}, []string{"keys", "keys/sub/two"}},
		{"alternatives", 0, []string{"{a,b}.*"}, []string{"a.env", "b.txt"}},
		{"a plain path", 0, []string{"d/e.env", "d/missing"}, []string{"d/e.env"}},
		{"an escaped name", 0, []string{`\[x\]/*.env`}, []string{"[x]/y.env"}},
		{"a class", 0, []string{`[x]/*.env`}, []string{"x/y.env"}},
		{"nothing", 0, []string{"**/*.nothing", "missing/**/*.x"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, expand(t, dir, tt.depth, tt.patterns...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpandGlobsLimits(t *testing.T) {
	dir := workspace(t)
	deep := dir + strings.Repeat("/d", MaxGlobDepth+1)
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := expandGlobs([]string{dir + "/**/*.env"}, 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("too deep a tree: %v", err)
	}
	if _, err := expandGlobs([]string{dir + "/**/*.env"}, 3); err != nil {
		t.Errorf("a depth that was asked for: %v", err)
	}
	many := globScan{depth: MaxGlobDepth, matches: make([]string, MaxGlobMatches)}
	fill(t, dir, "x.env")
	if err := many.expand(dir + "/*.env"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("too many matches: %v", err)
	}
	visits := globScan{depth: MaxGlobDepth, visits: MaxGlobVisits}
	if err := visits.expand(dir + "/*.env"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("too many entries: %v", err)
	}
}
