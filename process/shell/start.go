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
func (r *run) live(req *Request, timeout time.Duration) {
	<-r.started
	<-r.begun
	switch {
	case r.child != nil:
		r.supervise(req, timeout)
	case r.beginErr == nil: // recorded is that the command could not be started
		r.add(eventlog.Event{Kind: eventlog.KindOutput, Stream: Stderr, Data: fmt.Appendf(nil, "spawn failed: %v\n", r.startErr)}, exited(lostCode))
	}
	<-r.kept
}

// supervise sees to the child until nothing of it is left.
func (r *run) supervise(req *Request, timeout time.Duration) {
	var pumps []*process.Pump
	for _, out := range r.child.Outputs {
		p := process.NewPump(out, r.wait, r.output, false)
		pumps = append(pumps, p)
		go p.Run() // ends with the pipe, or when end closes that; waited for below
	}
	var fed sync.WaitGroup
	if r.child.Input != nil {
		fed.Go(func() { r.feed(req) }) // ends when all is written or the input is closed; waited for below
	}
	r.limit(timeout)

	status := r.child.Process.Wait()
	for _, p := range pumps {
		p.ProcessEnded()
	}
	for _, p := range pumps {
		<-p.Drained
	}
	if r.child.Input != nil {
		_ = r.child.Input.Close() // nobody is left to be told
	}
	fed.Wait()
	r.unlimit()
	r.settle()
	r.add(exited(status.ExitCode(false)))
	r.linger(pumps)
	if err := r.child.Process.Close(); err != nil {
		r.logger().Debug("child was not released cleanly", "err", err)
	}
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
func (r *run) feed(req *Request) {
	defer r.shell.fed(len(req.Stdin))
	_, _ = r.child.Input.Write(req.Stdin)
	_ = r.child.Input.EOF()
	req.Stdin = nil
}

// linger waits for descendants that have the pipes open.
func (r *run) linger(pumps []*process.Pump) {
	waits := func() bool {
		for _, p := range pumps {
			select {
			case <-p.Done:
			default:
				return true
			}
		}
		return false
	}
	if waits() && r.shell.linger(r) {
		defer r.shell.lingered(r)
	} else {
		for _, p := range pumps {
			p.Close()
		}
	}
	for _, p := range pumps {
		<-p.Done
		p.Close()
	}
}

// limit sets the deadline: the group is ended politely, then killed, also what is left of
// it when the command itself has ended by then. 0 is none.
func (r *run) limit(timeout time.Duration) {
	if timeout == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(timeout, func() {
		r.logger().Info("the command has taken too long and is ended", "timeout", timeout)
		r.mu.Lock()
		r.timer = nil // no way back
		r.mu.Unlock()
		r.signal(syscall.SIGTERM)
		time.AfterFunc(killDelay, func() { r.signal(syscall.SIGKILL) })
	})
}

func (r *run) unlimit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
}
