// Command chaos runs the tests of this module with the scheduling of goroutines disturbed: it
// builds them with a call of point.Here before each statement that uses a channel or a mutex,
// or starts a goroutine. A test that fails only here has found an order of events that real
// machines have rarely.
//
//	go run ./cmd/wsd/chaos [flags of go test] packages...
//
// The sources stay as they are: the changed ones lie in a temporary directory, which go test
// reads as an overlay.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	module = "github.com/wsd-dev/wsd"
	itself = module + "/cmd/wsd/chaos"
	// undisturbed are the tests that two runs are the same, event by event.
	undisturbed = "^TestSeedsRepeat$"
)

func main() {
	err := run(os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
}

// run runs go test with args on the disturbed module.
func run(args []string) error {
	if len(args) == 0 {
		return errors.New("name the packages to test, with flags of go test before them, such as -count=20 ./relay/arq")
	}
	dir, err := os.MkdirTemp("", "wsd-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	overlay, err := disturb(ctx, dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-skip", undisturbed, "-overlay", overlay}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends its tests, too
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// disturb writes the changed sources of the module into dir, and returns the file that tells
// the go command where each is.
func disturb(ctx context.Context, dir string) (overlay string, err error) {
	files, err := sources(ctx)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, path := range files {
		src, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		changed, err := rewrite(path, src)
		if err != nil {
			return "", err
		}
		if bytes.Equal(changed, src) {
			continue
		}
		to := filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		if err := os.WriteFile(to, changed, 0o600); err != nil {
			return "", err
		}
		replace[path] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// sources lists the Go files of the module, tests among them, without those of this command.
func sources(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-tags", "e2e,interop,attack",
		"-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles", module+"/...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var files []string
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir                    string
			GoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, err
		}
		if p.ImportPath == itself || strings.HasPrefix(p.ImportPath, itself+"/") {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			files = append(files, filepath.Join(p.Dir, name))
		}
	}
}

// rewrite puts a call of point.Here before each statement of src that synchronises
// goroutines. The lines keep their numbers.
func rewrite(path string, src []byte) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var at []int
	ast.Inspect(f, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		for _, stmt := range list {
			if synchronises(stmt) {
				at = append(at, set.Position(stmt.Pos()).Offset)
			}
		}
		return true
	})
	if len(at) == 0 {
		return src, nil
	}
	slices.Sort(at)
	var out []byte
	from := set.Position(f.Name.End()).Offset
	out = append(out, src[:from]...)
	out = append(out, `; import chaosPoint "`+itself+`/point"`...)
	for _, to := range at {
		out = append(out, src[from:to]...)
		out = append(out, "chaosPoint.Here(); "...)
		from = to
	}
	return append(out, src[from:]...), nil
}

// synchronises reports whether stmt itself, without the blocks and functions in it, uses a
// channel or a mutex or starts a goroutine.
func synchronises(stmt ast.Stmt) (yes bool) {
	ast.Inspect(stmt, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.FuncLit, *ast.CaseClause, *ast.CommClause:
			return false
		case *ast.SelectStmt, *ast.SendStmt, *ast.GoStmt:
			yes = true
		case *ast.UnaryExpr:
			yes = yes || n.Op == token.ARROW
		case *ast.CallExpr:
			yes = yes || usesLock(n)
		}
		return !yes
	})
	return yes
}

// usesLock reports whether call closes a channel, or has the name of a method of a mutex, a
// condition or a wait group.
func usesLock(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "close"
	case *ast.SelectorExpr:
		return slices.Contains([]string{
			"Lock", "TryLock", "Unlock", "RLock", "RUnlock", "lock", "unlock",
			"Wait", "Done", "Signal", "Broadcast",
		}, f.Sel.Name)
	}
	return false
}
