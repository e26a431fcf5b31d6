// Package process runs the children of a session: it starts them, numbers what
// they print, tells the client of it, and ends them.
//
// From the bottom up: a Spawner starts a Child; a Supervisor looks after one
// child with its pumps and its deadline; a job adds the stdin queue, and appends
// what happens to a Log, where output, exit and close share one counter; a publisher
// follows the log and notifies the client; a Service keeps the jobs of one session by id and
// serves process/*; a Directory knows the Services of a server, and an
// eventlog.Recorder keeps the logs for when their session or the server is gone.
//
// Invariants:
//
//   - Events of a process are numbered from 1 without holes. Exactly one is the exit,
//     exactly one the close, and the close is the last.
//   - Output of stdout and stderr is numbered in the order of writing, as far as the system
//     tells it: see Output.
//   - The exit comes after everything that the process itself has printed. It does
//     not wait for descendants that keep its pipes open; the close does.
//   - Nothing is evicted from the log before it has been published, because a child
//     is held back while too much waits for a slow client. Without a client the
//     publisher discards, and the child runs free.
//   - Every child leads a session and a process group of its own, and is waited for:
//     no zombie is left.
//
// Everything exported is safe for concurrent use. Limits are those of
// protocol/limits.go.
package process
