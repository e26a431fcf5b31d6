// Command workspace measures `wsd serve --workspace` from outside, over JSON-RPC with the
// Go client: content and entries each way, commands, a whole source tree beside rsync,
// single changes among many, and what a change costs as the tree grows.
//
// `make bench-workspace` runs it. It prints the figures of the reference daemon with its own
// client, on two quiet cores, beside those that they compare with.
//
// A new file is what a pushed entry costs most, and on ext4 that is up to twenty times
// slower for some minutes after many files were deleted in the same place: the kernel does
// not use an inode again so soon, and looks at each that it must not use, for every file.
// So nothing that is made here is deleted before the end; a second run in the same place is
// slower unless it waits for five minutes, or is given another file system with --dir. What
// the files alone cost is measured, too, and printed beside the entries.
package main
