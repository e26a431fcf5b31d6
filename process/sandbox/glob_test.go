package sandbox

import (
	"os"
	"slices"
	"strconv"
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

// scan returns what the patterns of a policy match.
func scan(t *testing.T, p Policy) []match {
	t.Helper()
	var borrowed rights
	b := newBuilder(&p, &borrowed)
	matches, err := b.findMatches()
	if err != nil {
		t.Fatal(err)
	}
	return matches
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
	var found []string
	for _, m := range scan(t, Policy{Globs: patterns, GlobDepth: depth}) {
		found = append(found, strings.TrimPrefix(m.path, dir+"/"))
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
		{"a directory is not entered", 0, []string{"ke*", "**/two"}, []string{"keys"}},
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

// What cannot be searched whole, or has too many matches, is denied whole.
func TestSL5ScanDeniesWhatItCannotSearch(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/deep/", "w/kept/f", "w/loop.env -> loop.env")
	at := dir + "/w/deep"
	for len(at) < maxScanPath {
		at += "/" + strings.Repeat("d", 200)
	}
	if err := os.MkdirAll(at+"/e", 0o755); err != nil {
		t.Fatal(err)
	}
	_, places, err := lay(t, dir, "ro /", "rw w", "glob w/**/*.env")
	if err != nil {
		t.Fatal(err)
	}
	want := "-- " + strings.TrimPrefix(at, dir+"/") + "/"
	if !slices.Contains(places, want) || !slices.Contains(places, "-- w/loop.env") {
		t.Errorf("not denied: %.300q", places)
	}
}

func TestSL5FewMatches(t *testing.T) {
	var matches []match
	for _, p := range []string{"/a/1", "/a/2", "/a/3", "/b/c/1", "/b/d/1", "/e/1"} {
		matches = append(matches, match{path: p})
	}
	for _, tt := range []struct {
		limit int
		want  string
	}{
		{6, "/a/1 /a/2 /a/3 /b/c/1 /b/d/1 /e/1"},
		{5, "/a /b/c/1 /b/d/1 /e/1"},
		{4, "/a /b/c/1 /b/d/1 /e/1"},
		{3, "/"},
		{1, "/"},
	} {
		var got []string
		for _, m := range few(slices.Clone(matches), tt.limit) {
			got = append(got, m.path)
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" && tt.want != "/" || len(got) > tt.limit {
			t.Errorf("%d: %v (-want +got):\n%s", tt.limit, got, diff)
		}
	}
}

func TestSL5TooManyMatchesLeaveTheRest(t *testing.T) {
	dir := workspace(t)
	fill(t, dir, "w/kept/f", "w/f", "w/kept/x.env")
	for i := range MaxGlobMatches {
		fill(t, dir, "w/"+strconv.Itoa(i)+".env")
	}
	l, places, err := lay(t, dir, "ro /", "rw w", "glob w/**/*.env")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"-- w/", "rw w/f", "rw w/kept/", "-- w/kept/x.env"}, places); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(l.Places, func(p place) bool { return p.Path == dir+"/w" && p.List }) {
		t.Error("w cannot be listed")
	}
}

// A pattern of a kind that is slow to match by trying each way costs little.
func TestSL4PatternsAreBounded(t *testing.T) {
	if _, err := absolutePattern("/w", strings.Repeat("{a*,a*}", 18)); err == nil || !strings.Contains(err.Error(), "alternatives") {
		t.Errorf("many braces: %v", err)
	}
	for _, bad := range []string{"{..,a}/x", "{,/**}", "{**,a}", strings.Repeat("x", 5000)} {
		if got, err := absolutePattern("", bad); err == nil {
			t.Errorf("absolutePattern(%.20q) = %q", bad, got)
		}
	}
	dir := workspace(t)
	fill(t, dir, "a/b/c/x1.pem", "a/x2/id.pem", "q.env", "x2/b/id.pem")
	for text, want := range map[string]string{
		"{*.{env,key},**/x{1,2}/*.pem}": "a/x2/id.pem q.env",
		"**/**/b/**/*.pem":              "a/b/c/x1.pem x2/b/id.pem",
		"a/{b/**,x2/*}":                 "a/b a/x2/id.pem",
		"{a,x2}/*/id.pem":               "a/x2/id.pem x2/b/id.pem",
		`{a,\{b}/x[12]/id.???`:          "a/x2/id.pem",
	} {
		if diff := cmp.Diff(want, strings.Join(expand(t, dir, 0, text), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
