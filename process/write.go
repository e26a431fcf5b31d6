package process

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// write serves process/write. The answer waits while the queue of the process is
// full; requests behind it do not.
func (s *Service) write(ctx context.Context, p *protocol.WriteParams) (*protocol.WriteResult, error) {
	if p.WriteID != nil && *p.WriteID == "" {
		return nil, protocol.InvalidParams("writeId must not be empty")
	}
	return s.feed(ctx, p.SessionID, p.ProcessID, func(e *entry) (*ticket, error) { return e.stdin.put(ctx, p.WriteID, p.Chunk) })
}

// closeStdin serves process/closeStdin: what was written before comes first. A
// terminal can be written to after it.
func (s *Service) closeStdin(ctx context.Context, p *protocol.ProcessParams) (*protocol.WriteResult, error) {
	return s.feed(ctx, nil, p.ProcessID, func(e *entry) (*ticket, error) { return e.stdin.putEOF(ctx, !e.tty) })
}

// feed puts something into the stdin of a process and waits until it is accepted.
func (s *Service) feed(ctx context.Context, session *string, id string, put func(*entry) (*ticket, error)) (*protocol.WriteResult, error) {
	e, err := s.findIn(ctx, session, id)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return &protocol.WriteResult{Status: protocol.WriteUnknownProcess}, nil
	}
	defer e.release()
	if e.stdin == nil {
		return &protocol.WriteResult{Status: protocol.WriteStdinClosed}, nil
	}
	t, err := put(e)
	if err == nil {
		err = await(ctx, e.stdin, t)
	}
	switch {
	case err == nil:
		return &protocol.WriteResult{Status: protocol.WriteAccepted}, nil
	case errors.Is(err, errStdinClosed):
		return &protocol.WriteResult{Status: protocol.WriteStdinClosed}, nil
	case errors.Is(err, errStdinBroken):
		return nil, protocol.Errorf(protocol.CodeInternal, "%v", errStdinBroken)
	default:
		return nil, err
	}
}

// await waits until t is accepted or refused. Its place in the queue is taken, so
// that others may go on meanwhile.
func await(ctx context.Context, in *stdin, t *ticket) error {
	select {
	case <-t.done:
		return t.err
	default:
	}
	rpc.Async(ctx)
	select {
	case <-t.done:
	case <-ctx.Done():
		in.withdraw()
		return context.Cause(ctx)
	}
	if t.err != nil && ctx.Err() != nil { // another request of the connection has withdrawn it
		return context.Cause(ctx)
	}
	return t.err
}
