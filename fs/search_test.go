package fs_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs"
)

// globbed is what fs/glob found, names below $U; links have an @, directories a
// slash, others an equals sign.
func globbed(c *client, pattern string, more object) string {
	c.t.Helper()
	params := object{"path": "$U", "pattern": pattern}
	for k, v := range more {
		params[k] = v
	}
	r := result[struct {
		Entries   []struct{ Path, Kind string }
		Truncated bool
	}](c, "fs/glob", params)
	var out []string
	for _, e := range r.Entries {
		mark, ok := map[string]string{"file": "", "directory": "/", "symlink": "@", "other": "="}[e.Kind]
		if !ok {
			c.t.Errorf("kind %q", e.Kind)
		}
		out = append(out, strings.TrimPrefix(e.Path, "$U/")+mark)
	}
	if r.Truncated {
		out = append(out, "...")
	}
	return strings.Join(out, " ")
}

func searchTree(t *testing.T) *client {
	c := newClient(t, fs.Config{})
	for _, name := range []string{
		"main.go", "README.md", "a-b/x.go", "a/b/deep.go", "a/b/deep.txt", "a/c.go", ".hidden/h.go", ".dot.go",
		"build/out.o", "build/keep.go", "odd/new\nline.go", "odd/bad\xff.go", "node/x/y/z.js",
	} {
		c.put(name, "package "+name+"\nfunc main() {}\n")
	}
	c.put(".gitignore", "build/\n*.txt\n")
	c.link("a", "la")
	c.link("main.go", "lf.go")
	if err := unix.Mkfifo(c.path("fifo.go"), 0o666); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGlob(t *testing.T) {
	c := searchTree(t)
	for _, tt := range []struct {
		pattern string
		more    object
		want    string
	}{
		{"*.go", nil, ".dot.go fifo.go= lf.go@ main.go"},
		{"*.go", object{"includeHidden": false}, "fifo.go= lf.go@ main.go"},
		{
			"**/*.go",
			object{"exclude": []string{"odd", "build"}},
			".dot.go .hidden/h.go a-b/x.go a/b/deep.go a/c.go fifo.go= lf.go@ main.go",
		},
		{
			"**/*.go",
			object{"respectGitignore": true, "includeHidden": false},
			"a-b/x.go a/b/deep.go a/c.go fifo.go= lf.go@ main.go odd/bad%FF.go odd/new%0Aline.go",
		},
		{"a/**", nil, "a/ a/b/ a/b/deep.go a/b/deep.txt a/c.go"},
		{"a/b/*", nil, "a/b/deep.go a/b/deep.txt"},
		{"a/b/*", object{"exclude": []string{"*.txt"}}, "a/b/deep.go"},
		{"a/b/*", object{"exclude": []string{"a/b"}}, ""},
		{"{a,build}/*.{go,o}", nil, "a/c.go build/keep.go build/out.o"},
		{"*", object{"maxResults": 3}, ".dot.go .gitignore .hidden/ ..."},
		{"*", object{"includeHidden": false, "maxResults": 9}, "README.md a/ a-b/ build/ fifo.go= la@ lf.go@ main.go node/ ..."},
		{"n*/*/*/z.js", nil, "node/x/y/z.js"},
		{"la/*", nil, ""}, // links are not followed
		{"missing/*", nil, ""},
		{"main.go/*", nil, ""},
	} {
		if got := globbed(c, tt.pattern, tt.more); got != tt.want {
			t.Errorf("%s %v\n got %s\nwant %s", tt.pattern, tt.more, got, tt.want)
		}
	}
	for _, bad := range []string{"", "/abs", "../up", "{a", "[", strings.Repeat("{a,b}", 11)} {
		c.want("-32602 pattern: *", "fs/glob", object{"path": "$U", "pattern": bad})
	}
	c.want("-32602 exclude: *", "fs/glob", object{"path": "$U", "pattern": "*", "exclude": []string{"["}})
	c.want("-32600 exclude has more than 1024 patterns", "fs/glob", object{"path": "$U", "pattern": "*", "exclude": make([]string, 1025)})
	c.want("-32600 maxResults must be greater than zero", "fs/glob", object{"path": "$U", "pattern": "*", "maxResults": 0})
	c.want(notFound, "fs/glob", object{"path": "$U/nope", "pattern": "*"})
	c.want(notDir, "fs/glob", object{"path": "$U/main.go", "pattern": "*"})
}

// grepped is what fs/grep found: path:line:column:text, errors with an exclamation
// mark.
func grepped(c *client, path, pattern string, more object) []string {
	c.t.Helper()
	params := object{"path": path, "pattern": pattern}
	for k, v := range more {
		params[k] = v
	}
	r := result[struct {
		Matches []struct {
			Path         string
			Line, Column int
			Text         string
		}
		Errors                      []struct{ Path, Message string }
		Truncated                   bool
		FilesSearched, FilesSkipped int
	}](c, "fs/grep", params)
	out := []string{}
	for _, m := range r.Matches {
		out = append(out, fmt.Sprintf("%s:%d:%d:%s", strings.TrimPrefix(m.Path, "$U/"), m.Line, m.Column, m.Text))
	}
	for _, e := range r.Errors {
		out = append(out, "!"+e.Path+": "+e.Message)
	}
	if r.Truncated {
		out = append(out, "...")
	}
	return append(out, fmt.Sprintf("%d+%d", r.FilesSearched, r.FilesSkipped))
}

func wantGrep(c *client, path, pattern string, more object, want ...string) {
	c.t.Helper()
	if got := grepped(c, path, pattern, more); strings.Join(got, "|") != strings.Join(want, "|") {
		c.t.Errorf("grep %q in %s %v\n got %q\nwant %q", pattern, path, more, got, want)
	}
}

func TestGrepTree(t *testing.T) {
	c := searchTree(t)
	wantGrep(c, "$U", `^package \w+\.go$`, nil, "main.go:1:1:package main.go", "8+0")
	wantGrep(c, "$U", `deep`, object{"respectGitignore": false, "includeHidden": true},
		"a/b/deep.go:1:13:package a/b/deep.go", "a/b/deep.txt:1:13:package a/b/deep.txt", "14+0")
	wantGrep(c, "$U", `main`, object{"include": []string{"*.go"}, "exclude": []string{"odd"}},
		"a-b/x.go:2:6:func main() {}", "a/b/deep.go:2:6:func main() {}", "a/c.go:2:6:func main() {}",
		"main.go:1:9:package main.go", "main.go:2:6:func main() {}", "4+0")
	wantGrep(c, "$U", `main`, object{"maxMatches": 2, "include": []string{"**/*.go"}},
		"a-b/x.go:2:6:func main() {}", "a/b/deep.go:2:6:func main() {}", "...", "3+0")
	wantGrep(c, "$U", `package odd`, nil, "odd/bad%FF.go:1:1:package odd/bad\uFFFD.go", "odd/new%0Aline.go:1:1:package odd/new", "8+0")
	wantGrep(c, "$U/a", `c\.go`, nil, "a/c.go:1:11:package a/c.go", "3+0") // no work tree: the rules above do not count
	wantGrep(c, "$U/la", `c\.go`, nil, "la/c.go:1:11:package a/c.go", "3+0")
	wantGrep(c, "$U/node", `nothing`, nil, "1+0")
	c.mkdir(".git")
	wantGrep(c, "$U/a", `deep`, nil, "a/b/deep.go:1:13:package a/b/deep.go", "2+0") // now they do
}

func TestGrepFile(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "one\r\ntwo two\n\nThree\nlast é")
	long := strings.Repeat("x", 5000)
	c.put("long", long+"needle\n")
	c.put("binary", "text\nwith a\x00NUL\n")
	c.put("empty", "")
	for _, tt := range []struct {
		pattern string
		more    object
		want    []string
	}{
		{"two", nil, []string{"f:2:1:two two", "1+0"}},
		{"one$", nil, []string{"f:1:1:one", "1+0"}},
		{`\Atwo`, nil, []string{"f:2:1:two two", "1+0"}},
		{`two\z`, nil, []string{"f:2:5:two two", "1+0"}},
		{`(?i)three`, nil, []string{"f:4:1:Three", "1+0"}},
		{`three`, object{"ignoreCase": true}, []string{"f:4:1:Three", "1+0"}},
		{`^$`, nil, []string{"f:3:1:", "1+0"}},
		{`t.*$`, nil, []string{"f:2:1:two two", "f:5:4:last é", "1+0"}},
		{`two\s+Three`, nil, []string{"1+0"}}, // a match lies in one line
		{`e\s*Three|two`, nil, []string{"f:2:1:two two", "1+0"}},
		{`[^x]+`, object{"maxMatches": 2}, []string{"f:1:1:one", "f:2:1:two two", "...", "1+0"}},
		{`é`, object{"fixedString": true}, []string{"f:5:6:last é", "1+0"}},
		{`t.o`, object{"fixedString": true}, []string{"1+0"}},
		{`TWO`, object{"fixedString": true, "ignoreCase": true}, []string{"f:2:1:two two", "1+0"}},
		{`two`, object{"maxFileBytes": 3}, []string{"0+1"}},
	} {
		wantGrep(c, "$U/f", tt.pattern, tt.more, tt.want...)
	}
	wantGrep(c, "$U/long", "needle", nil, "long:1:5001:"+long[:4096], "1+0")
	wantGrep(c, "$U/binary", "text", nil, "0+1")
	wantGrep(c, "$U/empty", "x*", nil, "1+0")
	c.want("-32602 pattern: *", "fs/grep", object{"path": "$U/f", "pattern": "("})
	c.want("-32602 pattern: *", "fs/grep", object{"path": "$U/f", "pattern": "a)|(?:b"})
	c.want("-32600 pattern exceeds 32768 bytes", "fs/grep", object{"path": "$U/f", "pattern": strings.Repeat("x", 32769)})
	c.want("-32600 maxMatches must be greater than zero", "fs/grep", object{"path": "$U/f", "pattern": "x", "maxMatches": 0})
	c.want(notFound, "fs/grep", object{"path": "$U/nope", "pattern": "x"})
	c.want("-32600 path `/dev/null` is not a file", "fs/grep", object{"path": "file:///dev/null", "pattern": "x"})
}

// Matches keep their lines across what is read at a time.
func TestGrepLargeFile(t *testing.T) {
	c := newClient(t, fs.Config{})
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	c.put("big", b.String()+strings.Repeat("y", 600_000)+"end")
	wantGrep(c, "$U/big", `^line \d*77777$`, nil, "big:77778:1:line 77777", "1+0")
	wantGrep(c, "$U/big", `\Aline \d*77777\z`, nil, "big:77778:1:line 77777", "1+0")
	if got := grepped(c, "$U/big", "end$", nil); !strings.HasPrefix(got[0], "big:100001:600001:yyy") {
		t.Errorf("got %.60s", got[0])
	}
	if got := grepped(c, "$U/big", "9", object{"maxMatches": 50_000}); len(got) != 40_951+1 {
		t.Errorf("%d matches", len(got)-1)
	}
}

// An answer has its limits, and is the same whatever searches at the same time.
func TestGrepManyFiles(t *testing.T) {
	c := newClient(t, fs.Config{})
	var want []string
	for i := range 300 {
		name := fmt.Sprintf("d%d/f%03d", i%7, i)
		c.put(name, "x\nneedle "+name+"\nneedle again\n")
	}
	for d := range 7 {
		for i := d; i < 300; i += 7 {
			name := fmt.Sprintf("d%d/f%03d", d, i)
			want = append(want, name+":2:1:needle "+name, name+":3:1:needle again")
		}
	}
	wantGrep(c, "$U", "needle", nil, append(want, "300+0")...)
	got := grepped(c, "$U", "needle", object{"maxMatches": 101})
	if len(got) != 103 || got[100] != want[100] || got[101] != "..." {
		t.Errorf("%d results, ending in %q", len(got), got[len(got)-3:])
	}
	// 16 MiB of lines are more than an answer takes.
	c.put("long", strings.Repeat(strings.Repeat("l", 4096)+"\n", 4500))
	if got := grepped(c, "$U/long", "l", object{"maxMatches": 50_000}); got[len(got)-2] != "..." || len(got) < 3900 {
		t.Errorf("%d results, ending in %.20q", len(got), got[len(got)-2:])
	}
}

// Expressions that would take much memory or time are refused before they do, and so
// are lists of globs.
func TestSM4PatternsAreBounded(t *testing.T) {
	c := newClient(t, fs.Config{})
	c.put("f", "aaa\n")
	for name, pattern := range map[string]string{
		"optional repetitions":    strings.Repeat("(?:a{0,1000}){0,1}", 1000),
		"repetitions in others":   strings.Repeat("(?:(?:ab?c?d?e?f?g?){30}){30}", 10),
		"open repetitions":        strings.Repeat("(?:b{900,}){1,}", 100),
		"classes":                 strings.Repeat(`\pL`, 10_000),
		"classes that fold":       "(?i)" + strings.Repeat("[B-\U0001e924]", 3000),
		"escaped ranges":          "(?i)" + strings.Repeat(`[B-\x{1e924}]`, 2000),
		"alternatives of repeats": "(?:x{1000}|" + strings.Repeat("y{0,1000}|", 60) + "z)",
	} {
		c.want("-32600 pattern is too complex, *", "fs/grep", object{"path": "$U", "pattern": pattern})
		if t.Failed() {
			t.Fatal(name)
		}
	}
	for name, pattern := range map[string]string{
		"words":       strings.Repeat("word|", 4000) + "aaa",
		"repetitions": `(?:\w{1,30}\.?){1,30}`,
		"classes":     `[\p{L}\p{N}]{1,500}`,
	} {
		c.want(`{"matches":[{*`, "fs/grep", object{"path": "$U", "pattern": pattern})
		if t.Failed() {
			t.Fatal(name)
		}
	}
	braces := make([]string, 200)
	for i := range braces {
		braces[i] = fmt.Sprint(strings.Repeat("{a,b}", 10), strings.Repeat("x", 900), i)
	}
	c.want("-32602 exclude: the patterns stand for more than 4194304 bytes *", "fs/glob", object{"path": "$U", "pattern": "*", "exclude": braces})
}
