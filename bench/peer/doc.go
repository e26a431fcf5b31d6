// Command peer measures wsd beside the real codex exec-server, in one run, and
// prints medians, ratios and what the machine itself needs to spawn a program.
//
// Both servers get the same client, package raw, the same requests, byte for byte,
// and their turns alternate, so that what else the machine does meets both.
// Processor time is read from /proc, which noise hardly moves. Figures are the median
// of the rounds' medians; processor time is the total over the rounds.
//
//	peer --wsd bin/wsd --codex node_modules/.bin/codex [--rounds 5] [--only REGEXP] [--json]
//
// Either program may be left out. It exits with 1 if it could not measure, not if a
// figure misses what is wanted of it: that is for the reader, and the table says so.
package main
