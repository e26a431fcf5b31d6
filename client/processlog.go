package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/protocol"
)

// logPage is how much of a log is read at a time, in bytes.
const logPage = 256 << 10

// ProcessLog reads what a process that has ended has printed, whatever session it was of,
// and whether or not the server was started again since: the newest of that id. It calls
// fn with each piece with a number above after, in order; a first piece with a number
// above the next means that those before are not kept. What a process of this Client's
// own session prints is better read of the Process.
//
// ExitStatus is how it ended. When the server ended before the process, that is the error,
// after all pieces. A process that is not known, or runs in another session, is
// ErrUnknownProcess. It needs the capability durableLog.
func (c *Client) ProcessLog(ctx context.Context, id string, after uint64, fn func(Output) error) (ExitStatus, error) {
	if err := c.need(ctx, protocol.CapDurableLog); err != nil {
		return ExitStatus{}, err
	}
	size, wait := uint64(logPage), uint64(0)
	for {
		from := after
		params := &protocol.ReadParams{ProcessID: id, AfterSeq: &from, MaxBytes: &size, WaitMs: &wait}
		var r protocol.ReadResult
		if err := c.repeat(ctx, protocol.MethodProcessRead, params, &r); err != nil {
			return ExitStatus{}, asUnknownProcess(err)
		}
		for _, chunk := range r.Chunks {
			if err := fn(Output{Seq: chunk.Seq, Stream: chunk.Stream, Data: chunk.Chunk}); err != nil {
				return ExitStatus{}, err
			}
			after = chunk.Seq
		}
		if len(r.Chunks) > 0 {
			continue // what is said of the end is of the present
		}
		switch {
		case r.Failure != nil:
			return ExitStatus{}, errors.New(*r.Failure)
		case !r.Exited:
			return ExitStatus{}, fmt.Errorf("process %s has not ended", id)
		}
		return exitOf(&r).ExitStatus, nil
	}
}
