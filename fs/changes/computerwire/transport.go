package computerwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/protocol/capnweb"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
)

// NewTransport makes of a WebSocket, whoever dialled, what package capnweb wants: text
// messages of the size that a session takes, and a goodbye where peers say it.
func NewTransport(ws *websocket.Conn, ping time.Duration) Transport {
	return Transport{wsconn.New(ws, ConnConfig(ping))}
}

// ConnConfig is how such a WebSocket is read.
func ConnConfig(ping time.Duration) wsconn.Config {
	return wsconn.Config{MaxMessageBytes: capnweb.MaxMessageBytes, PingInterval: ping, Text: true}
}

// Transport is a capnweb.Transport over a connection with ConnConfig.
type Transport struct{ *wsconn.Conn }

// Read implements capnweb.Transport.
func (t Transport) Read(ctx context.Context) ([]byte, error) {
	msg, err := t.Conn.Read(ctx)
	switch {
	case errors.Is(err, wsconn.ErrBinary):
		return nil, fmt.Errorf("%w: %w", capnweb.ErrBadMessage, err)
	case errors.Is(err, rpc.ErrTooLarge):
		return nil, capnweb.ErrTooLarge
	case rpc.IsBusy(err):
		_ = t.Conn.CloseFault(rpc.CloseTryAgainLater, err.Error()) // never fails
	}
	if c, ok := errors.AsType[*websocket.CloseError](err); ok && c.Code == capnweb.CloseCode {
		return nil, io.EOF // that is how sessions end
	}
	return msg, err
}
