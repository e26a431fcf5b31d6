// Package client runs processes and reads and writes files on an exec-server: wsd,
// or the codex exec-server, whose wire both speak.
//
// A Client is one session. Dial and Open reach a server by URL, DialCommand starts
// one as a child that speaks over its stdin and stdout, New takes a connection that
// exists. All methods of a Client, a Process and a Watch may be called from several
// goroutines at once; a File, a FileWriter and a Stream belong to one.
//
// # When the connection is cut
//
// A Client that can dial again does so, with backoff, and resumes its session. A
// Process goes on as if nothing had happened: what it printed meanwhile is read
// from the server, nothing is lost, doubled or reordered, and what was written to
// its stdin is written once. If the server no longer has all of the output, the
// Process fails with ErrOutputLost; if it no longer has the session, with
// ErrSessionLost. Calls that begin while there is no connection wait for one. A
// call whose answer was lost fails with an error that is ErrTransportClosed and
// ErrMayHaveRun: it is never sent again, save those that are harmless to repeat
// (reading, writing and closing stdin, resizing, terminating, and starting on a
// server that recognizes a repeated start). File handles and HTTP bodies end with
// their connection.
//
// # Slow readers
//
// What a process prints waits in a buffer of its own (Options.OutputBuffer) until
// it is read. While the buffer is full, nothing more is read from the connection,
// so that the server holds back the process, as a full pipe would. That holds up
// everything else on the connection too; therefore, after Options.StallTimeout, the
// other traffic goes on and the output of the slow Process is left at the server,
// to be fetched once there is room. The server keeps the last MiB; beyond that the
// Process fails with ErrOutputLost. Nothing is ever lost in silence.
//
// # Workspaces
//
// A server of a workspace keeps it in step with others and has durable runs in it. Sync
// is its end of a synchronisation, for package mirror or a driver of one's own. A Run
// of Exec or GetExec is kept by the server, output and end, so that any client can
// follow it from any point, also after a restart; it goes on when nobody does. It is
// followed across cuts like a Process. Their streams have windows of their own: one
// that is read slowly, or not at all, holds up nothing else.
//
// # Servers without a capability
//
// Methods and options that need what the server does not announce return an error
// that is errors.ErrUnsupported, without asking it.
package client
