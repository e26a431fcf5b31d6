package arq

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestPure: no goroutine, channel, lock, clock, timer, socket or cipher: what the code
// may import, and what of package time it may not use.
func TestPure(t *testing.T) {
	allowed := map[string]bool{
		"bytes": true, "encoding/binary": true, "errors": true, "fmt": true, "math": true, "math/rand/v2": true, "time": true,
	}
	clock := map[string]bool{
		"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
		"NewTimer": true, "NewTicker": true, "Tick": true,
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files, read := token.NewFileSet(), 0
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		read++
		for _, imported := range file.Imports {
			if path, _ := strconv.Unquote(imported.Path.Value); !allowed[path] {
				t.Errorf("%v: imports %s", files.Position(imported.Pos()), path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%v: %T", files.Position(n.Pos()), n)
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "time" && clock[n.Sel.Name] {
					t.Errorf("%v: uses the clock", files.Position(n.Pos()))
				}
			}
			return true
		})
	}
	if read < 10 {
		t.Errorf("read %d files", read)
	}
}
