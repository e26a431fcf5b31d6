package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// Command is what to start.
type Command struct {
	// Argv is the program, looked up in the PATH of the command's environment, and its
	// arguments.
	Argv []string
	// Arg0, if not "", is what the program is told that it is called.
	Arg0 string
	// Dir is where it runs, a path on the server; relative to, and by default, the
	// server's own directory.
	Dir string
	// Env is added to the environment that EnvPolicy makes.
	Env map[string]string
	// EnvPolicy makes the environment from the server's; nil inherits all of it.
	// ExactEnv inherits nothing.
	EnvPolicy *protocol.EnvPolicy
	// TTY runs the command on a PTY, of Size or else of 24 rows and 80 columns. A Size
	// needs the capability processResize.
	TTY  bool
	Size protocol.TerminalSize
	// Stdin keeps stdin open for Process.Stdin; otherwise the command reads an end of
	// file. On a PTY stdin is always open.
	Stdin bool
	// Timeout ends the command, SIGTERM first and SIGKILL two seconds later; 0 means
	// never. It needs the capability processTimeout.
	Timeout time.Duration
	// Limits bound what the command and its descendants use; nil means nothing. They need
	// the capability processLimits.
	Limits *protocol.ProcessLimits
	// Sandbox says what the command may touch; nil means everything. ReadOnly and
	// WorkspaceWrite make usual ones.
	Sandbox *protocol.Sandbox
	// ID is the process's key in the session; "" means one that the Client chooses.
	ID string
}

// ExactEnv gives a command nothing but Command.Env.
func ExactEnv() *protocol.EnvPolicy {
	return &protocol.EnvPolicy{Inherit: "none", IgnoreDefaultExcludes: true}
}

// Start starts a command. When ctx ends before Start returns, the command is
// terminated if it was started. A start that failed is an *Error whose Kind says how,
// and errors.Is tells exec.ErrNotFound and fs.ErrPermission.
func (c *Client) Start(ctx context.Context, cmd Command) (*Process, error) {
	params, err := c.startParams(ctx, &cmd)
	if err != nil {
		return nil, err
	}
	p := c.newProcess(params)
	if err := c.register(p); err != nil {
		return nil, err
	}
	if !c.spawn(func() { p.start(ctx, params) }) {
		c.forget(p)
		return nil, ErrClosed
	}
	if err := p.settle(ctx); err != nil {
		p.abandon(err)
		return nil, err
	}
	return p, nil
}

func (c *Client) newProcess(params *protocol.StartParams) *Process {
	p := &Process{
		client: c, id: params.ProcessID,
		settled: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
	p.running, p.stop = context.WithCancelCause(context.Background())
	p.Stdin = &Stdin{process: p, open: params.TTY || params.PipeStdin, tty: params.TTY, turn: make(chan struct{}, 1)}
	p.Stdout, p.Stderr = &Stream{process: p}, &Stream{process: p}
	return p
}

func (c *Client) register(p *Process) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.processes[p.id] != nil {
		return fmt.Errorf("process %s is running already", p.id)
	}
	c.processes[p.id] = p
	return nil
}

func (c *Client) startParams(ctx context.Context, cmd *Command) (*protocol.StartParams, error) {
	info, err := c.Environment(ctx)
	if err != nil {
		return nil, err
	}
	dir := info.Cwd
	if cmd.Dir != "" {
		if dir, err = c.uri(ctx, cmd.Dir); err != nil {
			return nil, err
		}
	}
	params := &protocol.StartParams{
		ProcessID: cmd.ID, Argv: cmd.Argv, Cwd: dir, Env: cmd.Env, EnvPolicy: cmd.EnvPolicy,
		TTY: cmd.TTY, PipeStdin: cmd.Stdin && !cmd.TTY, Sandbox: cmd.Sandbox,
	}
	if params.ProcessID == "" {
		params.ProcessID = c.newID()
	}
	if params.EnvPolicy == nil {
		params.EnvPolicy = &protocol.EnvPolicy{Inherit: "all", IgnoreDefaultExcludes: true}
	}
	if cmd.Arg0 != "" {
		params.Arg0 = &cmd.Arg0
	}
	if cmd.Size != (protocol.TerminalSize{}) {
		if !info.Capabilities[protocol.CapProcessResize] {
			return nil, &unsupportedError{protocol.CapProcessResize}
		}
		params.Size = &cmd.Size
	}
	if cmd.Timeout > 0 {
		if !info.Capabilities[protocol.CapProcessTimeout] {
			return nil, &unsupportedError{protocol.CapProcessTimeout}
		}
		ms := uint64(max(cmd.Timeout.Milliseconds(), 1))
		params.TimeoutMs = &ms
	}
	if cmd.Limits != nil {
		if !info.Capabilities[protocol.CapProcessLimits] {
			return nil, &unsupportedError{protocol.CapProcessLimits}
		}
		params.Limits = cmd.Limits
	}
	return params, nil
}

// start asks the server to start p until it has answered. ctx counts until the
// question is sent; from then on it matters what became of it, since a process that
// nobody wants must be terminated.
func (p *Process) start(ctx context.Context, params *protocol.StartParams) {
	err := p.tryStart(ctx, params)
	p.mu.Lock()
	if err != nil {
		p.startErr = err
		p.end(err)
	}
	abandoned := p.abandoned
	close(p.settled)
	p.mu.Unlock()
	if abandoned && err == nil {
		_ = p.Terminate(p.client.life) // the end of the Client at worst
	}
}

func (p *Process) tryStart(ctx context.Context, params *protocol.StartParams) error {
	c := p.client
	for attempt := 1; ; attempt++ {
		l, err := c.acquire(ctx)
		if err != nil {
			return p.unanswered(attempt, err)
		}
		if err := p.send(l); err != nil {
			return p.unanswered(attempt, err)
		}
		ctx = c.life
		var result protocol.StartResult
		err = l.peer.Call(ctx, protocol.MethodProcessStart, params, &result)
		if err == nil {
			p.limits = result.Limits
			p.begin(l, result.Attached)
			return nil
		}
		// A repeated start attaches to what the first has started, where the server
		// says so.
		if !isClosed(err) || !l.session.info.Capabilities[protocol.CapProcessAttach] || !c.transport.Resumes() {
			return callError(protocol.MethodProcessStart, err)
		}
	}
}

// send notes that the start is sent over l. Its error is that it was sent in a session that
// was lost since.
func (p *Process) send(l *link) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session != "" && p.session != l.session.id {
		return sessionLost(p.session)
	}
	p.session = l.session.id
	return nil
}

// unanswered is err, with ErrMayHaveRun if the start has been sent before.
func (p *Process) unanswered(attempt int, err error) error {
	if attempt == 1 {
		return err
	}
	return lostCall(protocol.MethodProcessStart, err)
}

// begin makes the process one that is followed. If it had been started by a question
// whose answer was lost, or the connection has been lost since the answer, events may
// have been missed.
func (p *Process) begin(l *link, missed bool) {
	p.mu.Lock()
	if p.phase == starting {
		p.phase = live
	}
	if !missed {
		p.attached = l
	}
	p.mu.Unlock()
	if current := p.client.link(); current != nil {
		p.reattach(current)
	}
}

// settle returns when the start has been answered.
func (p *Process) settle(ctx context.Context) error {
	select {
	case <-p.settled:
	case <-ctx.Done():
		select {
		case <-p.settled: // the answer counts more
		default:
			return context.Cause(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startErr
}

// abandon gives up a process whose Start returned err. It is terminated, now or once
// it has been started.
func (p *Process) abandon(err error) {
	_ = p.Stdout.Close()
	_ = p.Stderr.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned = true
	select {
	case <-p.settled:
		if p.startErr == nil || errors.Is(err, ErrMayHaveRun) {
			p.client.spawn(func() { _ = p.Terminate(p.client.life) })
		}
	default:
	}
}
