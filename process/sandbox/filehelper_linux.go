package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/lineconn"
)

// helperGrace is how long a helper has to end once its input has.
const helperGrace = time.Second

// Start starts a helper that is confined to s and serves the role over its stdin and
// stdout, and returns the connection to it. Closing that ends the helper, as does the
// end of this process.
func (e *Enforcer) Start(ctx context.Context, s *protocol.Sandbox) (rpc.Connection, error) {
	p, err := e.resolve(s, fileContext())
	if err != nil {
		return nil, fileError(err)
	}
	pl, masks, w, err := e.planFor(ctx, p)
	if err != nil {
		return nil, fileError(err)
	}
	pl.Role = e.cfg.Role
	h, err := e.start(ctx, pl, masks, w, nil)
	if err != nil {
		return nil, fileError(err)
	}
	return &confinedConn{lineconn.New(h.out, h.in, h.Close), p, pl, h.done}, nil
}

// A confinedConn is a connection to a helper.
type confinedConn struct {
	*lineconn.Conn
	policy *Policy
	plan   *plan
	gone   <-chan struct{}
}

// Gone returns a channel that is closed when the helper's process has ended.
func (c *confinedConn) Gone() <-chan struct{} { return c.gone }

// Current reports whether a helper that starts now would be confined alike: whether the
// policy denies what it did when this one started.
func (c *confinedConn) Current() bool {
	if c.plan.Mechanism == mechanismNetwork {
		return true // no file is denied
	}
	var borrowed rights
	defer borrowed.giveBack()
	l, err := layOut(c.policy, &borrowed)
	return err == nil && slices.Equal(l.All, c.plan.all)
}

// A helper is a running process of this binary that is confined and serves a role.
type helper struct {
	in   *os.File // its stdin
	out  *os.File // its stdout
	cmd  *exec.Cmd
	done chan struct{} // closed when it has been waited for
	err  error         // of that; valid after done
	once sync.Once
}

// start starts a helper, and returns it once it is confined and has begun to serve.
// The masks are released when its sandbox ends. env is its environment.
func (e *Enforcer) start(ctx context.Context, pl *plan, masks []*mask, w way, env []string) (*helper, error) {
	b, err := e.begin(pl, masks, w)
	if err != nil {
		return nil, err
	}
	h, err := e.fork(b, env)
	for _, f := range b.files {
		_ = f.Close()
	}
	if err != nil {
		<-b.done
		return nil, unavailablef("start the helper: %w", err)
	}
	if err := b.wait(ctx); err != nil {
		_ = h.cmd.Process.Kill() // nothing of the program has run, or nobody wants it
		_ = h.Close()
		<-h.done
		return nil, err
	}
	return h, nil
}

// fork starts the process on a thread that lives until the process is gone: the
// system takes the end of that thread for the death of the parent.
func (e *Enforcer) fork(b *birth, env []string) (*helper, error) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inRead.Close(), inWrite.Close())
	}
	h := &helper{in: inWrite, out: outRead, done: make(chan struct{})}
	h.cmd = &exec.Cmd{
		Path: selfPath, Args: []string{"wsd", helperWord}, Env: append(append([]string{}, helperEnv...), env...), Dir: "/", // not nil, which would mean ours
		Stdin: inRead, Stdout: outWrite, ExtraFiles: b.files,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if b.attr != nil {
		b.attr(h.cmd.SysProcAttr)
	}
	started := make(chan error)
	e.wg.Go(func() { // ends with the process, which Close ends
		runtime.LockOSThread()
		err := h.cmd.Start()
		_ = inRead.Close()
		_ = outWrite.Close()
		started <- err
		if err == nil {
			h.err = e.await(h)
		}
		close(h.done)
	})
	if err := <-started; err != nil {
		return nil, errors.Join(err, inWrite.Close(), outRead.Close())
	}
	return h, nil
}

// await waits for the process, and ends it when the Enforcer closes.
func (e *Enforcer) await(h *helper) error {
	over, stopped := make(chan struct{}), make(chan struct{})
	go func() { // ends with over
		defer close(stopped)
		select {
		case <-e.stop:
			_ = h.cmd.Process.Kill()
		case <-over:
		}
	}()
	err := h.cmd.Wait()
	close(over)
	<-stopped
	return err
}

// Close has the helper end: its input ends, and it is killed if that does not do.
func (h *helper) Close() error {
	h.once.Do(func() {
		_ = h.in.Close()
		_ = h.out.Close()
		kill := time.AfterFunc(helperGrace, func() { _ = h.cmd.Process.Kill() })
		go func() { // ends with the process
			<-h.done
			kill.Stop()
		}()
	})
	return nil
}

// finish waits for the end of a helper that ends by itself.
func (h *helper) finish() error {
	_, err := io.Copy(io.Discard, h.out)
	<-h.done
	return errors.Join(err, h.err, h.Close())
}
