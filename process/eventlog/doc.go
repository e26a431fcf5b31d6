// Package eventlog keeps the numbered events of commands: what they print, how they exit
// and that they are closed. It serves the processes of sessions and durable runs.
//
// From the bottom up: a [Store] keeps logs beyond the life of a server; a [Recorder] numbers
// the logs of a server and is the only one that writes its Store; a [Log] is the newest
// events of one command in memory, which a Recorder writes too.
//
// Invariants:
//
//   - Events of a log are numbered from 1 without holes. The oldest are evicted first.
//   - The number of a log is no other log's, ever.
//   - An exit is in the Store before a reader of the Log sees it, unless Config.Later is set.
//   - A Change of a [Source] is written whole or not at all, after the one before it.
//
// Everything exported is safe for concurrent use, except Change, Event and Page.
package eventlog
