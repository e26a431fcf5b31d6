// Package stream carries streams over JSON-RPC: parts of a result, or of parameters,
// that are sent item by item behind the message that names them (package protocol,
// stream.go). It serves both ends of a connection: a Set is an end's streams, those that
// it writes (Out) and those that it reads (In).
//
// A writer sends no more than it has credit for, which the reader gives as it takes
// items. So a slow reader holds up nothing but its own stream, whose unread data are
// bounded by the window; that of a writer which sends more regardless is ended. What the
// other end sends is taken on the goroutine that reads the connection and never makes it
// wait. Limits are in protocol/limits.go.
//
// A Set, an Out and an In are safe for concurrent use, but for In.Next, which is one
// goroutine's at a time. Close of a Set ends all of it and waits.
package stream
