// Package server is the exec-server without its services: it takes connections,
// leads each through the handshake, keeps sessions, and knows nothing of what the
// methods do.
//
// A Server serves one rpc.Connection per ServeConnection, whatever carries it:
// the listeners of this package (WebSocket over TCP, TLS or a Unix socket, and
// stdio), a relay's stream, or one end of rpc.Pair. The services come from the two
// functions of its Config:
//
//   - session-lived ones are made for each new session, outlive a connection that
//     ends, and are closed when nobody resumed the session within its grace;
//   - connection-lived ones are made for each connection that was initialized and are
//     closed with it.
//
// # Life of a connection
//
// initialize, its answer, the notification initialized, everything else: what comes
// too early is refused by name and the connection stays open. A session has at most
// one connection. While it has none, what its services notify is refused with
// rpc.ErrClosed, so that they keep their output and let the program run on; from
// the answer to a resuming initialize on, notifications flow again. A session whose
// connection's other end shows no sign of life is freed when somebody asks for it.
//
// # Limits
//
// protocol.MaxConnections, protocol.MaxDetachedSessions and those of package rpc.
//
// All exported methods are safe for concurrent use.
package server
