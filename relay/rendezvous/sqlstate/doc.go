// Package sqlstate keeps the state of a relay in one SQLite file: what a relay on
// its own needs, with nothing beside it to run.
//
// The file (0600, in a directory 0700 where the package makes it) is in WAL mode, and
// several processes may have it open: a running relay, and beside it a command that
// makes a token. One connection of a process writes, in transactions that take the
// write lock as they begin and wait up to [BusyTimeout] for it; a few others read, and
// never wait for a writer.
//
// # Revisions
//
// A revision is a number of one counter for the whole file. It only grows, so an entry
// that is deleted and made again never has a revision it had before.
//
// # Durability
//
// What a person made and would miss (tokens, the relay's secrets) is written with
// synchronous=FULL: on disk before the call returns. What the relay notes by itself
// (registrations, authorizations, heartbeats) is written with synchronous=NORMAL: a
// crash of the process loses none of it, a power cut may lose the last moments, and
// after a power cut every socket that those entries speak of is gone as well. Neither
// can damage the file. An authorization whose consumption is lost in this way is still
// bound to one registration, to one harness key and to its expiry.
//
// A [State] is safe for concurrent use.
package sqlstate
