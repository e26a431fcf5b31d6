// Package shell runs commands whose output is durable: every event is in a log before
// anybody sees it, so that a run can be followed from any point, also after its client
// or the server was gone. It knows no wire.
//
// A [Shell] starts commands and knows those that are live. An [eventlog.Recorder] takes what
// the pumps have read of each meanwhile and commits it, and the run passes it on to its
// follower. Runs that have ended are in the log only.
//
// # Invariants
//
//   - Events of a run are numbered from 1 without holes; an exit is the last. What a
//     follower gets has been committed.
//   - What the command itself has printed comes before its exit, however slowly it is
//     taken. What descendants print after that leads nowhere, and does not hold them up.
//   - With a follower, the pipes are read at its pace. Without one the command runs free
//     and its output is in the log, the newest [Config.MaxLogBytes] of it.
//   - GetExec has one live follower a run. One that joins later finds what it has missed in
//     the log, and gets it and what follows without a gap and once. With Follow any number
//     join, who read the log; when the first one leaves, another takes its place, and again
//     when that one does not read while others do.
//   - While the store has no room a run waits, and nothing of it is lost.
//
// # In flight
//
// Of a run whose follower takes nothing, there is in memory at most 256 KiB in at most
// 1,024 events and one read of 64 KiB, besides what the kernel's pipes hold: 64 KiB each,
// 256 KiB if the command prints much. What all followers have read of logs and not given is
// 32 MiB at most, and an event of each beyond that.
//
// # Ends
//
// A Shell that is opened over the log of one that has crashed ends the runs that were
// live then: with exit -1, after the output that was committed. Close ends what runs in
// order, and records how.
package shell
