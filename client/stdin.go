package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

const (
	// maxStdinChunk bounds one process/write.
	maxStdinChunk = 512 << 10
	// stdinReadBuffer is the buffer of Stdin.ReadFrom.
	stdinReadBuffer = 256 << 10
	// answerDelay is how long the answer to a write may take after the process has ended:
	// the end, which the write may have caused, can come before it.
	answerDelay = time.Second
)

// Stdin is the input of a Process. Each write is delivered once and in order, across
// lost connections too. Its methods may be called from several goroutines.
type Stdin struct {
	process *Process
	open    bool // the command asked for it
	tty     bool

	turn   chan struct{} // holds a token while somebody writes; guards the rest
	lastID uint64
	closed bool
}

// Write returns when the server has taken all of b, which it does not while the
// process reads nothing and much waits for it. After the process has ended it returns
// io.ErrClosedPipe.
func (s *Stdin) Write(b []byte) (int, error) {
	return s.write(context.Background(), b)
}

// WriteContext is Write for a caller who may give up. What then became of b is not
// known.
func (s *Stdin) WriteContext(ctx context.Context, b []byte) (int, error) { return s.write(ctx, b) }

func (s *Stdin) write(ctx context.Context, b []byte) (int, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	total := 0
	for len(b) > 0 {
		n := min(len(b), maxStdinChunk)
		if err := s.send(ctx, b[:n]); err != nil {
			return total, err
		}
		b, total = b[n:], total+n
	}
	return total, nil
}

// begin takes the turn.
func (s *Stdin) begin(ctx context.Context) (func(), error) {
	select {
	case s.turn <- struct{}{}:
	case <-s.process.running.Done():
		return nil, io.ErrClosedPipe
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case !s.open:
		<-s.turn
		return nil, errors.New("write to stdin: the command was started without Stdin or TTY")
	case s.closed, s.process.running.Err() != nil:
		<-s.turn
		return nil, io.ErrClosedPipe
	}
	return func() { <-s.turn }, nil
}

// send writes one chunk. Its id makes it harmless to send it again on another
// connection.
func (s *Stdin) send(ctx context.Context, chunk []byte) error {
	p := s.process
	s.lastID++
	id := strconv.FormatUint(s.lastID, 10)
	ctx, cancel := p.whileRunning(ctx)
	defer cancel()
	var result protocol.WriteResult
	err := p.client.repeat(ctx, protocol.MethodProcessWrite, &protocol.WriteParams{ProcessID: p.id, Chunk: chunk, WriteID: &id}, &result)
	return s.outcome(result.Status, err)
}

func (s *Stdin) outcome(status string, err error) error {
	switch {
	case err != nil && s.process.running.Err() != nil:
		return io.ErrClosedPipe
	case err != nil:
		return fmt.Errorf("write to stdin: %w", err)
	}
	switch status {
	case protocol.WriteAccepted:
		return nil
	case protocol.WriteStdinClosed:
		return io.ErrClosedPipe
	case protocol.WriteUnknownProcess:
		if s.process.running.Err() != nil {
			return io.ErrClosedPipe
		}
		return fmt.Errorf("write to stdin: %w", ErrUnknownProcess)
	}
	return fmt.Errorf("write to stdin: the server says %q", status)
}

// whileRunning is ctx, ended answerDelay after nothing reads stdin any more.
func (p *Process) whileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.running, func() {
		timer := time.NewTimer(answerDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(errNotRunning)
		case <-ctx.Done(): // answered, or given up
		}
	})
	return ctx, func() { stop(); cancel(context.Canceled) }
}

// ReadFrom implements io.ReaderFrom: it sends what r gives as it comes, in large
// pieces when r is fast.
func (s *Stdin) ReadFrom(r io.Reader) (int64, error) {
	buf := make([]byte, stdinReadBuffer)
	var total int64
	for {
		n, err := r.Read(buf)
		if n > 0 {
			written, writeErr := s.Write(buf[:n])
			total += int64(written)
			if writeErr != nil {
				return total, writeErr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// endOfFile is the control character that ends the input of a terminal in its usual
// mode.
const endOfFile = 4

// Close ends the input after what has been written: the process reads an end of file.
// On a PTY it types ^D. For pipes it needs the capability processCloseStdin.
func (s *Stdin) Close() error {
	if !s.open {
		return nil
	}
	ctx := s.process.client.life
	done, err := s.begin(ctx)
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	if s.tty {
		err = s.send(ctx, []byte{endOfFile})
	} else {
		err = s.sendClose(ctx)
	}
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, ErrUnknownProcess) {
		err = nil
	}
	s.closed = err == nil
	return err
}

func (s *Stdin) sendClose(ctx context.Context) error {
	p := s.process
	if err := p.client.need(ctx, protocol.CapProcessCloseStdin); err != nil {
		return err
	}
	ctx, cancel := p.whileRunning(ctx)
	defer cancel()
	var result protocol.WriteResult
	err := p.client.repeat(ctx, protocol.MethodProcessCloseStdin, &protocol.ProcessParams{ProcessID: p.id}, &result)
	return s.outcome(result.Status, err)
}
