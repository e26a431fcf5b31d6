package relay

import (
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
)

const (
	// MaxFrame bounds a frame, that is a WebSocket message; a longer one ends the socket.
	MaxFrame = frame.MaxBytes
	// MaxWaiting is how many messages of a codex stream may wait to be read before its
	// harness stops reading the socket. The executor has no such choice: its socket has
	// other streams, so it resets the stream that passes arq.CodexMessages.
	MaxWaiting = 100

	// ConnectTimeout bounds the making of a socket.
	ConnectTimeout = 10 * time.Second
	// PingInterval is the time between pings, while none waits for its pong.
	PingInterval = 30 * time.Second
	// PongTimeout is how long one may wait for it before the socket is given up.
	PongTimeout = 60 * time.Second
	// WriteTimeout is how long the socket may take a frame.
	WriteTimeout = 60 * time.Second
	// CloseTimeout is how long a stream that ends tries to tell its peer.
	CloseTimeout = time.Second
)
