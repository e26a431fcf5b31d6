// Package disk keeps a directory in step with a tree (package fs/tree): commands work in
// the directory at native speed, peers exchange changes with the tree.
//
// A [Workspace] stands between the two. [Workspace.Settle] brings what commands have
// changed into the tree; [Workspace.Apply] brings entries into the tree and from there to
// the directory. The path Mount of the tree stands for the directory; what is beside it is
// in the tree only. Nobody else changes what the tree has below Mount.
//
// # What has changed
//
// An index says what every path looked like when tree and directory had the same: device
// (relative to that of the directory, whose number changes with a reboot), inode, size,
// mode, mtime, ctime, time of birth. It is kept in the transactions of the tree ([Rows])
// and in memory (about 180 bytes a path). A path that looks the same is the same; only
// others are read and hashed, several at a time, before the transactions that store them,
// of at most 8,000 paths each. Their content is not copied: it stays in the directory, and
// the tree has the hashes of its windows of 512 KiB.
//
// With Watch, Linux tells what happens in each directory, and a settle looks at those names
// only. It misses nothing that was done before it: the kernel queues an event before the
// call that causes it returns, and the queue is emptied first (watch.Sub.Sync). All of the
// directory is looked at, in parallel, without Watch, at the start, when events were lost or
// something was unmounted, after an error, and always where watching is no use: when the
// limit of watches is reached, on network file systems and FUSE, on other systems than
// Linux. That is logged.
//
// What nobody tells of is looked at each time: files that have several names, since an
// event is of the one name that was used, and what was left over the last time (below).
//
// # Outcomes
//
//   - A change of the mode alone is a change (files and directories, the bits 07777). So is
//     one of a file's mtime alone; that of a directory means nothing. Since the ctime tells
//     of both, and of much else, the file is read, and found to be the same.
//   - A renamed file is known by inode, size, mtime and time of birth, and is not read. A
//     renamed directory is one change of the tree, unless it took the place of another one,
//     which is told of path by path. Where a file system does not know times of birth, what
//     was renamed is read.
//   - A file that is written while it is read is read again, three times at most. Then the
//     last reading counts, whose hashes are those of its bytes, and the file is looked at
//     again by the next settle.
//   - A file whose mtime or ctime is no older than the clock's tick (20 ms; 2 s where times
//     are whole seconds) when it is read may change again without another time to show for
//     it: the next settle reads it again, as git does.
//   - What is written through a mapping shows when the file is closed and the mapping gone:
//     then it is read, even if its times are the same. (Without Watch the times decide.)
//   - Names of one file are independent files with the same content.
//   - Names and targets of links that are not UTF-8 are in the tree as package rawname writes
//     them. [Workspace.NotUTF8] names them, for ends that do not know such.
//   - Paths, and targets of links, of more than 4,096 bytes are left out, as are targets that are
//     blank, and fifos, sockets and devices, which are never opened.
//     [Workspace.Skipped] names them, and there is one warning for each reason. In the place of a file, a
//     directory or a link they are no removal: the tree keeps what it has there until they are gone.
//   - What we have no right to read stays as it was known, is named, and looked at again by
//     each settle. A changed mode of such a file is taken.
//   - A directory that becomes a link while it is looked at is not followed: everything is
//     opened from the directory above it, one name at a time and never through a link.
//   - Without the directory itself Settle and Apply fail with [ErrNoDirectory] and the tree
//     stays as it is, also with an empty one in the place of another that was not: a file
//     system that was unmounted leaves that. A directory with files that appears in its place
//     is the workspace, and what it does not have is deleted from the tree. When Open finds
//     an empty one in the place of another that was not, it fails with ErrNoDirectory, unless
//     the store and the objects have all of the content. Then, and for a tree that never had a
//     directory, it gets what the tree has: it is a new disk, not a command's doing.
//   - What is mounted below the directory hides what the tree has, which is deleted from it.
//     That shows when all of the directory is looked at, since nobody tells. What is unmounted
//     is deleted as well, and what it has hidden is new: Linux tells once the file system is
//     mounted nowhere any more, in no other mount namespace either.
//
// # Applying
//
// Apply settles first. One transaction then has the entries, what the caller adds, and a
// journal of the paths that the directory is to have. After that the paths are brought to
// the directory: an object that is all of a file's content, and that no other path needs,
// becomes the file by a rename. Other content is written under a name of ours beside its place
// (.wsd-tmp-0123456789abcdef, which no settle sees) and renamed when it is whole. So it is
// too where the file would get a group or an access control list from its directory, and where
// objects are on another file system. When
// all is there the rows of the journal go, in one transaction with the index. Whatever
// happens before, a crash included, the next Settle, Apply or Open does the rest; if it was
// an error, Apply returns a [changes.PendingError].
//
// A file that an entry of the batch removes, and whose content another one wants, is moved to the
// objects first and becomes the file there: so a renamed file is renamed. One that a command has
// changed meanwhile goes along as it is, and the next settle finds it at its new path. Content that
// only files have that stay is copied, up to 4 MiB within the transaction, more before it.
//
// A path that cannot be brought (somebody else's directory, or a fifo, is in the way, something is
// mounted there, the disk has no room for it, or fails) holds up nothing but itself: the Apply
// that wanted it returns a PendingError, and every later call tries again, unless the disk has room
// for no file at all. The file that stands there meanwhile is no news. A directory above it that is
// removed is made again. Once something did not fit in a call, a file that is larger than what is free is not begun.
//
// A file that a command changes after the settle, or while a journal waits for the next
// start, is found: names are exchanged, not replaced (renameat2), so that what was there comes
// out and is compared with what should have been there. That version is kept (package lost)
// before its file goes, Applied.Overtaken names it, and the entry, which came last, stays in
// the directory. While somebody has the file open for writing, it waits under a name of ours
// (.wsd-out-0123456789abcdef-NAME), and is kept once it is closed. A start that finds such a
// name does the same. A + in the place of the last hyphen says that nobody has settled the
// version: then that the store has its content says nothing. A removed file stays open for
// 20 ms more (at most 64 files, of 16 MiB together; none on NFS or FUSE), so that what a program writes that had
// looked its name up before, and opens it only then, is kept as well.
//
// A file that somebody has open for writing when it is read may change without a trace, until
// it is closed. Its content is compared with the tree's hash before it goes.
//
// An entry removes what the index knows as it is, and nothing else: a file that a command has
// changed or made since, and what no tree can have, stays with the directories that it is in,
// and Applied.Kept names it. Such a directory is news if there is something in it that a tree can
// have. Where something else is to be in its place, it gets the name NAME.conflict-12345678.
//
// An entry for Mount itself sets the directory's mode; its deletion empties the directory.
// Files and links cannot take its place. A file that is
// replaced keeps its owner, group, access control list and extended attributes as far as we may
// give them; Applied.Disowned names those of which we may not. Directories and files
// whose modes keep us out, or from changing what is in them, and that are ours, are opened up
// for as long as it takes. The journal has them before that, so that a crash changes no mode.
//
// With Config.Sync the file system is synced before the rows of the journal go. Without, a
// power cut may take the last moments of files that the store has already: they then look
// changed. (The death of the process takes nothing in either case.)
//
// # Cost
//
// Content is on the disk once, in the directory. Beside it are objects with what has no place
// there: versions that were lost, paths beside the mount, files whose mode keeps us from reading
// them back, and what arrives until it is a file. The index has about 100 bytes a path in the store. A directory takes one watch
// of the system's (fs.inotify.max_user_watches), about 1 KiB of the kernel's memory.
//
// On two cores that others were using, too (8 to 14 runnable processes; the processors'
// time is in brackets), tmpfs:
//
//	settle, nothing changed, 15,000 files, watched      7 to 19 µs (7 µs)
//	settle, nothing changed, 15,000 files, not watched  62 to 120 ms (52 to 72 ms)
//	git status of the same                              65 to 235 ms (56 to 64 ms)
//	one changed file among 5,000, watched               0.6 ms
//	one changed file among 50,000, watched              0.5 ms
//	one byte of a file of 256 MB                        0.7 s, one new chunk
//	apply 15,000 new files of 6 KB                      2.0 s (2.0 s, of which the tree's update 0.6 s)
//	settle 100,000 new files: 51 MiB of heap at most, 19 MiB kept
//
// On ext4 of the same machine, as busy, to apply those 15,000 files took 12 to 23 s (4 to 12
// s), and to create and rename as many with nothing else 10 to 17 s (7 to 10 s): making
// the files is what takes the time, seven calls of the system for a small one that is new.
// What a quiet machine does has not been measured.
package disk
