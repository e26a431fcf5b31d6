package client

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"

	"github.com/wsd-dev/wsd/protocol"
)

// Call sends a request for which there is no method here; params and result are
// encoded and decoded as package wire does, and may be nil. Like all calls it is
// sent once.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	return c.call(ctx, method, params, result)
}

// call sends a request once.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := c.callContext(ctx)
	defer cancel()
	l, err := c.acquire(ctx)
	if err != nil {
		return err
	}
	return callError(method, l.peer.Call(ctx, method, params, result))
}

// repeat sends a request that is harmless to send again, until it has an answer.
func (c *Client) repeat(ctx context.Context, method string, params, result any) error {
	ctx, cancel := c.callContext(ctx)
	defer cancel()
	for {
		l, err := c.acquire(ctx)
		if err != nil {
			return err
		}
		err = l.peer.Call(ctx, method, params, result)
		if !isClosed(err) || ctx.Err() != nil {
			return callError(method, err)
		}
	}
}

func (c *Client) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.opts.CallTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.opts.CallTimeout)
}

// Supports reports whether the server announces a capability, one of protocol.Cap*.
// It connects first if need be.
func (c *Client) Supports(ctx context.Context, capability string) (bool, error) {
	if _, err := c.acquire(ctx); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.info.Capabilities[capability], nil
}

// need returns an error that is errors.ErrUnsupported unless the server announces
// capability.
func (c *Client) need(ctx context.Context, capability string) error {
	ok, err := c.Supports(ctx, capability)
	if err == nil && !ok {
		return &unsupportedError{capability}
	}
	return err
}

// Environment describes the server's machine, as of the latest connection.
func (c *Client) Environment(ctx context.Context) (protocol.EnvironmentInfo, error) {
	if _, err := c.acquire(ctx); err != nil {
		return protocol.EnvironmentInfo{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.info, nil
}

// Status asks how the server is: "ready", or "draining" while it shuts down.
func (c *Client) Status(ctx context.Context) (string, error) {
	var result protocol.EnvironmentStatusResult
	err := c.call(ctx, protocol.MethodEnvironmentStatus, nil, &result)
	return result.Status, err
}

// newPrefix makes the ids of one client differ from those of others.
func newPrefix() string { return strings.ToLower(rand.Text()[:6]) }

// newID makes an id that this client has not used, of at most 27 bytes.
func (c *Client) newID() string {
	return c.prefix + "-" + strconv.FormatUint(c.lastID.Add(1), 10)
}
