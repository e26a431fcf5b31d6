package process

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/protocol"
)

var defaultTerminal = Size{Rows: 24, Cols: 80}

// request is a process/start that has been checked, as far as that is possible
// without looking at the system.
type request struct {
	params   *protocol.StartParams
	program  string // argv[0], which arg0 does not change
	argv     []string
	env      []string
	dir      string
	terminal *Size
	timeout  time.Duration // 0 for none
	limits   *limit.Limits // nil for none
	view     *Namespace    // that dir and program are looked up in
}

// check turns the parameters of process/start into a request.
func check(p *protocol.StartParams, environ func() []string) (*request, error) {
	if len(p.ProcessID) > protocol.MaxProcessIDBytes {
		return nil, protocol.InvalidParams("processId is longer than %d bytes", protocol.MaxProcessIDBytes)
	}
	if err := checkOptions(p); err != nil {
		return nil, err
	}
	r := &request{params: p, argv: slices.Clone(p.Argv)}
	switch {
	case len(p.Argv) == 0:
		return nil, protocol.InvalidParams("argv must not be empty")
	case p.Argv[0] == "":
		return nil, protocol.InvalidStart(protocol.KindSpawnFailed, "argv[0] must not be empty")
	}
	r.program = p.Argv[0]
	if p.Arg0 != nil {
		r.argv[0] = *p.Arg0
	}
	for i, arg := range append(r.argv, r.program) {
		if strings.ContainsRune(arg, 0) {
			return nil, protocol.InvalidStart(protocol.KindSpawnFailed, "argv[%d] has a NUL byte", i%len(r.argv))
		}
	}
	var err error
	if r.dir, err = fileuri.Path(p.Cwd); err != nil {
		return nil, cwdRefused(p.Cwd, err)
	}
	var server []string
	if p.EnvPolicy != nil {
		server = environ()
	}
	if r.env, err = childEnv(p.EnvPolicy, p.Env, server); err != nil {
		return nil, err
	}
	if p.TTY {
		if _, ok := envValue(r.env, "SHELL"); !ok {
			r.env = append(r.env, "SHELL="+loginShell())
		}
		r.terminal = &defaultTerminal
	}
	if p.Size != nil {
		size, err := terminalSize(p.Size.Rows, p.Size.Cols)
		if err != nil {
			return nil, err
		}
		if !p.TTY {
			return nil, protocol.InvalidParams("size is that of a terminal, and tty is false")
		}
		r.terminal = &size
	}
	if p.TimeoutMs != nil {
		if *p.TimeoutMs == 0 {
			return nil, protocol.InvalidParams("timeoutMs must not be 0")
		}
		r.timeout = milliseconds(*p.TimeoutMs)
	}
	if r.limits, err = limit.Of(p.Limits); err != nil {
		return nil, err
	}
	return r, nil
}

// checkOptions refuses what this server does not offer, and what is malformed.
func checkOptions(p *protocol.StartParams) error {
	if p.NetworkProxy != nil {
		return protocol.InvalidStart(protocol.KindSandboxUnavailable, "networkProxy is not offered: the capability networkProxyLaunch is not among this server's")
	}
	if p.ShellSnapshot != nil {
		return protocol.InvalidStart(protocol.KindSandboxUnavailable, "shellSnapshot is not offered: the capability shellSnapshotV2 is not among this server's")
	}
	if p.Metadata != nil && p.Metadata.ThreadID != nil {
		if _, err := uuid.Parse(*p.Metadata.ThreadID); err != nil {
			return protocol.InvalidParams("metadata.threadId is not a UUID: %v", err)
		}
	}
	return nil
}

// terminalSize checks the size of a terminal.
func terminalSize(rows, cols uint32) (Size, error) {
	if rows < 1 || rows > protocol.MaxTerminalSize || cols < 1 || cols > protocol.MaxTerminalSize {
		return Size{}, protocol.InvalidParams(
			"a terminal of %d rows and %d columns is not possible: both are 1 to %d", rows, cols, protocol.MaxTerminalSize)
	}
	return Size{Rows: uint16(rows), Cols: uint16(cols)}, nil
}

// milliseconds is as long as a Duration can be at most.
func milliseconds(ms uint64) time.Duration {
	return time.Duration(min(ms, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
}

// cwdRefused is the error for a cwd that names no directory, in the original's words.
func cwdRefused(cwd string, err error) *protocol.Error {
	if uri, ok := errors.AsType[*fileuri.Error](err); ok && uri.Unfit() {
		return protocol.InvalidParams("cwd URI `%.1024s` is not valid on this exec-server host: %v", cwd, err)
	}
	return protocol.InvalidParams("%v", err)
}
