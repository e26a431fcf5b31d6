package layers

import (
	iofs "io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w*[a-z]\w*\b`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestSecurityNamesTests holds docs/security.md against the code: each test that it names
// is there.
func TestSecurityNamesTests(t *testing.T) {
	dir := root(t)
	there := map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != dir && strings.HasPrefix(d.Name(), ".") {
			return iofs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllString(string(text), -1)
	if len(named) < 20 {
		t.Errorf("docs/security.md names %d tests", len(named))
	}
	for _, name := range named {
		if !there[name] {
			t.Errorf("docs/security.md names %s, and there is no such test", name)
		}
	}
}
