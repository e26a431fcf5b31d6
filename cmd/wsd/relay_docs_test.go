package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// limitFiles are the files whose exported numbers are limits and timers of the relay.
var limitFiles = []string{
	"relay/limits.go", "relay/arq/config.go", "relay/frame/check.go", "relay/executor/limits.go", "relay/harness/limits.go",
	"relay/registry/limits.go", "relay/trust/limits.go", "relay/rendezvous/limits.go",
}

// constants reads files alone: what they import is read in the same way.
type constants struct {
	fset *token.FileSet
	time *types.Package
}

func newConstants() *constants {
	pkg := types.NewPackage("time", "time")
	duration := types.NewNamed(types.NewTypeName(0, pkg, "Duration", nil), types.Typ[types.Int64], nil)
	pkg.Scope().Insert(duration.Obj())
	for name, d := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
		pkg.Scope().Insert(types.NewConst(0, pkg, name, duration, constant.MakeInt64(int64(d))))
	}
	pkg.MarkComplete()
	return &constants{fset: token.NewFileSet(), time: pkg}
}

// Import implements types.Importer.
func (c *constants) Import(path string) (*types.Package, error) {
	if path == "time" {
		return c.time, nil
	}
	for _, file := range limitFiles {
		if inside, ok := strings.CutPrefix(path, "github.com/wsd-dev/wsd/"); ok && filepath.ToSlash(filepath.Dir(file)) == inside {
			return c.check(file)
		}
	}
	return nil, fmt.Errorf("no package %s", path)
}

// check reads one file. What it uses besides constants is not there, which is no matter.
func (c *constants) check(file string) (*types.Package, error) {
	parsed, err := parser.ParseFile(c.fset, filepath.Join("..", "..", filepath.FromSlash(file)), nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	config := types.Config{Importer: c, Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := config.Check("github.com/wsd-dev/wsd/"+filepath.ToSlash(filepath.Dir(file)), c.fset, []*ast.File{parsed}, nil)
	return pkg, nil
}

// numbers are the exported constants of file by their names with the package's, those
// that are durations in nanoseconds.
func (c *constants) numbers(t *testing.T, file string) map[string]int64 {
	t.Helper()
	pkg, err := c.check(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, name := range pkg.Scope().Names() {
		obj, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !obj.Exported() || obj.Val().Kind() != constant.Int {
			continue
		}
		if basic, ok := obj.Type().Underlying().(*types.Basic); !ok || basic.Kind() == types.Uint8 {
			continue // an enumeration
		}
		value, exact := constant.Int64Val(obj.Val())
		if !exact {
			t.Fatalf("%s.%s is no int64", pkg.Name(), name)
		}
		out[pkg.Name()+"."+name] = value
	}
	return out
}

// docs/relay.md has every event of the audit log.
func TestRelayPageHasAllEvents(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "relay", "rendezvous", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	events := []string{registry.OpRegister, registry.OpConnect, registry.OpValidate}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`audit\.write\("([a-z]+)"`).FindAllSubmatch(source, -1) {
			events = append(events, string(m[1]))
		}
	}
	if len(events) < 10 {
		t.Fatalf("found %v alone", events)
	}
	page := readDoc(t, "docs/relay.md")
	_, page, _ = strings.Cut(page, "The audit log has the events")
	page, _, _ = strings.Cut(page, "\n\n")
	for _, event := range events {
		if !strings.Contains(page, "`"+event+"`") {
			t.Errorf("the page does not have the event %s", event)
		}
	}
}

// units are how docs/relay.md writes numbers.
var units = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20,
	"ms": int64(time.Millisecond), "s": int64(time.Second), "min": int64(time.Minute), "d": 24 * int64(time.Hour),
}

func parseValue(text string) (int64, error) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	if err != nil {
		return 0, err
	}
	scale, ok := units[unit]
	if !ok {
		return 0, fmt.Errorf("unknown unit %q", unit)
	}
	return n * scale, nil
}

// docs/relay.md has every limit and timer there is, as it is. A row may have several,
// with semicolons between.
func TestRelayPageHasAllLimits(t *testing.T) {
	documented := map[string]int64{}
	row := regexp.MustCompile("(?m)^\\| .* \\| ([^|]+) \\| (`[a-z]+\\.[A-Z][^|]*) \\|$")
	for _, m := range row.FindAllStringSubmatch(readDoc(t, "docs/relay.md"), -1) {
		values, names := strings.Split(m[1], ";"), strings.Split(m[2], ";")
		for i, name := range names {
			value := values[0]
			if len(values) == len(names) {
				value = values[i]
			} else if len(values) != 1 {
				t.Errorf("%d values for %d names: %s", len(values), len(names), m[0])
			}
			name = strings.Trim(strings.TrimSpace(name), "`")
			n, err := parseValue(value)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, twice := documented[name]; twice {
				t.Errorf("%s stands there twice", name)
			}
			documented[name] = n
		}
	}
	c := newConstants()
	for _, file := range limitFiles {
		for name, value := range c.numbers(t, file) {
			switch got, ok := documented[name]; {
			case name == "frame.Version":
			case !ok:
				t.Errorf("%s = %d is not in the page", name, value)
			case got != value:
				t.Errorf("%s is %d, the page says %d", name, value, got)
			}
			delete(documented, name)
		}
	}
	for name := range documented {
		t.Errorf("%s is in the page and not in the code", name)
	}
}

// The pages show commands that there are.
func TestRelayPagesShowCommands(t *testing.T) {
	for _, page := range []string{"docs/relay.md", "docs/security.md", "docs/cli.md", "README.md"} {
		commands := regexp.MustCompile(`(?m)^(?:bin/)?wsd (.*?)(?:\s+#.*)?$`).FindAllStringSubmatch(readDoc(t, page), -1)
		for _, c := range commands {
			line := strings.ReplaceAll(c[1], "\\\n", " ")
			args, _, _ := strings.Cut(line, " -- ")
			args, _, _ = strings.Cut(args, " >")
			args = strings.TrimSuffix(args, "\\")
			if cmd := commandFor(t, remoteArgs(strings.Fields(args))); !cmd.Runnable() {
				t.Errorf("%s: %s", page, c[0])
			}
		}
	}
}
