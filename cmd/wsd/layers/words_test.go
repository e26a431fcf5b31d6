package layers

import (
	"cmp"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	iofs "io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateWords = flag.Bool("update-words", false, "write the counts of stilted sentences to testdata/words.txt; a count may only fall")

// stilted are the shapes of sentences that need a second reading.
var stilted = []*regexp.Regexp{
	regexp.MustCompile(`(?:^|[.;:?!] )What\b`),
	regexp.MustCompile(`(?i)\bwhoever\b`),
	regexp.MustCompile(`\b(?:tells?|told|telling) (?:of|about)\b`),
	regexp.MustCompile(`\b(?:gives?|gave|given|giving) (?:\w+ ){0,2}(?:up|back)\b`),
	regexp.MustCompile(`\b(?:have|has|had|having) (?:it|them|(?:an?|the|its) \w+) (?:sent|taken|queued|written|told|answered)\b`),
	regexp.MustCompile(`\bas welcome\b`),
	regexp.MustCompile(`\bof those (?:that|who)\b`),
	regexp.MustCompile(`\bthat (?:is|are) none\b`),
	regexp.MustCompile(`\bwho (?:has|have|had|is|are|asks?|reads?|waits?|logged|awaits|calls?)\b`),
}

// stiltedIn lists the stilted places of the paragraph, each with some words that follow. The lines of the
// paragraph may be broken anywhere.
func stiltedIn(paragraph string) []string {
	paragraph = strings.Join(strings.Fields(paragraph), " ")
	var found []string
	for _, shape := range stilted {
		for _, at := range shape.FindAllStringIndex(paragraph, -1) {
			found = append(found, paragraph[at[0]:min(at[1]+40, len(paragraph))])
		}
	}
	return found
}

// paragraphs returns the comments of a Go file, or the text of a Markdown file without its code.
func paragraphs(t *testing.T, path string) []string {
	t.Helper()
	if filepath.Ext(path) == ".go" {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, group := range f.Comments {
			all = append(all, strings.Split(group.Text(), "\n\n")...)
		}
		return all
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for i, part := range strings.Split(string(data), "```") {
		if i%2 == 0 {
			text = append(text, strings.Split(part, "\n\n")...)
		}
	}
	return text
}

// countWords counts what is stilted in each directory of the repository, and lists it.
func countWords(t *testing.T, dir string) (counts map[string]int, places map[string][]string) {
	t.Helper()
	counts, places = map[string]int{}, map[string][]string{}
	skip := []string{".git", ".cache", "bin", "dist", "node_modules", "testdata"}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skip, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular(), strings.HasSuffix(path, ".pb.go"):
			return nil
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md":
			return nil
		}
		rel, _ := filepath.Rel(dir, path)
		pkg := filepath.ToSlash(filepath.Dir(rel))
		for _, p := range paragraphs(t, path) {
			for _, words := range stiltedIn(p) {
				counts[pkg]++
				places[pkg] = append(places[pkg], fmt.Sprintf("%s: %q", filepath.ToSlash(rel), words))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return counts, places
}

// Comments and documentation are understood at first reading: subject, verb, object. Stilted
// sentences of old are counted in testdata/words.txt, and a count may only fall.
func TestPlainWords(t *testing.T) {
	const list = "testdata/words.txt"
	counts, places := countWords(t, root(t))
	data, err := os.ReadFile(list)
	if err != nil && !*updateWords {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(data)) {
		pkg, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if allowed[pkg], err = strconv.Atoi(n); err != nil {
			t.Fatalf("%s: %q: %v", list, line, err)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(counts)) {
		if counts[pkg] > allowed[pkg] && len(allowed) > 0 {
			t.Errorf("%s has %d stilted sentences, and %d are allowed: write the new ones as subject, verb, object.\n\t%s",
				pkg, counts[pkg], allowed[pkg], strings.Join(places[pkg], "\n\t"))
		}
	}
	if t.Failed() {
		return
	}
	var lines strings.Builder
	for _, pkg := range slices.SortedFunc(maps.Keys(counts), cmp.Compare[string]) {
		fmt.Fprintf(&lines, "%s %d\n", pkg, counts[pkg])
	}
	switch {
	case lines.String() == string(data):
	case !*updateWords:
		t.Errorf("fewer sentences are stilted than %s allows: run `go test ./cmd/wsd/layers -run PlainWords -update-words`", list)
	default:
		if err := os.WriteFile(list, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStilted(t *testing.T) {
	for text, want := range map[string]int{
		"Handle never blocks.\nIt hands a message to the reader.":      0,
		"A group runs one batch. What it runs is\nsaid by its caller.": 1,
		"Whoever logged it is told\nof the output.":                    2,
		"GiveUp gives a chunk of it back.":                             0,
		"It gives the chunk back.":                                     1,
		"Run has a message taken by a reader who awaits it.":           2,
		"The paths of those who ask, and others that are none.":        3,
		"Say what it is.": 0,
	} {
		if got := stiltedIn(text); len(got) != want {
			t.Errorf("in %q found %q, want %d", text, got, want)
		}
	}
}
