// Package rpc carries JSON-RPC over connections of whole messages.
//
// From the bottom up: a Connection moves messages as bytes; a Peer reads and
// writes JSON-RPC on one Connection, matches answers to its own calls and holds
// back who writes faster than the other end reads; a Table lists the methods of a
// server with their parameter types and the order they keep; a Dispatcher runs the
// requests of one Peer by a Table on the services bound in a Scope. Where a Connection
// is an Awaiter the Peer reads on the goroutine that receives, and on its own elsewhere.
//
// Everything here is safe for concurrent use unless its comment says otherwise.
// Limits are those of protocol/limits.go; every one has its reaction there.
package rpc
