package process

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// launchTime bounds the preparations for a confined start.
const launchTime = 30 * time.Second

// launch starts what r asks for. Its error is what the client is told.
func (s *Service) launch(r *request) (*Child, string, error) {
	r.dir, r.view = s.cfg.Mount.Place(r.dir)
	path, err := r.find()
	if err != nil {
		return nil, "", err
	}
	child, sandboxType, err := s.launchProgram(r, Launch{Path: path, Argv: r.argv, Env: r.env, Dir: r.dir})
	if errors.Is(err, syscall.ENOEXEC) && r.isScript(path) {
		if strings.HasPrefix(path, "-") { // not an option of the shell's
			path = "./" + path
		}
		argv := append([]string{scriptShell, path}, r.argv[1:]...)
		child, sandboxType, err = s.launchProgram(r, Launch{Path: scriptShell, Argv: argv, Env: r.env, Dir: r.dir})
	}
	if err != nil {
		r.view.Do(func() { err = launchError(r, path, err) })
		return nil, "", err
	}
	return child, sandboxType, nil
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

// launchProgram starts l, confined if r wants that.
func (s *Service) launchProgram(r *request, l Launch) (_ *Child, sandboxType string, err error) {
	ctx, cancel := context.WithTimeout(s.lifetime, launchTime)
	defer cancel()
	confined := Confined{Launch: l, Type: protocol.SandboxNone}
	if policy := r.params.Sandbox; policy != nil {
		if s.cfg.Sandbox == nil {
			return nil, "", sandboxUnavailable("this server has no sandbox")
		}
		r.view.Do(func() { // what the policy names is there
			confined, err = s.cfg.Sandbox.Confine(ctx, policy, r.params.ManagedNetwork, r.params.EnforceManagedNetwork, l)
		})
		if err != nil {
			if _, ok := errors.AsType[*protocol.Error](err); ok {
				return nil, "", err
			}
			return nil, "", sandboxUnavailable("%v", err)
		}
	}
	defer closeFiles(confined.Files)
	child, err := s.cfg.Spawner.Start(Command{
		Path: confined.Launch.Path, Argv: confined.Launch.Argv, Env: confined.Launch.Env, Dir: confined.Launch.Dir,
		Terminal: r.terminal, PipeStdin: r.params.PipeStdin, Files: confined.Files,
		Attr: confined.Attr, Namespace: r.view,
	})
	if err != nil {
		return nil, "", err
	}
	if confined.Started != nil {
		closeFiles(confined.Files) // Started may wait for the last copy of one to be closed
		stop := context.AfterFunc(ctx, func() { _ = child.Process.Signal(syscall.SIGKILL, true) })
		err := confined.Started()
		if !stop() && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			discard(child)
			return nil, "", err
		}
	}
	if confined.Ended != nil {
		child.Process = &tidyProcess{child.Process, confined.Ended}
	}
	return child, confined.Type, nil
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
