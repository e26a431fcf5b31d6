//go:build !linux

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// sandboxType is that of processes whose policy restricts nothing; others are refused.
const sandboxType = protocol.SandboxNone

type ways struct{}

func noSandbox() error { return unavailablef("there is no sandbox for %s", runtime.GOOS) }

func (e *Enforcer) confine(context.Context, *Policy, process.Launch) (process.Confined, error) {
	return process.Confined{}, noSandbox()
}

// Start refuses: this system has no sandbox.
func (e *Enforcer) Start(_ context.Context, s *protocol.Sandbox) (rpc.Connection, error) {
	if _, err := Resolve(s, fileContext()); err != nil {
		return nil, fileError(err)
	}
	return nil, fileError(noSandbox())
}

// Open opens nothing: all that a sandbox allows is refused.
func (e *Enforcer) Open(*protocol.Sandbox, string) (int, bool) { return -1, false }

func ownedByMe(os.FileInfo) bool { return false }

func hasOtherNames(os.FileInfo) bool { return false }

func isTrustedDir(string) bool { return false }

func readMounts() (mounts, error) { return nil, nil }

// A mountTable is of use where there is a sandbox.
type mountTable struct{}

func (*mountTable) open() error           { return nil }
func (*mountTable) close()                {}
func (*mountTable) hasChanged() bool      { return false }
func (*mountTable) read() (mounts, error) { return nil, nil }

// A borrowedDir is of use where there is a sandbox.
type borrowedDir struct{}

func (*rights) borrow(string) error { return errForeign }

func (*rights) giveBack() {}

func runHelper() { fmt.Fprintln(os.Stderr, noSandbox()) }

func probeInside() error { return errors.ErrUnsupported }

func (e *Enforcer) probe(context.Context, *Report) {}
