// Package computer is a client of Cloudflare's computer, and of a wsd that stands in for
// one: a changes.Peer and shell.Runs over capnweb.
//
// A Client is one session. When it is lost, what was under way fails with an error that is
// ErrLost, and Dial makes another: cursors are the peer's and ours, and runs go on without
// their client. It is safe for concurrent use.
package computer
