// Package capnweb speaks Cap'n Web, the object RPC of the npm package capnweb, with peers
// of its versions 0.8 to 0.12, in either role: both ends of a Session may have objects and
// call those of the other.
//
// A service author makes a Target, gives it methods with Handle and Func0 to Func2, and
// serves it over a Transport with Serve, or over HTTP with BatchHandler:
//
//	api := capnweb.NewTarget()
//	api.Handle("readEntry", capnweb.Func1(func(ctx context.Context, path string) (*Entry, error) { ... }))
//	err := capnweb.Serve(ctx, conn, capnweb.Config{Main: api})
//
// A client author makes a Session with New and calls methods of its Main stub:
//
//	s := capnweb.New(conn, capnweb.Config{})
//	defer s.Close()
//	err := s.Main().Call(ctx, &entry, "sync.readEntry", "/a")
//
// Values are those of encoding/json, with its struct tags, and more: []byte, time.Time,
// *big.Int, errors, Undefined, a *Target or *Stub, and Stream, which may stand in results
// and in arguments alike.
//
// # Order
//
// Frames are handled in the order in which they came and no call holds up the reading of
// the next frame. Calls run beside each other, each in a goroutine of its own, and which
// of two gets further first is open. A Method that must have done something before those
// behind it begin is InOrder: it keeps them from starting until it lets them.
//
// # Streams
//
// A chunk is acknowledged when the reader has taken it, so that what a writer can be
// ahead is bounded by its window, which is the writer's own affair: one of this end
// follows the path between 64 KiB and 16 MiB, or stays as Stream.WithWindow says. A
// window counts the bytes of messages.
//
// # Lifetime
//
// What a peer was given it holds until it has released it, or the session has ended; then
// a Target that nobody holds is disposed (OnDispose) and a Stream that nobody read is
// cancelled. What this end was given it releases: stubs with Release, streams by reading
// to the end or Cancel. Arguments of a Method are released when it returns.
//
// # Errors
//
// An *Error is told to the peer with its code; of any other error only that it happened,
// and the session's logger the rest (see Config.MapError). A peer that breaks the
// protocol, or a limit of those in limits.go that say so, ends its session and no other.
//
// # Versions
//
// There is no negotiation. What is sent is known to 0.8, except a TypedArray, which 0.12
// has brought. Of the types of the web (URL, Headers, Request, Response, Blob) there are
// no counterparts: a call that holds one is rejected with a TypeError.
//
// Everything here is safe for concurrent use unless its comment says otherwise.
package capnweb
