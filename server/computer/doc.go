// Package computer serves a workspace and its runs to the clients of Cloudflare's
// computer: the objects sync and shell over capnweb, at the addresses where those clients
// look for them.
//
//	GET  /ws, /api           a WebSocket that carries one session
//	POST /api                an HTTP batch: calls without streams
//	POST /connect            dials a host and serves a session to it
//	GET  /api/watermarks     how far synchronisation is
//	GET  /__computerd/info   the mount point, and what is kept from synchronisation
//
// A Computer is one synchronisation peer however many sessions it has: they see the same
// cursors. What a session began to run goes on without it; a client that comes back
// follows it from where it was.
//
// # Order
//
// Calls of a session start in the order in which they came and run beside each other,
// but for exec: what is called behind it finds the run.
//
// # Limits
//
// Those of limits.go, of package capnweb for each session, and of the server whose routes
// the addresses are, among whose connections sessions and batches count.
//
// All exported methods are safe for concurrent use.
package computer
