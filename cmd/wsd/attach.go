package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// detachKey is ^], as telnet has it.
const detachKey = 0x1d

func newAttachCmd(a *app) *cobra.Command {
	var connect connectFlags
	cmd := &cobra.Command{
		Use:   "attach [flags] NUMBER|ID",
		Short: "Join a process that the server runs",
		Long: `Joins a process of any client: shows what it prints, beginning with what is kept,
and sends it what you type. On a terminal every key goes to the process, but for
^], which leaves it; leaving does not end it. While the process does not read, up
to 4 MiB of keys wait; attach says when it does not send any more. The process has
the terminal's size of whoever joined or changed it last. One that takes no input
is shown all the same. NUMBER is that of a command that runs in 'wsd history'. An ID
is that of 'wsd ps', or its beginning where that is unique, or a pid that 'wsd ps'
shows. Durable runs cannot be joined: 'wsd log --follow' shows them.

` + connectHelp + `

Exit status: 0 after ^]; the process's own once it has ended; 255 when wsd or the
connection failed; 2 for a command line that wsd does not understand.`,
		Example: "  wsd ps\n  wsd attach rhq4xw-1\n  wsd history --running\n  wsd attach 12",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("'wsd ps' lists the IDs, and 'wsd history --running' numbers", "'wsd attach' takes one number or ID, got %q", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := connect.withClient(cmd.Context(), a, func(ctx context.Context, c *client.Client) error {
				return a.attach(ctx, c, args[0])
			})
			if _, ok := errors.AsType[*exitError](err); err == nil || ok {
				return err
			}
			return &exitError{exitTransport, explainGone(err)}
		},
	}
	connect.add(cmd.Flags())
	return cmd
}

func (a *app) attach(ctx context.Context, c *client.Client, id string) error {
	p, err := findLive(ctx, c, id)
	switch {
	case err != nil:
		return err
	case p.Durable:
		return withHint(fmt.Errorf("%s is a durable run, which takes no input", id), "'wsd log --follow "+id+"' shows it")
	}
	joined, err := c.Join(ctx, p.SessionID, p.ProcessID)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	if t := newTerminal(a.stdin); p.TTY && t.in != nil {
		if err := t.raw(); err != nil {
			return err
		}
		defer t.restore()
		sizes := make(chan os.Signal, 1)
		signal.Notify(sizes, syscall.SIGWINCH)
		defer signal.Stop(sizes)
		sizes <- syscall.SIGWINCH
		go func() { // ends with ctx
			for {
				select {
				case <-sizes:
					if size, ok := t.size(); ok {
						_ = joined.Resize(ctx, size) // the next change may be heard
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	in := &typing{in: a.stdin, send: joined.Write, say: a.tellAttached, keys: p.TTY && isTerminal(a.stdin), tty: p.TTY}
	go func() { leave(in.run(ctx)) }() // a read of our stdin cannot be stopped; it ends with this program
	err = a.showJoined(ctx, joined)
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// findLive finds a process that runs: by its number in the history first, then by what 'wsd ps'
// shows.
func findLive(ctx context.Context, c *client.Client, id string) (*psEntry, error) {
	params := protocol.HistoryParams{ID: &id}
	number := commandNumber(id)
	if number != nil {
		params = protocol.HistoryParams{Number: number}
	}
	found, err := findCommand(ctx, c, params)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return nil, err
	}
	list, _, err := psList(ctx, c, false)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if number != nil && list[i].Number == *number {
			return &list[i], nil
		}
	}
	p, err := findProcess(list, id)
	switch {
	case err == nil:
		return p, nil
	case found != nil && found.EndedAtMs != nil:
		return nil, withHint(fmt.Errorf("%s has ended", id), "'wsd log "+id+"' shows what it has printed")
	}
	return nil, fmt.Errorf("%s: %w", id, err)
}

// tellAttached says something between the output of a process, on a terminal that is raw or
// not.
func (a *app) tellAttached(format string, args ...any) {
	end := "\n"
	if isTerminal(a.stderr) {
		fmt.Fprint(a.stderr, "\r\n")
		end = "\r\n"
	}
	fmt.Fprintf(a.stderr, "wsd attach: "+format+end, args...)
}

// errLeft ends attach after ^].
var errLeft = errors.New("left")

const (
	// typedPiece is how much input is read at a time, and typedPieces how many such pieces
	// wait at most.
	typedPiece  = 4096
	typedPieces = 1024
	// sentPiece is about how much is sent at a time.
	sentPiece = 64 << 10
	// leaveGrace is how long ^] waits for what was typed before it.
	leaveGrace = 300 * time.Millisecond
)

// typing sends input to a process. Keys are read while the process does not read, so that ^]
// always leaves.
type typing struct {
	in   io.Reader
	send func(context.Context, []byte) error
	say  func(format string, args ...any)
	keys bool // in is a terminal on which ^] leaves: it is always read
	tty  bool // the process has a terminal: ^] leaves

	unsent atomic.Int64 // bytes that were typed
}

// run reads until ^] on a terminal, which is errLeft. The end of the input ends nothing.
func (t *typing) run(ctx context.Context) error {
	queue, sent := make(chan []byte, typedPieces), make(chan error, 1)
	go func() { sent <- t.sendAll(ctx, queue) }() // ends with the queue or ctx
	left := make(chan error, 1)
	go func() { left <- t.readAll(ctx, queue) }() // ends with the input
	var err error
	select {
	case err = <-left:
	case failure := <-sent:
		if failure != nil || ctx.Err() != nil {
			return failure
		}
		sent <- nil // the queue was closed
		err = <-left
	case <-ctx.Done():
		return nil
	}
	switch {
	case errors.Is(err, io.EOF):
		if err := <-sent; err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	case !errors.Is(err, errLeft):
		return fmt.Errorf("read the input: %w", err)
	}
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case failure := <-sent:
		if failure != nil {
			return failure
		}
	case <-grace.C:
	case <-ctx.Done():
	}
	if n := t.unsent.Load(); n > 0 {
		t.say("the process did not read, %d bytes of what was typed are not sent", n)
	}
	return errLeft
}

// readAll fills the queue, and closes it at the end.
func (t *typing) readAll(ctx context.Context, queue chan<- []byte) error {
	defer close(queue)
	over := false // the process has to get all up to some point, and nothing behind it
	for {
		typed := make([]byte, typedPiece)
		n, err := t.in.Read(typed)
		typed = typed[:n]
		if i := bytes.IndexByte(typed, detachKey); t.tty && i >= 0 {
			typed, err = typed[:i], errLeft
		}
		if len(typed) > 0 {
			t.unsent.Add(int64(len(typed)))
			switch {
			case over:
			case !t.keys:
				select {
				case queue <- typed:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			default:
				select {
				case queue <- typed:
				default:
					over = true
					t.say("the process does not read: what is typed from now on is not sent; ^] leaves")
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

// sendAll sends what is in the queue. A process that takes no input ends nothing.
func (t *typing) sendAll(ctx context.Context, queue <-chan []byte) error {
	deaf := false
	for typed := range queue {
		for open := true; open && len(typed) < sentPiece; {
			select {
			case more := <-queue: // nil of one that is closed
				typed, open = append(typed, more...), more != nil
			default:
				open = false
			}
		}
		if !deaf {
			err := t.send(ctx, typed)
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, client.ErrNoInput):
				deaf = true
				t.say("the process takes no input")
			case errors.Is(err, client.ErrUnknownProcess):
				deaf = true // it has ended, as its reader learns
			default:
				return err
			}
		}
		t.unsent.Add(-int64(len(typed)))
	}
	return nil
}

// showJoined prints output until the process has ended, and returns its exit status.
func (a *app) showJoined(ctx context.Context, joined *client.Joined) error {
	for after := uint64(0); ; {
		r, err := joined.Read(ctx, after)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
		for _, chunk := range r.Chunks {
			to := a.stdout
			if chunk.Stream == "stderr" {
				to = a.stderr
			}
			if _, err := to.Write(chunk.Chunk); err != nil {
				return fmt.Errorf("print the output: %w", err)
			}
			after = chunk.Seq
		}
		switch {
		case len(r.Chunks) > 0:
		case r.Failure != nil:
			return errors.New(*r.Failure)
		case r.Exited && r.ExitCode != nil:
			return statusError(client.ExitStatus{Code: *r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, Limit: r.Limit})
		}
	}
}
