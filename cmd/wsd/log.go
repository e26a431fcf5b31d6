package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// exitStillRunning is the status of log for a run that has not ended, as sysexits(3) has
// it for what may be tried again.
const exitStillRunning = 75

func newLogCmd(a *app) *cobra.Command {
	var connect connectFlags
	var p logPrinter
	var after, tail string
	cmd := &cobra.Command{
		Use:   "log [flags] NUMBER|ID",
		Short: "Print what a command has printed",
		Long: `Prints the output of a command: its stdout to stdout, its stderr to stderr. NUMBER is
that of 'wsd history'; ID is that of 'wsd exec --detach' or of 'wsd ps --all'.
Digits alone are a number first: clients choose IDs. With --follow it goes on until
the command ends; any number of readers may follow at the same time. With --tail N
it begins with the last N lines.

The server keeps the newest 16 MiB of a durable run, which is one of 'wsd exec
--detach' or of shell/exec on the wire, and the newest MiB of any other command, for
30 days after its end, also when the server is started again ('wsd serve --help' has
the flags). Output that is not kept is named on stderr, and so is output for which
this reader was too slow.

Output comes in events that are numbered; --json shows the numbers, and --after N
leaves out those up to N.

The server is the one of --connect or $WSD_URL. Without them a NUMBER is looked up
where 'wsd history' looks, and an ID at the server that you started last with 'wsd
serve --workspace', or without a workspace if there is none.

With --json each line is an object: {"type":"output","seq","stream","text" or
"base64"}, at last {"type":"exited","seq","exitCode"}; {"type":"missing","from",
"to"} stands for events that are not kept, with no "to" when all behind is gone.

Exit status: the run's own, 128 plus the number of the signal that ended it; 75
if it has not ended and --follow is not given; 255 when wsd or the connection
failed, the run is not known, or nobody saw its end; 2 for a command line that
wsd does not understand.`,
		Example: "  wsd log 12\n  id=$(wsd exec --detach -- make -j2)\n  wsd log --follow --tail 20 $id\n  wsd log --json --after 120 $id",
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) != 1 {
				return usagef("write 'wsd log 12', with a number of 'wsd history', or the ID that 'wsd exec --detach' printed", "'wsd log' takes one number or ID, got %q", args)
			}
			if args[0] == "" {
				return usagef("write 'wsd log ID'; 'wsd history' lists numbers, and 'wsd ps --all' IDs", "the ID is empty")
			}
			if p.after, err = strconv.ParseUint(after, 10, 64); err != nil {
				return usagef("write --after 120, the number of an event", "invalid value %q for --after", after)
			}
			if cmd.Flags().Changed("tail") {
				n, err := strconv.ParseUint(tail, 10, 31)
				if err != nil {
					return usagef("write --tail 20, a number of lines", "invalid value %q for --tail", tail)
				}
				p.tail = &lineTail{most: int(n)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dial := connect.dialRecorded
			if commandNumber(args[0]) != nil {
				dial = connect.dial // as history, which has told the number
			}
			c, err := dial(cmd.Context(), a, patient(a))
			if err != nil {
				return transportError(err)
			}
			defer c.Close()
			p.stdout, p.stderr = a.stdout, a.stderr
			return p.print(cmd.Context(), c, args[0])
		},
	}
	cmd.Flags().BoolVarP(&p.follow, "follow", "f", false, "go on until the run ends")
	cmd.Flags().StringVar(&after, "after", "0", "leave out the events up to the number `N`")
	cmd.Flags().StringVar(&tail, "tail", "", "begin with the last `N` lines of what there is")
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "print one JSON object a line")
	connect.add(cmd.Flags())
	return cmd
}

// logPrinter prints a durable run.
type logPrinter struct {
	follow, asJSON bool
	after          uint64
	tail           *lineTail // nil for all; takes what there was when the run was found
	stdout, stderr io.Writer
}

// print prints a command and returns its exit status as an error.
func (p *logPrinter) print(ctx context.Context, c *client.Client, id string) error {
	recorded, err := c.Supports(ctx, protocol.CapHistory)
	if err != nil {
		return &exitError{exitTransport, err}
	}
	if number := commandNumber(id); recorded && number != nil {
		found, err := findCommand(ctx, c, protocol.HistoryParams{Number: number})
		if found != nil || err != nil {
			return p.recorded(ctx, c, found, err)
		}
	}
	run, err := openRun(ctx, c, id, p.after)
	if failure, ok := errors.AsType[*client.Error](err); ok && failure.Name == "ENOENT" || errors.Is(err, errors.ErrUnsupported) {
		if recorded {
			found, missing := findCommand(ctx, c, protocol.HistoryParams{ID: &id})
			if found == nil && missing == nil {
				missing = noCommand(id)
			}
			return p.recorded(ctx, c, found, missing)
		}
		if known, err := p.process(ctx, c, id); known {
			return err
		}
		if !ok || commandNumber(id) != nil {
			return &exitError{exitTransport, withHint(errors.New("the server has no history"), historyOffHint)}
		}
	}
	if err != nil {
		return &exitError{exitTransport, explainRun(err)}
	}
	defer run.Close()
	last, ended, known := run.Recorded()
	whole := p.follow || ended || !known
	for whole || run.Seq() < last {
		before := run.Seq()
		if before >= last {
			if err := p.endTail(); err != nil {
				return &exitError{exitTransport, fmt.Errorf("print the output: %w", err)}
			}
		}
		e, err := run.Next(ctx)
		if errors.Is(err, io.EOF) {
			return &exitError{exitTransport, p.unseen(run, ended)}
		}
		if err != nil {
			return &exitError{exitTransport, explainRun(err)}
		}
		if err = nil; e.Seq > before+1 {
			err = p.missing(before+1, e.Seq-1)
		}
		if err == nil && e.Ended() {
			err = p.endTail()
		}
		if err == nil {
			err = p.take(&e)
		}
		if err != nil {
			return &exitError{exitTransport, fmt.Errorf("print the output: %w", err)}
		}
		if e.Ended() {
			return runStatus(e.ExitCode)
		}
	}
	if err := p.endTail(); err != nil {
		return &exitError{exitTransport, fmt.Errorf("print the output: %w", err)}
	}
	return &exitError{exitStillRunning, withHint(errors.New("the run has not ended"), "--follow waits for that")}
}

// recorded prints what a command of the history has printed, unless it was not found for err.
func (p *logPrinter) recorded(ctx context.Context, c *client.Client, found *protocol.HistoryCommand, err error) error {
	if err != nil {
		return &exitError{exitTransport, err}
	}
	last, err := c.ReadHistory(ctx, found.Number, p.after, false, p.page) // what there is, before the tail is printed
	if err == nil {
		err = p.endTail()
	}
	if err == nil && p.follow && last.EndedAtMs == nil {
		last, err = c.ReadHistory(ctx, found.Number, p.after, true, p.page)
	}
	switch {
	case err != nil:
		return &exitError{exitTransport, err}
	case last.EndedAtMs == nil:
		return &exitError{exitStillRunning, withHint(errors.New("the command has not ended"), "--follow waits for that")}
	case last.ExitCode == nil:
		return &exitError{exitTransport, errors.New("the command's exit status is not known: the server ended before the command did")}
	}
	if err := p.event(&client.RunEvent{ExitCode: *last.ExitCode}); err != nil {
		return &exitError{exitTransport, fmt.Errorf("print the output: %w", err)}
	}
	if last.Durable {
		return runStatus(*last.ExitCode)
	}
	return statusError(client.ExitStatus{Code: *last.ExitCode, Signal: last.Signal, TimedOut: last.TimedOut, Limit: last.Limit})
}

// page prints events of a command of the history, which are behind from then on.
func (p *logPrinter) page(r *protocol.HistoryReadResult) error {
	if m := r.Missing; m != nil {
		to := uint64(0)
		if m.To != nil {
			to = *m.To
			p.after = to
		}
		if err := p.missing(m.From, to); err != nil {
			return fmt.Errorf("print the output: %w", err)
		}
	}
	for i := range r.Chunks {
		c := &r.Chunks[i]
		if c.Stream == protocol.StreamPTY {
			c.Stream = protocol.StreamStdout
		}
		if err := p.take(&client.RunEvent{Seq: c.Seq, Stream: c.Stream, Data: c.Chunk}); err != nil {
			return fmt.Errorf("print the output: %w", err)
		}
		p.after = c.Seq
	}
	return nil
}

// process prints the log of a process that has ended, of a server that keeps such logs but
// has no history: an older one, or one with --history off. It is false for a process that the
// server does not know.
func (p *logPrinter) process(ctx context.Context, c *client.Client, id string) (known bool, err error) {
	status, err := c.ProcessLog(ctx, id, p.after, func(o client.Output) error {
		if o.Stream == protocol.StreamPTY {
			o.Stream = protocol.StreamStdout
		}
		return p.take(&client.RunEvent{Seq: o.Seq, Stream: o.Stream, Data: o.Data})
	})
	switch {
	case errors.Is(err, client.ErrUnknownProcess), errors.Is(err, errors.ErrUnsupported):
		return false, nil
	case err != nil:
		return true, &exitError{exitTransport, err}
	}
	if err = p.endTail(); err == nil {
		err = p.event(&client.RunEvent{ExitCode: status.Code})
	}
	if err != nil {
		return true, &exitError{exitTransport, fmt.Errorf("print the output: %w", err)}
	}
	return true, statusError(status)
}

// unseen says why there was no end among the events: --after was behind it, or the run is
// gone.
func (p *logPrinter) unseen(run *client.Run, ended bool) error {
	if ended && p.after > 0 && run.Seq() == p.after {
		return fmt.Errorf("the run has no events after number %d", p.after)
	}
	return client.ErrDisposed
}

// runStatus is how a run ended, as an exit status of this program.
func runStatus(code int) error {
	switch {
	case code == 0:
		return nil
	case code < 0:
		return &exitError{exitTransport, errors.New("the run's exit status is not known: the server ended before the run did, or the run could not be started")}
	case code > 255:
		return &exitError{exitTransport, fmt.Errorf("the run has ended with code %d", code)}
	}
	return &exitError{code, nil}
}

// busyPatience is how long a run may still have a follower that has just gone.
const busyPatience = 3 * time.Second

// openRun follows a run, waiting a little for another follower to go.
func openRun(ctx context.Context, c *client.Client, id string, after uint64) (*client.Run, error) {
	limit := time.NewTimer(busyPatience)
	defer limit.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		run, err := c.GetExec(ctx, id, after)
		failure, ok := errors.AsType[*client.Error](err)
		if !ok || failure.Name != "EEXEC_BUSY" {
			return run, err
		}
		select {
		case <-again.C:
		case <-limit.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// explainRun says what a user may do about an error of a durable run.
func explainRun(err error) error {
	failure, ok := errors.AsType[*client.Error](err)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return withHint(err, "durable runs are those of a workspace: 'wsd serve --workspace DIR'")
	case ok && failure.Name == "EEXEC_BUSY" && failure.Method == protocol.MethodShellExec:
		return withHint(err, "'wsd ps' lists what runs, and 'wsd kill ID' ends one")
	case ok && failure.Name == "EEXEC_BUSY":
		return withHint(err, "wait until one of them goes")
	case ok && failure.Name == "ENOENT":
		return withHint(err, "'wsd ps --all' lists the runs that are kept")
	case ok && failure.Name == "ELOG_TRUNCATED":
		return withHint(err, "it has printed more than the server keeps of a run, see 'wsd serve --"+flagRunLog+"'")
	}
	return err
}

// logEvent is one line of --json.
type logEvent struct {
	Type     string  `json:"type"`          // "output", "missing" or "exited"
	Seq      uint64  `json:"seq,omitempty"` // not of the end of a process
	Stream   string  `json:"stream,omitempty"`
	Text     *string `json:"text,omitempty"` // the output, or Base64 when it is not UTF-8
	Base64   []byte  `json:"base64,omitempty"`
	ExitCode *int    `json:"exitCode,omitempty"`
	From     uint64  `json:"from,omitempty"` // of what is missing
	To       uint64  `json:"to,omitempty"`   // none if all behind is
}

// missing says which events are not kept: those behind too if to is 0.
func (p *logPrinter) missing(from, to uint64) error {
	switch {
	case p.tail != nil && to != 0:
		return nil // most are left out
	case p.asJSON:
		return json.NewEncoder(p.stdout).Encode(&logEvent{Type: "missing", From: from, To: to})
	}
	if to == 0 {
		_, err := fmt.Fprintf(p.stderr, "wsd: the events from %d on are not kept: the command was disposed of\n", from)
		return err
	}
	_, err := fmt.Fprintf(p.stderr, "wsd: the events %d to %d are not kept any more\n", from, to)
	return err
}

// take prints an event, or keeps it while only the last lines are wanted.
func (p *logPrinter) take(e *client.RunEvent) error {
	if p.tail == nil || e.Ended() {
		return p.event(e)
	}
	p.tail.add(e)
	return nil
}

// endTail prints the last lines so far. Later output is printed as it comes.
func (p *logPrinter) endTail() error {
	if p.tail == nil {
		return nil
	}
	last := p.tail.last()
	p.tail = nil
	for i := range last {
		if err := p.event(&last[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *logPrinter) event(e *client.RunEvent) error {
	switch {
	case p.asJSON:
		out := logEvent{Type: "output", Seq: e.Seq, Stream: e.Stream}
		switch text := string(e.Data); {
		case e.Ended():
			out.Type, out.ExitCode = "exited", &e.ExitCode
		case utf8.ValidString(text):
			out.Text = &text
		default:
			out.Base64 = e.Data
		}
		enc := json.NewEncoder(p.stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(out)
	case e.Ended():
		return nil
	case e.Stream == protocol.StreamStderr:
		_, err := p.stderr.Write(e.Data)
		return err
	}
	_, err := p.stdout.Write(e.Data)
	return err
}
