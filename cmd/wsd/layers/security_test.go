package layers

import (
	"fmt"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w*[a-z]\w*\b`)
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// findings are how many there are of each kind in the first look at the security of wsd.
// Tests have their numbers: TestSH1DenySurvivesChmod is of S-H1.
var findings = map[string]int{"SH": 8, "SM": 8, "SL": 14, "SR": 11}

// TestSecurityNamesTests holds docs/security.md against the code: each test that it names
// is there, and each finding has one.
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
	for kind, count := range findings {
		for number := range count {
			id := regexp.MustCompile(fmt.Sprintf(`^Test(S[HMLR]\d+)*%s%d([^0-9]|$)`, kind, number+1))
			if !slices.ContainsFunc(slices.Collect(maps.Keys(there)), id.MatchString) {
				t.Errorf("no test is of %s%d", kind, number+1)
			}
		}
	}
}
