package main

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"

	"github.com/wsd-dev/wsd/protocol"
)

// terminal is the terminal that this program runs on.
type terminal struct {
	in    *os.File
	state *term.State // before it was made raw; nil when it was not
}

// isTerminal reports whether v is an *os.File that is a terminal.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// newTerminal returns the terminal behind in, or one that has no size and needs no
// care when in is none.
func newTerminal(in io.Reader) *terminal {
	if isTerminal(in) {
		return &terminal{in: in.(*os.File)}
	}
	return &terminal{}
}

// raw hands every key to the command.
func (t *terminal) raw() error {
	if t.in == nil {
		return nil
	}
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	t.state = state
	return nil
}

func (t *terminal) restore() {
	if t.state != nil {
		_ = term.Restore(int(t.in.Fd()), t.state) // a terminal that is gone needs no care
		t.state = nil
	}
}

// size is false when there is no terminal, or one without a size.
func (t *terminal) size() (protocol.TerminalSize, bool) {
	if t.in == nil {
		return protocol.TerminalSize{}, false
	}
	cols, rows, err := term.GetSize(int(t.in.Fd()))
	if err != nil || rows <= 0 || cols <= 0 {
		return protocol.TerminalSize{}, false
	}
	return protocol.TerminalSize{Rows: uint32(rows), Cols: uint32(cols)}, true
}

// isNull reports whether r is the null device, from which nothing will ever come.
func isNull(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	a, okA := info.Sys().(*syscall.Stat_t)
	b, okB := null.Sys().(*syscall.Stat_t)
	return okA && okB && a.Rdev == b.Rdev
}
