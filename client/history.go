package client

import (
	"context"
	"errors"
	"time"

	"github.com/wsd-dev/wsd/protocol"
)

// historyWait is how long the server is asked to wait at a time.
const historyWait = 10 * time.Second

// History lists the commands that the server has run, of all clients, the newest first. It
// needs the capability history.
func (c *Client) History(ctx context.Context, params protocol.HistoryParams) (*protocol.HistoryResult, error) {
	if err := c.need(ctx, protocol.CapHistory); err != nil {
		return nil, err
	}
	result := new(protocol.HistoryResult)
	return result, c.repeat(ctx, protocol.MethodHistoryList, &params, result)
}

// AwaitHistory lists the commands that have ended after the LastEnd of an earlier answer,
// those first that ended first. It waits until there is one, for ten seconds at most. A
// LastEnd below afterEnd is an error: the server has another history by now.
func (c *Client) AwaitHistory(ctx context.Context, params protocol.HistoryParams, afterEnd int64) (*protocol.HistoryResult, error) {
	wait := uint64(historyWait / time.Millisecond)
	params.AfterEnd, params.WaitMs = &afterEnd, &wait
	r, err := c.History(ctx, params)
	if err == nil && r.LastEnd < afterEnd {
		return nil, errors.New("the server has another history than before")
	}
	return r, err
}

// ReadHistory calls fn with each answer of the server about the output of the command with
// that number: the events above after, in order, and which of them are not kept any more.
// With follow it goes on until the command ends. It returns the command as it is then. It
// needs the capability history.
func (c *Client) ReadHistory(ctx context.Context, number int64, after uint64, follow bool, fn func(*protocol.HistoryReadResult) error) (*protocol.HistoryCommand, error) {
	if err := c.need(ctx, protocol.CapHistory); err != nil {
		return nil, err
	}
	size, wait := uint64(logPage), uint64(0)
	if follow {
		wait = uint64(historyWait / time.Millisecond)
	}
	for {
		from := after
		params := &protocol.HistoryReadParams{Number: number, AfterSeq: &from, MaxBytes: &size, WaitMs: &wait}
		r := new(protocol.HistoryReadResult)
		if err := c.repeat(ctx, protocol.MethodHistoryRead, params, r); err != nil {
			return nil, err
		}
		if err := fn(r); err != nil {
			return nil, err
		}
		if r.Missing != nil && r.Missing.To != nil {
			after = *r.Missing.To
		}
		if n := len(r.Chunks); n > 0 {
			after = r.Chunks[n-1].Seq
		}
		if r.Ended || after == from && !follow {
			return &r.Command, nil
		}
	}
}
