// Package tree is the durable filesystem: directories, files and links with revisions,
// content as chunks by their hashes, and a change stream from which a peer learns what it
// has missed. Synchronisation and the workspace are two views of it; nothing is ever
// copied between them. It does no input or output: rows are kept by a [Store], in memory
// ([NewMemory]) or in a database (package server/sqlite), and content that is not in rows by
// a [Home] (package fs/disk). It knows no wire.
//
// # What there is
//
// A [Forest] is what is in one store: trees by name, and the chunks that they share. A
// [Tree] is read by its methods, each of which sees one moment, and changed in
// [Tree.Update], whose changes are kept together or not at all. Content comes first, by
// [Forest.PutChunks] or [Forest.Stage], and is then referred to: a file is never half
// written. Updates run one at a time, in the order they came; reading waits for none.
//
// # Revisions
//
// A tree counts revisions. Each changing call of an [Edit] takes one, for all that it
// changes: the directories that it makes on the way, or all that it removes. The revision
// of a path is the greatest among that of its node and those of the names on the way to
// it, so that a moved directory is one changed row and yet all of it is news. A new tree's
// first revision is above any that an earlier store of the same name can have had, so a
// peer with an old cursor misses nothing; the root's is 0 until something touches it.
//
// Removed paths leave tombs. Those of a moved directory are written when they are first
// needed, see moves.go.
//
// A [Cursor] is a place in the stream of changes: [Tree.Changes] lists each path once, by
// revision and then by path in the order of UTF-16, in the state that it has when it is
// read. Peers' cursors are rows too ([Edit.SetPeer]), stored by the edit that applies what
// they cover.
//
// # Invariants
//
// [Forest.Check] reads everything and holds it against these:
//
//  1. The root of a tree is a directory without a name. Every other node has as many names
//     as it says, a directory exactly one.
//  2. Names join nodes of their own tree, their parents are directories, and there is no
//     cycle.
//  3. A file consists of windows of [ChunkSize] bytes, numbered from 0, of which only the
//     last may be shorter; they add up to its size and hash to its manifest, and each
//     names a chunk that is there. A window of the Home's tree needs no chunk: its content
//     may be in a file of the directory. A stub has none.
//  4. No row has a revision above its tree's, and no peer one of ours above it.
//  5. A tree's counts are those of its nodes.
//  6. A chunk says that its bytes are in the store exactly when they are, all of them.
//     Whether those of an object are there is for [Forest.Verify] to find out.
//
// # Garbage
//
// Chunks that no file names go by [Forest.Collect], never between the moment a peer was
// told that they are here, or sent them, and the edit that refers to them. That does not
// hold for what only a file of the Home has: when the file changes, its content is gone.
// Collect also deletes the chunks of files that the Home has as they should be, and writes
// objects anew that are mostly unused.
//
// # Limits
//
// Paths have 4,096 bytes, names 255, targets of links 4,096; 40 links are followed;
// revisions end at 2^53-1. A pattern has 4,096 bytes, 1,024 alternatives and 100,000
// matches; a diff has 10,000 lines on each side. Memory is bounded by a few chunks while
// content is read or staged; a change stream keeps its list of paths, and removing a
// directory a row for each path below it.
package tree
