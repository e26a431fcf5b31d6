// Package atomicfile replaces the content of files so that a reader, a failure or a
// crash sees the old content or the new, never a mix.
//
// Resolve finds the directory entry that a path, through its links, stands for. A
// Stage collects new content beside that entry, in a file without a name where the
// system has those (Linux), so that not even a crash leaves one behind; elsewhere
// under a short name of its own, whatever the length of the target's. Commit gives
// the content the mode, owner and extended attributes of the file it replaces and
// renames it into place. Nothing is flushed to the medium.
//
// A file that has several hard links becomes a file of its own under the name that
// was written; the others keep the old content.
//
// Where a rename cannot do it, the existing file is written in place, and a failure
// can leave it damaged: its directory is not writable, its owner cannot be kept, it
// is a mount point, or it is a device.
//
// A Target or Stage is for one goroutine at a time, except that Stage.WriteAt may run
// beside itself.
package atomicfile
