package process

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process/limit"
	"github.com/wsd-dev/wsd/protocol"
)

// launchTime bounds the preparations for a confined start.
const launchTime = 30 * time.Second

// launched is a child that runs what a client asked for.
type launched struct {
	child       *Child
	sandboxType string
	group       *limit.Group // nil without limits
}

// launch starts what r asks for. Its error is what the client is told.
func (s *Service) launch(r *request) (launched, error) {
	r.dir, r.view = s.cfg.Mount.Place(r.dir)
	path, err := r.find()
	if err != nil {
		return launched{}, err
	}
	started, err := s.launchProgram(r, Launch{Path: path, Argv: r.argv, Env: r.env, Dir: r.dir})
	if errors.Is(err, syscall.ENOEXEC) && r.isScript(path) {
		if strings.HasPrefix(path, "-") { // not an option of the shell's
			path = "./" + path
		}
		argv := append([]string{scriptShell, path}, r.argv[1:]...)
		started, err = s.launchProgram(r, Launch{Path: scriptShell, Argv: argv, Env: r.env, Dir: r.dir})
	}
	if err != nil {
		r.view.Do(func() { err = launchError(r, path, err) })
		return launched{}, err
	}
	return started, nil
}

// find checks the directory and finds the program, as findProgram does.
func (r *request) find() (path string, err error) {
	r.view.Do(func() {
		err = checkDir(r.dir)
		if r.params.Sandbox != nil && errors.Is(err, syscall.EACCES) {
			err = nil // the sandbox can enter what its last program has closed, or says why not
		}
		if err != nil {
			err = spawnFailed("cwd "+r.dir, err, "")
			return
		}
		if path, err = findProgram(r.program, r.dir, r.env); err != nil {
			err = spawnFailed(r.program, err, "looked for in the PATH of the process")
		}
	})
	return path, err
}

// isScript reports whether the program found may be text for the shell.
func (r *request) isScript(path string) (is bool) {
	r.view.Do(func() { is = isText(head(inDir(r.dir, path))) })
	return is
}

// launchError says what is to blame for a failed start.
func launchError(r *request, path string, err error) error {
	if failure, ok := errors.AsType[*protocol.Error](err); ok {
		return failure
	}
	if spawn, ok := errors.AsType[*SpawnError](err); ok && spawn.Op != opExec {
		return spawnFailed(spawn.Op, spawn.Errno, "")
	}
	switch {
	case errors.Is(err, syscall.E2BIG):
		return spawnFailed(r.program, err, blameSize(r.argv, r.env))
	case errors.Is(err, syscall.ENOENT):
		return spawnFailed(r.program, err, blameInterpreter(inDir(r.dir, path)))
	default:
		return spawnFailed(r.program, err, "")
	}
}

// launchProgram starts l, confined and limited if r wants that.
func (s *Service) launchProgram(r *request, l Launch) (started launched, err error) {
	if r.limits != nil {
		if s.cfg.Limiter == nil {
			return launched{}, protocol.InvalidParams("limits are not offered: the capability processLimits is not among this server's")
		}
		if started.group, err = s.cfg.Limiter.Group(*r.limits, s.cfg.Logger.With("process", r.params.ProcessID)); err != nil {
			return launched{}, spawnFailed("limit the command", err, "")
		}
		l.Limited, l.Resources = true, started.group.Resources()
		defer func() {
			if err != nil {
				started.group.Discard()
				started = launched{}
			}
		}()
	}
	ctx, cancel := context.WithTimeout(s.lifetime, launchTime)
	defer cancel()
	confined, err := s.confine(ctx, r, l)
	if err != nil {
		return started, err
	}
	defer closeFiles(confined.Files)
	child, err := s.cfg.Spawner.Start(Command{
		Path: confined.Launch.Path, Argv: confined.Launch.Argv, Env: confined.Launch.Env, Dir: confined.Launch.Dir,
		Terminal: r.terminal, PipeStdin: r.params.PipeStdin, Files: confined.Files,
		Attr: both(confined.Attr, started.group), Namespace: r.view,
	})
	if err != nil {
		return started, err
	}
	var apart *os.File
	if confined.Started != nil {
		closeFiles(confined.Files) // Started may wait for the last copy of one to be closed
		stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGKILL, true) })
		apart, err = confined.Started()
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
	}
	if err == nil {
		if err = started.group.Began(child.PID, apart); err != nil {
			err = spawnFailed("limit the command", err, "")
		}
	} else if apart != nil {
		_ = apart.Close() // it was not written
	}
	if err != nil {
		discard(child)
		return started, err
	}
	if confined.Ended != nil {
		child.Process = &tidyProcess{child.Process, confined.Ended}
	}
	started.child, started.sandboxType = child, confined.Type
	return started, nil
}

// confine returns how to start l under the policy and with the limits of r.
func (s *Service) confine(ctx context.Context, r *request, l Launch) (confined Confined, err error) {
	policy := r.params.Sandbox
	if policy == nil && len(l.Resources) == 0 {
		return Confined{Launch: l, Type: protocol.SandboxNone}, nil
	}
	if s.cfg.Sandbox == nil {
		return confined, protocol.InvalidStart(protocol.KindSandboxUnavailable, "this server has no sandbox")
	}
	r.view.Do(func() { // what the policy names is there
		confined, err = s.cfg.Sandbox.Confine(ctx, policy, r.params.ManagedNetwork, r.params.EnforceManagedNetwork, l)
	})
	if _, ok := errors.AsType[*protocol.Error](err); err != nil && !ok {
		err = protocol.InvalidStart(protocol.KindSandboxUnavailable, "%v", err)
	}
	return confined, err
}

// both applies attr, which may be nil, and the attributes of group.
func both(attr func(*syscall.SysProcAttr), group *limit.Group) func(*syscall.SysProcAttr) {
	if group == nil {
		return attr
	}
	return func(a *syscall.SysProcAttr) {
		if attr != nil {
			attr(a)
		}
		group.Attributes(a)
	}
}

// A tidyProcess is a Process that leaves things to be put right when it has ended.
type tidyProcess struct {
	Process
	ended func()
}

// Wait implements Process.
func (p *tidyProcess) Wait() WaitStatus {
	defer p.ended()
	return p.Process.Wait()
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // closed already, at worst
	}
}

// discard ends a child whose program was not executed.
func discard(child *Child) {
	_ = child.Process.Signal(syscall.SIGKILL, true)
	child.Process.Wait()
	if child.Input != nil {
		_ = child.Input.Close()
	}
	for _, out := range child.Outputs {
		_ = out.Close()
	}
	_ = child.Process.Close()
}
