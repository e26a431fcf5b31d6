package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A gate holds commands up until the test opens it.
type gate struct {
	t      testing.TB
	path   string
	n      int
	opened int
}

func newGate(t testing.TB, f *fixture) *gate {
	t.Helper()
	return &gate{t: t, path: filepath.Join(f.dir, "gate")}
}

// wait is a command that waits for the next open. The waits of a gate end in their order.
func (g *gate) wait() string {
	g.t.Helper()
	g.n++
	path := fmt.Sprint(g.path, g.n)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		g.t.Fatal(err)
	}
	return "read line < " + path
}

// open lets the next of those that wait go on.
func (g *gate) open() {
	g.t.Helper()
	g.opened++
	// Opening waits for the reader.
	if err := os.WriteFile(fmt.Sprint(g.path, g.opened), []byte("\n"), 0o600); err != nil {
		g.t.Fatal(err)
	}
}
