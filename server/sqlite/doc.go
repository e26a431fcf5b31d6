// Package sqlite is the database of a workspace: one SQLite file, in which the stores that
// other packages declare have their tables: trees and what a directory looked like (fs/tree,
// fs/disk), the log of commands (process/eventlog).
//
// # The file
//
// It is private (0600). A lock file beside it (the name with ".lock") belongs to the one
// process that has the database open; a second one fails at once with [InUseError], which
// names the first. Everybody else goes through that process. The lock is the kernel's and
// ends with the process, however that ends; the file stays.
//
// # Transactions
//
// One connection writes. Its transactions begin with the write lock and run one at a time,
// in the order in which they were asked for. [Config.Readers] others read, beside it: a
// view sees the last commit before its first row. A view that stays open would keep the
// write-ahead log from being taken back, so nothing is ever awaited within one.
//
// # Durability
//
// The log is WAL. With [Normal], a transaction that has been committed survives the death
// of the process, kill -9 at any instant included. A power cut may take the last moments,
// in order: never a part of a transaction, and never an earlier one without the later.
// With [Full] each commit is on the disk before it returns; a peer's cursor commits with
// what it covers, so with either nothing that is lost counts as acknowledged.
//
// The log is moved into the file whenever it has 16 MiB that the file has not. That is done
// on a connection of its own, beside commits: they wait for it only at 32 MiB, and while
// there is no reserve (128 KiB). Once nothing was committed for five seconds, and nobody
// reads, the log is cut to nothing. Commits are as safe meanwhile: before
// the file is written, the log is on the disk. [DB.Shrink] gives the room of what was deleted back to the file
// system.
//
// # Disk cost
//
// A file costs about 400 bytes of rows, a tomb 100 and its path twice. The content of a
// directory's files is not here. Content that is apart from them is in objects beside the
// file ([ObjectsPath], package objects), once for each distinct window of 512 KiB, with a
// row each. The content of a tree without a directory is in the file itself, and costs its
// size and about 1 in 500; once nothing refers to it, it stays until it is collected (two
// hours after it was last asked for, by default).
//
// Commands cost their output, up to 16 MiB of each durable run by default and up to 1 MiB of
// each process of a session, for 30 days after their end: at most 1 GiB of all of them, of
// which the oldest goes first.
package sqlite
