package shell

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/eventlog"
)

// program runs commands.
const program = "/bin/sh"

// spawn starts the command of a request.
func (s *Shell) spawn(req *Request) (*process.Child, error) {
	dir, err := s.cfg.Dir(req.Cwd)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		if err == nil {
			err = syscall.ENOTDIR
		}
		return nil, about("cwd "+req.Cwd, err)
	}
	cmd := process.Command{
		Path: program, Argv: []string{program, "-c", req.Command},
		Env: environ(s.cfg.Environ(), s.cfg.Secrets, req.Env), Dir: dir,
		PipeStdin: len(req.Stdin) > 0, BusyPipe: busyPipeBytes,
	}
	if s.cfg.Prepare != nil {
		if err := s.cfg.Prepare(&cmd); err != nil {
			return nil, err
		}
	}
	child, err := s.cfg.Spawner.Start(cmd)
	if err != nil {
		return nil, about(program, err)
	}
	return child, nil
}

// about says what a failure of the system is about, and no path of the host's.
func about(what string, err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = errno
	}
	return fmt.Errorf("%s: %w", what, err)
}

// live is the life of a run from its beginning, while the command is started by whoever
// has asked for it, until nothing of it is left.
func (r *run) live() {
	<-r.started
	<-r.begun
	switch {
	case r.command != nil:
		r.command.Run()
		r.shell.lingered(r)
	case r.beginErr == nil: // recorded is that the command could not be started
		r.add(eventlog.Event{Kind: eventlog.KindOutput, Stream: Stderr, Data: fmt.Appendf(nil, "spawn failed: %v\n", r.startErr)}, exited(lostCode))
	}
	<-r.kept
}

// supervise begins to feed the child, and prepares for live what looks after it.
func (r *run) supervise(child *process.Child, req *Request, timeout time.Duration) {
	var fed sync.WaitGroup
	if child.Input != nil {
		fed.Go(func() { r.feed(child.Input, req) }) // ends when all is written or the input is closed; waited for below
	}
	r.command = process.NewSupervisor(process.Supervision{
		Child: child, Room: r.wait, Output: r.output,
		OnExit: func(status process.WaitStatus) {
			if child.Input != nil {
				_ = child.Input.Close() // nobody is left to be told
			}
			fed.Wait()
			r.command.Unlimit()
			r.settle()
			r.add(exited(status.ExitCode(false)))
			if r.command.IsHeld() && !r.shell.linger(r) {
				r.command.CloseOutputs()
			}
		},
		Timeout: timeout, KillDelay: killDelay, Logger: r.logger(),
	})
}

// settle has what the command wrote taken up. It waits for that, but not for long: others
// may be writing what takes its time, and those who want to see all settle themselves.
func (r *run) settle() {
	if r.shell.settler.settle == nil || r.isDropped() {
		return
	}
	settled := r.shell.settler.ask(r.shell.lifetime, r.since, func(fn func()) { r.shell.children.Go(fn) }) // ends with settle, which Close waits for
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-settled:
	case <-timer.C:
		r.logger().Info("the workspace takes long to settle, the end of the command does not wait for it", "after", settleTime)
	case <-r.dropped:
	}
}

// feed writes all of the input. That a command does not read it is no failure.
func (r *run) feed(input process.Input, req *Request) {
	defer r.shell.fed(len(req.Stdin))
	_, _ = input.Write(req.Stdin)
	_ = input.EOF()
	req.Stdin = nil
}
