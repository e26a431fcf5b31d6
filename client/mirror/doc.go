// Package mirror is the host's role of a synchronisation: it keeps a tree of this machine,
// with or without a directory, in step with a remote end, over any changes.Peer.
//
// # What it does
//
// Push sends what changed here since the remote was last known to have it, in blocks:
// content first, then the entries that name it. Pull applies what changed there. Tick is a
// pull and then a push, so that what is there comes first; Sync repeats it until nothing
// moves. Cursors are stored together with what they cover, so that after a crash, or a cut
// at any point, the next call goes on where the last one was.
//
// # Whose change it is
//
// Both ends list what they were sent among their own changes. The mirror keeps, beside its
// cursors, which revisions here came from there (they are not sent back), and which there
// came from here (they are not fetched). What is left and has changed on both sides since
// they last agreed is a Conflict: it is reported with both versions, and a Policy decides.
// The version that loses is kept (package lost).
//
// A version that was written at the very moment at which one of the other side took its
// place is such a change as well. Package fs/disk keeps one that was here, and Pull decides.
// The answer to a push names one of the remote's, or changes.Peer.Lost lists it, and the
// mirror gives it back.
//
// # What is left out
//
// Paths that a disk and its tree do not have in common, since they could not be written or
// read, or no tree can have them, hold up nothing else. Result.Here and Result.There name
// them as long as that is so. The time of a file that is the same otherwise comes over
// without being a conflict.
//
// # Names that are not UTF-8
//
// Paths have the form of package rawname, in which a name may stand for any bytes. A remote that
// does not know it (changes.Watermarks.AnyNames) gets no name that is not UTF-8, and no link to
// such: they are ignored, and named in Result.Here. Once it knows it, they are compared.
//
// # When a store was lost
//
// Connect compares cursors with the remote's. If that has forgotten what it was sent,
// everything is sent again; if it is behind what was fetched, everything is fetched again.
// What the lost store had acknowledged counts as agreed: where the two differ the newer
// one stays, and it is reported.
//
// # Several hosts
//
// A remote has one cursor for all that is pushed to it, the greatest. Any number of hosts
// can use one as long as its store is not lost; after a loss the first to come sends all it
// has, and the others what changes from then on.
package mirror
