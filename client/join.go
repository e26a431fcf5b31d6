package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// A Joined is a process of another session, which it and all that have joined it share.
type Joined struct {
	client             *Client
	session, processID string
}

// Join joins a process that Processes listed. It needs the capability processJoin.
func (c *Client) Join(ctx context.Context, sessionID, processID string) (*Joined, error) {
	if err := c.need(ctx, protocol.CapProcessJoin); err != nil {
		return nil, err
	}
	return &Joined{c, sessionID, processID}, nil
}

// Read waits for output behind the number after, or for the end of the process, for some
// seconds at most.
func (j *Joined) Read(ctx context.Context, after uint64) (*protocol.ReadResult, error) {
	size, wait := uint64(logPage), uint64(historyWait/time.Millisecond)
	r := new(protocol.ReadResult)
	params := &protocol.ReadParams{ProcessID: j.processID, SessionID: &j.session, AfterSeq: &after, MaxBytes: &size, WaitMs: &wait}
	return r, asUnknownProcess(j.client.repeat(ctx, protocol.MethodProcessRead, params, r))
}

// ErrNoInput is returned for input of a process that takes none, or none any more.
var ErrNoInput = errors.New("the process takes no input")

// Write writes to the terminal or the stdin of the process. It waits while the process does
// not read. A process without stdin, or whose stdin is closed, is ErrNoInput, and one that is
// gone ErrUnknownProcess.
func (j *Joined) Write(ctx context.Context, data []byte) error {
	id := j.client.newID()
	var result protocol.WriteResult
	params := &protocol.WriteParams{ProcessID: j.processID, SessionID: &j.session, Chunk: data, WriteID: &id}
	err := j.client.repeat(ctx, protocol.MethodProcessWrite, params, &result)
	switch {
	case err != nil:
		return err
	case result.Status == protocol.WriteUnknownProcess:
		return ErrUnknownProcess
	case result.Status == protocol.WriteStdinClosed:
		return ErrNoInput
	case result.Status != protocol.WriteAccepted:
		return fmt.Errorf("the input was not taken: %s", result.Status)
	}
	return nil
}

// Resize sets the size of the terminal, for all that have joined it.
func (j *Joined) Resize(ctx context.Context, size protocol.TerminalSize) error {
	params := &protocol.ResizeParams{ProcessID: j.processID, SessionID: &j.session, Rows: size.Rows, Cols: size.Cols}
	return j.client.repeat(ctx, protocol.MethodProcessResize, params, nil)
}
