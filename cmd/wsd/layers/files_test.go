package layers

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the top of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// commented reports whether the Go file at path has a package comment.
func commented(t *testing.T, path string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != ""
}

// unwanted are the words that belong to one machine: where this clone lies, its
// user's home, and the hosts that packages come from.
func unwanted(dir, home string) []string {
	words := []string{
		"registry.npmjs" + ".org",
		"proxy.golang" + ".org",
		"deb.debian" + ".org",
	}
	// A clone directly in one of these says nothing that is not said everywhere.
	common := []string{"/", "/tmp", "/var/tmp", "/srv", "/home", "/usr", "/opt", "/var", "/mnt", ""}
	for _, place := range []string{filepath.Dir(dir), home} {
		if !slices.Contains(common, place) {
			words = append(words, place+"/")
		}
	}
	return words
}

// find lists which of words are in data, as the beginning of a path or on their own:
// /mnt/users/ann/ does not name /users/ann/.
func find(data []byte, words []string) []string {
	var found []string
	for _, w := range words {
		for at := 0; ; at++ {
			i := bytes.Index(data[at:], []byte(w))
			if i < 0 {
				break
			}
			if at += i; at == 0 || !goesOn(data[at-1]) {
				found = append(found, w)
				break
			}
		}
	}
	return found
}

// goesOn reports whether a path that begins behind c is a part of another.
func goesOn(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.})-", c) >= 0
}

func TestNoMachinePaths(t *testing.T) {
	dir := root(t)
	home, _ := os.UserHomeDir()
	words, files := unwanted(dir, home), 0
	skip := []string{".git", ".cache", "bin", "dist"}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if d.IsDir() && slices.Contains(skip, rel) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, w := range find(data, words) {
			t.Errorf("%s names %s, which is of one machine only", rel, w)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("looked at %d files only", files)
	}
}

func TestFind(t *testing.T) {
	words := unwanted("/data/clones/wsd", "/users/ann")
	for text, want := range map[string][]string{
		"see /data/clones/notes and /users/anna and file:///users/ann/x": {"/data/clones/", "/users/ann/"},
		"/data/clones":                       nil,
		"/mnt/users/ann/x, ${U}/users/ann/x": nil,
		"/users/ann/":                        {"/users/ann/"},
	} {
		if got := find([]byte(text), words); !slices.Equal(got, want) {
			t.Errorf("in %q found %q, want %q", text, got, want)
		}
	}
	if w := unwanted("/tmp/wsd", "/"); len(w) != 3 {
		t.Errorf("unwanted in a common place: %q", w)
	}
}

// No package and no directory is named after nothing in particular.
func TestNoVagueNames(t *testing.T) {
	vague := []string{"util", "utils", "common", "helpers", "helper", "types", "misc", "sync", "internal"}
	for _, p := range packages(t, "linux") {
		for part := range strings.SplitSeq(p.name(), "/") {
			if slices.Contains(vague, part) {
				t.Errorf("%s: name the package after what it provides", p.name())
			}
		}
	}
}

// sleepsAwake reports whether the Go source sleeps without a bubble of synctest around
// it: a test that waits for time to pass is slow, and fails on a busy machine.
func sleepsAwake(t *testing.T, name string, source any) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	sleeps, bubble := false, false
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			pkg, _ := sel.X.(*ast.Ident)
			sleeps = sleeps || pkg != nil && pkg.Name == "time" && sel.Sel.Name == "Sleep"
			bubble = bubble || pkg != nil && pkg.Name == "synctest"
		}
		return true
	})
	return sleeps && !bubble
}

func TestNoSleep(t *testing.T) {
	for _, p := range packages(t, "linux") {
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			if sleepsAwake(t, filepath.Join(p.Dir, file), nil) {
				t.Errorf("%s/%s sleeps outside a bubble: wait for the event", p.name(), file)
			}
		}
	}
}

func TestSleepsAwake(t *testing.T) {
	const head = "package p\nimport \"time\"\nfunc f() { "
	for body, want := range map[string]bool{
		"time.Sleep(1)": true,
		"synctest.Test(t, func(*testing.T) { time.Sleep(1) })": false,
		"time.After(1)": false,
	} {
		if got := sleepsAwake(t, "p.go", head+body+" }"); got != want {
			t.Errorf("%s: %v", body, got)
		}
	}
}
