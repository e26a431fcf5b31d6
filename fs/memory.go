package fs

import (
	"context"

	"github.com/wsd-dev/wsd/protocol/rpc"
)

// smallRead is the size up to which contents are not charged for before they are read:
// their encoded answers are charged for anyway.
const smallRead = 32 << 10

// content charges the server's memory budget for what one request reads and for its
// encoded form. The answer gives all of it back.
type content struct {
	charged int64
}

// grow makes the charge cover a content of n bytes.
func (c *content) grow(ctx context.Context, n int64) error {
	if n <= smallRead {
		return nil
	}
	more := n + n/3*4 + 4 - c.charged
	if more <= 0 {
		return nil
	}
	if err := rpc.Charge(ctx, more); err != nil {
		return err
	}
	c.charged += more
	return nil
}

// listing charges the server's memory budget for the names of a directory that a request
// lists, in large steps.
type listing struct {
	ctx     context.Context
	pending int64
	charged int64
}

const (
	// listingStep is what is charged at a time.
	listingStep = 256 << 10
	// listedOverhead is what a listed name takes besides its bytes: in the listing, in the
	// result and encoded.
	listedOverhead = 256
)

// add notes a name of n bytes.
func (l *listing) add(n int) error {
	if l.pending += int64(3*n + listedOverhead); l.pending < listingStep {
		return nil
	}
	if err := rpc.Charge(l.ctx, l.pending); err != nil {
		return err
	}
	l.charged += l.pending
	l.pending = 0
	return nil
}

// release gives the charge back before the request has been answered.
func (l *listing) release() {
	rpc.Refund(l.ctx, l.charged)
	l.charged = 0
}
