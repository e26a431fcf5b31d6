// Package relay is what both ends of a relay stream have in common: the socket that
// carries frames (Carrier, Dial), and a Stream, which makes an rpc.Connection of one
// stream after its handshake. What opens streams is in relay/harness and relay/executor,
// what stands between them in relay/rendezvous.
//
//	rpc.Connection   messages
//	   Stream        arq: numbers, acknowledges, resends; seal: encrypts
//	   Carrier       frames of many streams, over one socket at a time
//
// A Stream has no goroutine while nothing happens. Whoever writes a message also writes
// its frames to the carrier; what a received frame makes due (an ack, a resend) goes out
// from a goroutine that ends with it; one timer does the rest. Of those at most one writes
// at a time, so that frames leave in the order in which they were made. The mutex is
// never held over a write. (docs/decisions/0010)
//
// Who opens a stream also reads its socket and hands it frames (Handle), from which a
// message may be taken in the same goroutine (Await, docs/decisions/0012), tells it of the
// loss of the socket (Detach) and of the next one (Attach). A stream of the codex profile
// ends with its socket.
//
// Stream is safe for concurrent use, as rpc.Connection says. Limits are those of
// relay/arq, and in limits.go.
package relay
