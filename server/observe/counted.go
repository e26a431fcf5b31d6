package observe

import (
	"context"
	"errors"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/server"
)

// counted is a Connection that tells how many bytes its messages have, in and out. It
// can do what the one below can.
type counted struct {
	rpc.Connection
	in, out func(bytes int)
}

func (c *counted) Read(ctx context.Context) ([]byte, error) {
	msg, err := c.Connection.Read(ctx)
	if err == nil {
		c.in(len(msg))
	}
	return msg, err
}

func (c *counted) Write(ctx context.Context, msg []byte) error {
	return c.counted(len(msg), c.Connection.Write(ctx, msg))
}

// TryWrite implements rpc.TryWriter.
func (c *counted) TryWrite(msg []byte) (finish func() error, err error) {
	t, ok := c.Connection.(rpc.TryWriter)
	if !ok {
		return func() error { return c.Write(context.Background(), msg) }, nil
	}
	rest, err := t.TryWrite(msg)
	if rest == nil {
		return nil, c.counted(len(msg), err)
	}
	return func() error { return c.counted(len(msg), rest()) }, err
}

func (c *counted) counted(size int, err error) error {
	if err == nil {
		c.out(size)
	}
	return err
}

// Meter implements rpc.Metered.
func (c *counted) Meter(account *rpc.Account) {
	if m, ok := c.Connection.(rpc.Metered); ok {
		m.Meter(account)
	}
}

// ReportTo implements rpc.Reporter.
func (c *counted) ReportTo(account *rpc.Account) {
	if r, ok := c.Connection.(rpc.Reporter); ok {
		r.ReportTo(account)
	}
}

// CloseFault implements rpc.FaultCloser.
func (c *counted) CloseFault(code int, reason string) error {
	if f, ok := c.Connection.(rpc.FaultCloser); ok {
		return f.CloseFault(code, reason)
	}
	return c.Close()
}

// Probe implements server.Prober.
func (c *counted) Probe(ctx context.Context) error {
	if p, ok := c.Connection.(server.Prober); ok {
		return p.Probe(ctx)
	}
	return errors.ErrUnsupported
}

// countedAwaiter is counted over an rpc.Awaiter.
type countedAwaiter struct {
	*counted
	awaiter rpc.Awaiter
}

// Await implements rpc.Awaiter.
func (c *countedAwaiter) Await(takes rpc.Taker) ([]byte, error) {
	msg, err := c.awaiter.Await(func(msg []byte, err error, handOff func()) bool {
		if err == nil {
			c.in(len(msg))
		}
		return takes(msg, err, handOff)
	})
	if msg != nil {
		c.in(len(msg))
	}
	return msg, err
}

// Forget implements rpc.Awaiter.
func (c *countedAwaiter) Forget() bool { return c.awaiter.Forget() }
