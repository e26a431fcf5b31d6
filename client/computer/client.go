package computer

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol/capnweb"
)

var (
	_ changes.Peer = (*Client)(nil)
	_ shell.Runs   = (*Client)(nil)
)

// ErrLost is returned for what the end of the session has kept from being done, or from
// being known to be.
var ErrLost = errors.New("the session with the computer is lost")

// A Client calls a computer.
type Client struct{ session *capnweb.Session }

// Close ends the session. Runs go on.
func (c *Client) Close() error { return c.session.Close() }

// Done is closed when the session has ended.
func (c *Client) Done() <-chan struct{} { return c.session.Done() }

// Err says why the session has ended; nil before.
func (c *Client) Err() error { return c.session.Err() }

// call calls a method and decodes its result.
func (c *Client) call(ctx context.Context, result any, method string, args ...any) error {
	err := c.session.Main().Call(ctx, result, method, args...)
	if err == nil || ctx.Err() != nil {
		return err
	}
	return c.lost(err)
}

// lost marks an error that came of the end of the session, not of the peer.
func (c *Client) lost(err error) error {
	if _, told := errors.AsType[*capnweb.Error](err); told && !isEnd(err) {
		return err
	}
	select {
	case <-c.session.Done():
		return fmt.Errorf("%w: %w", ErrLost, err)
	default:
		return err
	}
}

// isEnd reports whether err is what ends streams with their session.
func isEnd(err error) bool {
	return errors.Is(err, capnweb.ErrNotClosed) || errors.Is(err, capnweb.ErrClosed)
}
