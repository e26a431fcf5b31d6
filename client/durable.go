package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc/stream"
	"github.com/wsd-dev/wsd/protocol/wire"
)

const (
	// busyWait is how long a run may still have the follower that was lost with its
	// connection, which the server may not have noticed; it is asked again with delays
	// from the first to the second of the others.
	busyWait     = 90 * time.Second
	busyMinDelay = 20 * time.Millisecond
	busyMaxDelay = 2 * time.Second

	// smallestRunWindow is how far a window shrinks, see Run.resize. In bytes.
	smallestRunWindow = 16 << 10
)

// nameBusy is what a run is that has a follower.
const nameBusy = "EEXEC_BUSY"

// RunEvent is an event of a durable run: output, or its end.
type RunEvent struct {
	Seq uint64 // 1, 2, 3, ...
	// Stream is protocol.StreamStdout or StreamStderr, or "" for the end.
	Stream string
	Data   []byte // of output
	// ExitCode is that of the end: 128 and the number of the signal that ended the
	// command, -1 when it could not be started, or the server was ended with it running.
	ExitCode int
}

// Ended reports whether this is the end of the run.
func (e *RunEvent) Ended() bool { return e.Stream == "" }

// Run is a durable run that is followed. What is not read holds back the command, as a
// full pipe would. It goes on by itself when the Run is closed or the connection is lost.
type Run struct {
	client *Client
	id     string

	mu       sync.Mutex
	after    protocol.ExecAfter // what has been read
	in       *stream.In
	window   int64 // of in; 0 for protocol.ShellWindow
	got      int64 // bytes of output that in has given
	snapshot snapshot
	exitCode *int
	closed   bool
}

// snapshot is what the server said of the run when it was asked first.
type snapshot struct {
	known bool
	last  uint64
	ended bool
}

func (c *Client) newRun(id string) *Run { return &Run{client: c, id: id} }

// ID is the run's name at the server.
func (r *Run) ID() string { return r.id }

// Seq is the number of the last event that Next has returned, or the one to begin behind.
func (r *Run) Seq() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.after.Seq
}

// Recorded is the number of the last event that there was when the run was found, and
// whether that was its end. known is false if the server does not say.
func (r *Run) Recorded() (last uint64, ended, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot.last, r.snapshot.ended, r.snapshot.known
}

// Next returns the next event, and io.EOF after the end of the run, or when it was
// disposed of. When the connection is lost it goes on with the next one, where it was: no
// event is lost or comes twice. One goroutine at a time calls it.
func (r *Run) Next(ctx context.Context) (RunEvent, error) { return r.nextInto(ctx, nil) }

// nextInto is Next, which puts output into the memory of room if it has enough.
func (r *Run) nextInto(ctx context.Context, room []byte) (RunEvent, error) {
	for {
		e, err := r.next(ctx, room)
		if !isClosed(err) || ctx.Err() != nil {
			return e, err
		}
		r.resize()
		if err := r.again(ctx); err != nil {
			return e, fmt.Errorf("follow %s again: %w", r.id, err)
		}
	}
}

func (r *Run) next(ctx context.Context, room []byte) (out RunEvent, err error) {
	r.mu.Lock()
	in := r.in
	r.mu.Unlock()
	raw, err := in.Next(ctx)
	if err != nil {
		return out, streamError(protocol.MethodShellGetExec, err)
	}
	e := protocol.ExecEvent{Data: room}
	if err := wire.Unmarshal(raw, &e); err != nil {
		return out, fmt.Errorf("decode an event: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = protocol.ExecAfter{Seq: e.Seq}
	r.got += int64(len(e.Data))
	out.Seq = e.Seq
	switch e.Name {
	case protocol.ExecStdout, protocol.ExecStderr:
		out.Stream, out.Data = e.Name, e.Data
	case protocol.ExecExit:
		out.ExitCode = e.Code
		code := e.Code
		r.exitCode = &code
	default:
		return out, fmt.Errorf("an event called %.40q", e.Name)
	}
	return out, nil
}

// ExitCode is how the run has ended, once Next has returned that.
func (r *Run) ExitCode() (code int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.exitCode == nil {
		return 0, false
	}
	return *r.exitCode, true
}

// ErrDisposed means that a run was disposed of before its end was known.
var ErrDisposed = errors.New("the run was disposed of")

// Wait reads to the end and returns the exit code. Output goes to the writers, nil for
// none. After a run that was disposed of it is ErrDisposed.
func (r *Run) Wait(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	var room []byte
	for {
		e, err := r.nextInto(ctx, room)
		switch {
		case errors.Is(err, io.EOF):
			if code, ok := r.ExitCode(); ok {
				return code, nil
			}
			return 0, ErrDisposed
		case err != nil:
			return 0, err
		case e.Ended(): // nothing comes after it
			return e.ExitCode, nil
		}
		room = e.Data
		w := stdout
		if e.Stream == protocol.StreamStderr {
			w = stderr
		}
		if w == nil {
			continue
		}
		if _, err := w.Write(e.Data); err != nil {
			return 0, err
		}
	}
}

// Close stops following. The run goes on.
func (r *Run) Close() {
	r.mu.Lock()
	r.closed = true
	in := r.in
	r.mu.Unlock()
	if in != nil {
		in.Close(nil)
	}
}

// get follows the run from where it was.
func (r *Run) get(ctx context.Context) error {
	r.mu.Lock()
	after, window := r.after, r.window
	r.mu.Unlock()
	if window == 0 {
		window = protocol.ShellWindow
	}
	return r.open(ctx, protocol.MethodShellGetExec, window, &protocol.GetExecParams{ID: r.id, After: &after, Window: &window})
}

// resize sets the window for the next connection by what the last one carried. A whole
// window may come as one message, and one that is longer than what a connection carries
// before it ends would never arrive.
func (r *Run) resize() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.window == 0 {
		r.window = protocol.ShellWindow
	}
	switch {
	case r.got == 0:
		r.window = max(r.window/4, smallestRunWindow)
	case r.got >= 4*r.window:
		r.window = min(r.window*4, protocol.ShellWindow)
	}
}

// open sends a request that answers with the run's events.
func (r *Run) open(ctx context.Context, method string, window int64, params any) error {
	var result protocol.ExecResult
	o := &opening{window: window, result: &result, ref: &result.Events}
	if err := r.client.open(ctx, method, params, o); err != nil {
		return err
	}
	r.mu.Lock()
	if r.in == nil && result.LastSeq != nil && result.Ended != nil {
		r.snapshot = snapshot{true, *result.LastSeq, *result.Ended}
		if r.after.Tail {
			r.after = protocol.ExecAfter{Seq: *result.LastSeq}
		}
	}
	r.in, r.got = o.in, 0
	closed := r.closed
	r.mu.Unlock()
	if closed {
		o.in.Close(nil)
	}
	return nil
}

// again follows the run on another connection.
func (r *Run) again(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, busyWait+r.client.opts.ConnectTimeout, context.DeadlineExceeded)
	defer cancel()
	delay := busyMinDelay
	for {
		err := r.get(ctx)
		failure, ok := errors.AsType[*Error](err)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrMayHaveRun) && r.client.Err() == nil:
			continue // that connection is lost too
		case !ok || failure.Name != nameBusy:
			return err
		}
		timer := time.NewTimer(delay)
		delay = min(2*delay, busyMaxDelay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// streamError gives an error of a stream the form of an answer's.
func streamError(method string, err error) error {
	if e, ok := errors.AsType[*protocol.NamedError](err); ok {
		return &Error{Method: method, Code: protocol.CodeNamed, Message: e.Message, Name: e.Code, Path: e.Path}
	}
	return lostStream(err)
}
