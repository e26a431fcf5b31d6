package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A docRow is a row of the table of packages in docs/architecture.md.
type docRow struct {
	packages []string
	imports  []string
}

var quoted = regexp.MustCompile("`([^`]+)`")

// docRows reads the table: | `package`, … | what it owns | `import`, … or nothing or everything |.
func docRows(t *testing.T) []docRow {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "\n## Packages\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	names := func(cell string) (found []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			found = append(found, m[1])
		}
		return found
	}
	var rows []docRow
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		row := docRow{packages: names(cells[1]), imports: names(cells[3])}
		switch {
		case strings.TrimSpace(cells[3]) == "everything":
			row.imports = []string{"..."}
		case strings.TrimSpace(cells[3]) != "nothing" && row.imports == nil:
			t.Errorf("imports %q of %v: want names, nothing or everything", cells[3], row.packages)
		}
		rows = append(rows, row)
	}
	return rows
}

// ours are the imports of p from this module.
func ours(p *goPackage) (found []string) {
	for _, path := range p.Imports {
		if name, is := strings.CutPrefix(path, module+"/"); is {
			found = append(found, name)
		}
	}
	return found
}

// The table of packages in docs/architecture.md has every package that is built into
// the program, and names what each imports: no less and no more.
func TestArchitectureTable(t *testing.T) {
	byName := make(map[string]*goPackage)
	for _, p := range packages(t, "linux") {
		byName[p.name()] = p
	}
	rows := docRows(t)
	listed := make(map[string]bool)
	for _, row := range rows {
		used := make(map[string]bool)
		for _, name := range row.packages {
			p := byName[name]
			if p == nil {
				t.Errorf("there is no package %s", name)
				continue
			}
			listed[name] = true
			for _, imported := range ours(p) {
				i := slices.IndexFunc(row.imports, func(pattern string) bool { return fits(pattern, imported) })
				if i < 0 {
					t.Errorf("%s imports %s, which the table does not say", name, imported)
					continue
				}
				used[row.imports[i]] = true
			}
		}
		for _, pattern := range row.imports {
			if !used[pattern] {
				t.Errorf("%v import no %s, though the table says so", row.packages, pattern)
			}
		}
	}
	var visit func(name string)
	seen := make(map[string]bool)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		if !listed[name] {
			t.Errorf("%s is not in the table", name)
		}
		for _, imported := range ours(byName[name]) {
			visit(imported)
		}
	}
	visit("cmd/wsd")
}
