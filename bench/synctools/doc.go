// Command synctools measures `wsd sync` beside rsync, unison and mutagen: the same trees, the
// same changes, each tool in turn, several rounds, medians and ratios.
//
// `make bench-sync` runs it. All of it is local: wsd from a directory to a `wsd serve` over
// loopback, the others from directory to directory. A tool that is not installed is left out.
//
//   - wsd: `wsd sync` once for each change; its server runs all the time.
//   - mutagen: its daemon runs all the time with a session that watches nothing, and each
//     change is brought with `mutagen sync flush`, which looks at all of both sides. So it
//     does not begin while another tool is measured.
//   - unison: `-batch`, with an archive of its own.
//   - rsync: `-a --delete`, which neither hashes nor records.
//
// All tools read one directory and write one each. Processor time and bytes are those of all
// processes of a tool: from wait4 and /proc/PID/io for commands, from /proc for servers, until
// a server is idle again. Memory is the sum of the peaks of all processes of a tool, those of
// rsync and of its children too.
//
// Nothing is deleted before the end, other than by the case that deletes, which comes last: on
// ext4 a new file takes longer for some minutes after many were deleted in the same place. What
// a tool wrote is flushed to the disk before the next one begins.
package main
