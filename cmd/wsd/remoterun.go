package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// Exit statuses of exec and shell besides the command's own, as ssh, timeout and
// shells have them.
const (
	exitTimedOut      = 124
	exitNotExecutable = 126
	exitNotFound      = 127
	exitTransport     = 255
)

// signalWait bounds how long it may take to tell the server of a signal.
const signalWait = 5 * time.Second

// remoteRun runs one command at the server as if it ran here.
type remoteRun struct {
	app     *app
	client  *client.Client
	command client.Command
	stdin   io.Reader // nil: the command reads an end of file
	events  bool      // --json
	limit   *limitFlag
	started bool // the command was started, or may have been
	// terminal is where the command's PTY is shown; nil without one.
	terminal *terminal
}

// run returns nil if the command succeeded, an exitError with its status if it did
// not, and one with a status of ours for failures of ours.
func (r *remoteRun) run(ctx context.Context) error {
	status, err := r.follow(ctx)
	if err == nil {
		return r.ended(status)
	}
	code := exitTransport
	if unheard, ok := errors.AsType[*unheardError](err); ok {
		return &exitError{128 + int(unheard.signal), err}
	}
	switch {
	case r.isDirError(err): // not the command's fault
	case errors.Is(err, exec.ErrNotFound):
		code = exitNotFound
	case isStartError(err) && errors.Is(err, iofs.ErrPermission):
		code = exitNotExecutable
	}
	return &exitError{code, err}
}

// ended is how the command ended, with the limit that it was killed for.
func (r *remoteRun) ended(status client.ExitStatus) error {
	err := statusError(status)
	if failed, ok := errors.AsType[*exitError](err); ok && status.Limit != "" {
		failed.err = errors.New(r.limit.exceeded(status.Limit))
	}
	return err
}

// isDirError reports whether the directory to run in is to blame, which servers say
// by its name.
func (r *remoteRun) isDirError(err error) bool {
	failure, ok := errors.AsType[*client.Error](err)
	return ok && isStartError(err) && strings.HasPrefix(failure.Message, "cwd "+r.command.Dir+": ")
}

func isStartError(err error) bool {
	failure, ok := errors.AsType[*client.Error](err)
	return ok && failure.Method == protocol.MethodProcessStart
}

// statusError is how a command ended, as an exit status of this program.
func statusError(status client.ExitStatus) error {
	switch {
	case status.TimedOut:
		return &exitError{exitTimedOut, errors.New("the command was ended since its --timeout was over")}
	case status.Signal != "":
		if n := unix.SignalNum(status.Signal); n != 0 {
			return &exitError{128 + int(n), nil}
		}
	case status.Code == 0:
		return nil
	}
	code := status.Code
	if code <= 0 || code > 255 { // not known
		code = exitTransport
	}
	return &exitError{code, nil}
}

func (r *remoteRun) follow(ctx context.Context) (status client.ExitStatus, err error) {
	r.command.Stdin = r.stdin != nil
	if r.terminal != nil {
		r.command.TTY = true
		if err := r.prepareTerminal(ctx); err != nil {
			return status, err
		}
	}
	signals := r.catchSignals()
	defer signal.Stop(signals)
	p, err := r.client.Start(ctx, r.command)
	r.started = !isStartError(err)
	if err != nil {
		return status, err
	}
	if names := unenforced(p.Limits()); len(names) > 0 {
		fmt.Fprintf(r.app.stderr, "wsd: this server does not enforce the limits %s\n", strings.Join(names, ", "))
	}
	if r.terminal != nil {
		if err := r.terminal.raw(); err != nil {
			return status, err
		}
		defer r.terminal.restore()
	}
	out := newRunOutput(r)
	out.started(p)

	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	defer func() {
		if unheard, ok := errors.AsType[*unheardError](context.Cause(ctx)); ok && err != nil {
			err = unheard
		}
	}()
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { r.forwardSignals(watching, signals, p, abandon) })
	if r.stdin != nil || r.command.TTY {
		go r.forwardStdin(p) // a read of our stdin cannot be stopped; it ends with this program
	}
	wg.Go(func() { r.endOutput(watching, p) })
	if err := out.copy(ctx, p); err != nil {
		return status, err
	}
	status, err = p.Wait(ctx)
	if err == nil {
		out.exited(status)
	}
	return status, err
}

// endOutput does not let descendants that go on printing keep this program.
func (r *remoteRun) endOutput(ctx context.Context, p *client.Process) {
	if _, err := p.Wait(ctx); err == nil {
		p.EndOutput(ctx)
	}
}

func (r *remoteRun) forwardStdin(p *client.Process) {
	if r.stdin == nil {
		return
	}
	_, err := p.Stdin.ReadFrom(r.stdin)
	if err == nil {
		err = p.Stdin.Close()
	}
	if err != nil && !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, client.ErrTransportClosed) {
		_ = say(r.app.stderr, "wsd: stdin: %v", err)
	}
}

// forwarded are the signals that are the command's and not ours.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
}

// maxInterrupts is how many ^C end a command that does not heed them.
const maxInterrupts = 3

// catchSignals has the signals that come from now on kept for the command.
func (r *remoteRun) catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, forwarded...)
	if r.terminal != nil {
		signal.Notify(signals, syscall.SIGWINCH)
	}
	return signals
}

// An unheardError is a signal that was to end the command, and that the server did not
// answer: it is stopped, or not reached.
type unheardError struct{ signal syscall.Signal }

func (e *unheardError) Error() string {
	return fmt.Sprintf("the server has not answered %s for %v; the command may still run there", unix.SignalName(e.signal), signalWait)
}

// forwardSignals tells the server of signals, each in turn of its own: one that is not
// answered must not hold up the next. When the server does not answer SIGTERM, SIGHUP or
// the third ^C, it abandons the command.
func (r *remoteRun) forwardSignals(ctx context.Context, signals <-chan os.Signal, p *client.Process, abandon context.CancelCauseFunc) {
	var wg sync.WaitGroup
	defer wg.Wait()
	interrupts := 0
	for {
		select {
		case caught := <-signals:
			sig, _ := caught.(syscall.Signal) // what else there is is not caught
			if sig == syscall.SIGWINCH {
				wg.Go(func() { r.resize(ctx, p) })
				continue
			}
			last := sig == syscall.SIGTERM || sig == syscall.SIGHUP
			kill := false
			if sig == syscall.SIGINT {
				interrupts++
				kill = interrupts >= maxInterrupts
				last = kill
			}
			wg.Go(func() {
				switch heard := r.sendSignal(ctx, p, unix.SignalName(sig), kill); {
				case heard:
				case last:
					abandon(&unheardError{sig})
				default:
					_ = say(r.app.stderr, "wsd: no answer to %s for %v: the server is stopped or not reached; %d ^C give it up",
						unix.SignalName(sig), signalWait, maxInterrupts)
				}
			})
		case <-ctx.Done():
			return
		}
	}
}

// sendSignal tells the server of a signal. A server that has no such signal kills the
// command instead, as do three interrupts. It is false if there was no answer in time.
func (r *remoteRun) sendSignal(ctx context.Context, p *client.Process, name string, kill bool) bool {
	limited, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	var err error
	if !kill {
		err = p.Signal(limited, name)
	}
	if kill || errors.Is(err, errors.ErrUnsupported) {
		err = p.Terminate(limited)
	}
	switch {
	case ctx.Err() != nil || err == nil:
	case limited.Err() != nil:
		return false
	default:
		_ = say(r.app.stderr, "wsd: send %s: %v", name, err)
	}
	return true
}

func (r *remoteRun) prepareTerminal(ctx context.Context) error {
	if r.command.Env["TERM"] == "" {
		if name := os.Getenv("TERM"); name != "" {
			if r.command.Env == nil {
				r.command.Env = make(map[string]string)
			}
			r.command.Env["TERM"] = name
		}
	}
	canResize, err := r.client.Supports(ctx, protocol.CapProcessResize)
	if err != nil {
		return err
	}
	if size, ok := r.terminal.size(); ok && canResize {
		r.command.Size = size
	}
	return nil
}

func (r *remoteRun) resize(ctx context.Context, p *client.Process) {
	size, ok := r.terminal.size()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, signalWait)
	defer cancel()
	_ = p.Resize(ctx, size) // a server that cannot keeps the size it began with
}

// runOutput prints what a command prints, or tells of it in JSON.
type runOutput struct {
	run *remoteRun
	enc *json.Encoder // nil without --json
	// broken is set when the reader of our stdout has gone.
	broken bool
}

func newRunOutput(r *remoteRun) *runOutput {
	out := &runOutput{run: r}
	if r.events {
		out.enc = json.NewEncoder(r.app.stdout)
		out.enc.SetEscapeHTML(false)
	}
	return out
}

// runEvent is one line of --json.
type runEvent struct {
	Type      string                 `json:"type"` // "started", "output", "exited"
	ProcessID string                 `json:"processId,omitempty"`
	Limits    []protocol.LimitReport `json:"limits,omitempty"`
	Seq       uint64                 `json:"seq,omitempty"`
	Stream    string                 `json:"stream,omitempty"`
	// Text is the output, or Base64 when it is not UTF-8.
	Text          *string `json:"text,omitempty"`
	Base64        []byte  `json:"base64,omitempty"`
	ExitCode      *int    `json:"exitCode,omitempty"`
	Signal        string  `json:"signal,omitempty"`
	TimedOut      bool    `json:"timedOut,omitempty"`
	Limit         string  `json:"limit,omitempty"`
	SandboxDenied bool    `json:"sandboxDenied,omitempty"`
}

func (o *runOutput) started(p *client.Process) {
	if o.enc != nil {
		_ = o.enc.Encode(runEvent{Type: "started", ProcessID: p.ID(), Limits: p.Limits()}) // a failure shows at the output
	}
}

func (o *runOutput) exited(s client.ExitStatus) {
	if o.enc != nil {
		_ = o.enc.Encode(runEvent{Type: "exited", ExitCode: &s.Code, Signal: s.Signal, TimedOut: s.TimedOut, Limit: s.Limit, SandboxDenied: s.SandboxDenied})
	}
}

// copy prints until the output ends. When nobody reads ours any more, the command gets
// a SIGPIPE, as it would here, and the rest is dropped.
func (o *runOutput) copy(ctx context.Context, p *client.Process) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		piece, err := p.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if o.broken {
			continue
		}
		err = o.print(piece)
		if errors.Is(err, syscall.EPIPE) {
			o.broken = true
			// The answer comes behind output that is still to be dropped.
			wg.Go(func() { o.run.sendSignal(ctx, p, "SIGPIPE", false) })
			continue
		}
		if err != nil {
			return fmt.Errorf("print the output: %w", err)
		}
	}
}

func (o *runOutput) print(piece client.Output) error {
	if o.enc != nil {
		event := runEvent{Type: "output", Seq: piece.Seq, Stream: piece.Stream}
		if utf8.Valid(piece.Data) {
			text := string(piece.Data)
			event.Text = &text
		} else {
			event.Base64 = piece.Data
		}
		return o.enc.Encode(event)
	}
	w := o.run.app.stdout
	if piece.Stream == protocol.StreamStderr {
		w = o.run.app.stderr
	}
	_, err := w.Write(piece.Data)
	return err
}
