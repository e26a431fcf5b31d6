package tree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/tree"
)

func newTree(t *testing.T, files map[string]string) *tree.Tree {
	t.Helper()
	tr, err := tree.New(tree.NewMemory(), tree.Config{}).Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		if _, err := tr.WriteFile(t.Context(), path, strings.NewReader(text), tree.File{}); err != nil {
			t.Fatal(err)
		}
	}
	return tr
}

func TestC046Glob(t *testing.T) {
	files := map[string]string{}
	for _, p := range []string{
		".hid/A.md", "a.md", "s/b.md", "s/t/c.md", "x[1].md", "{k} n.md", "sp ace.md", "ü.md", "f1.txt", "f10.txt", "a.b", "a[", "b{", "c}",
		"my_dir/x", "myXdir/y", "100%/z", "100x/w", "]x", "-x", `q\`,
	} {
		files["/"+p] = "x"
	}
	tr := newTree(t, files)
	if _, err := tr.Update(t.Context(), func(e *tree.Edit) error { return e.Symlink("s", "/ln") }); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"*.md":               "/a.md /sp ace.md /x[1].md /{k} n.md /ü.md",
		"/**/*.md":           "/.hid/A.md /a.md /s/b.md /s/t/c.md /sp ace.md /x[1].md /{k} n.md /ü.md",
		".hid/A.md":          "/.hid/A.md",
		".hid/*":             "/.hid/A.md",
		"s/**/c.md":          "/s/t/c.md",
		"s/**/b.md":          "/s/b.md",
		"s/**":               "/s/b.md /s/t /s/t/c.md",
		"s//./**":            "/s/b.md /s/t /s/t/c.md",
		"x[[]1].md":          "/x[1].md",
		`x\[1].md`:           "/x[1].md",
		"{a,s/b}.md":         "/a.md /s/b.md",
		"*.MD":               "",
		"[!a]*.md":           "/sp ace.md /x[1].md /{k} n.md /ü.md",
		"[^a]*.md":           "/sp ace.md /x[1].md /{k} n.md /ü.md",
		"?.md":               "/a.md /ü.md",
		"f?.txt":             "/f1.txt",
		"a[":                 "/a[",
		"b{":                 "/b{",
		"c}":                 "/c}",
		"[]a]*":              "/]x /a.b /a.md /a[",
		"[]-]x":              "/-x /]x",
		"{a.b,f1.txt}":       "/a.b /f1.txt",
		"{a+b,(x}":           "",
		"my_dir/**":          "/my_dir/x",
		"100%/*":             "/100%/z",
		"ln":                 "/ln",
		"ln/*":               "",
		"a**":                "/a.b /a.md /a[",
		"/exact":             "",
		"nothing/here/*":     "",
		"a.md/*":             "",
		`q\\`:                `/q\`,
		"f{1,{10,2}}.t[x]t":  "/f1.txt /f10.txt",
		"{s,my_dir}/{b*,x}":  "/my_dir/x /s/b.md",
		"*a*a*a*a*a*a*a*a*b": "",
	} {
		list, err := tr.Glob(t.Context(), pattern)
		var got []string
		for _, i := range list {
			got = append(got, i.Path)
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", pattern, err, diff)
		}
	}
	for _, pattern := range []string{"../x", "a/../b", strings.Repeat("a", 4097), strings.Repeat("{a,b}", 11)} {
		if _, err := tr.Glob(t.Context(), pattern); tree.Code(err) != "EINVAL" {
			t.Errorf("%.20s: %v", pattern, err)
		}
	}
	long := newTree(t, map[string]string{"/" + strings.Repeat("a", 200): ""})
	began := time.Now()
	if list, err := long.Glob(t.Context(), "*a*a*a*a*a*b"); err != nil || len(list) != 0 || time.Since(began) > 10*time.Second {
		t.Error(list, err, time.Since(began))
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"a[", "[]", "[]a]", "{a,{b", "}", "**/x/**", `a\`, "[!", "{[}]}", "[a/b]", "{a,[b}"} {
		f.Add(seed)
	}
	tr, err := tree.New(tree.NewMemory(), tree.Config{}).Tree(f.Context(), tree.DefaultName)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if _, err := tr.Glob(t.Context(), pattern); err != nil && tree.Code(err) != "EINVAL" {
			t.Errorf("%q: %v", pattern, err)
		}
	})
}

// What is printed turns the old file into the new one, to the byte.
func TestC046Diff(t *testing.T) {
	many := strings.Repeat("line\n", 9998)
	for name, tt := range map[string]struct{ old, now, want string }{
		"equal":         {"a\n", "a\n", ""},
		"newline added": {"a", "a\n", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"from empty":    {"", "a", "@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n"},
		"to empty":      {"a\n", "", "@@ -1,1 +0,0 @@\n-a\n"},
		"CR":            {"a\r\n", "a\n", "@@ -1,1 +1,1 @@\n-a\r\n+a\n"},
		"line at end":   {"1\n2\n3", "1\n2\n3\n4", "@@ -1,3 +1,4 @@\n 1\n 2\n-3\n\\ No newline at end of file\n+3\n+4\n\\ No newline at end of file\n"},
		"long line":     {strings.Repeat("x", 1<<20) + "\n", "y\n", "@@ -1,1 +1,1 @@\n-" + strings.Repeat("x", 1<<20) + "\n+y\n"},
		"far apart":     {many + "x\n", "y\n" + many, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, map[string]string{"/d/old": tt.old, "/new": tt.now})
			got, err := tr.Diff(t.Context(), "d//old", "/new")
			if err != nil {
				t.Fatal(err)
			}
			if tt.want != "" || tt.old == tt.now {
				want := tt.want
				if want != "" {
					want = "--- /d/old\n+++ /new\n" + want
				}
				if got != want {
					t.Errorf("%.300q", got)
				}
			}
			content, err := tr.DiffContent(t.Context(), "/d/old", []byte(tt.now))
			if want := strings.Replace(got, "+++ /new", "+++ /d/old", 1); err != nil || content != want {
				t.Errorf("%.300q, %v", content, err)
			}
			patched(t, tt.old, tt.now, got)
		})
	}
	tr := newTree(t, map[string]string{"/bin": "a\x00b", "/text": "a", "/long": strings.Repeat("\n", 10_000)})
	if got, err := tr.Diff(t.Context(), "/bin", "/text"); got != "Binary files /bin and /text differ\n" || err != nil {
		t.Error(got, err)
	}
	for path, want := range map[string]string{"/long": "EFBIG", "/none": "ENOENT", "/": "EISDIR"} {
		if _, err := tr.Diff(t.Context(), "/text", path); tree.Code(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// patched applies a diff by the program patch, where there is one.
func patched(t *testing.T, old, now, diff string) {
	t.Helper()
	program, err := exec.LookPath("patch")
	if err != nil || diff == "" {
		return
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "--binary", "-s", file)
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(file)
	if (err != nil && now != "") || string(got) != now { // patch removes a file that is empty
		t.Errorf("%.100q, %v; want %.100q", got, err, now)
	}
}
