// Command relay measures wsd's relay: what a command and its output cost through it,
// beside a direct WebSocket to the same executor and beside the real codex executor over
// the same relay, in one run, each in turn.
//
//	relay --wsd bin/wsd --codex node_modules/.bin/codex [--rounds 5] [--only REGEXP] [--json]
//
// All ways get the same client and the same requests, byte for byte; the client is this
// process, and the executor's and the relay's processor time is read from /proc. Figures
// are the median of the rounds' medians. Then it attaches idle executors to a relay of
// their own, and runs 1 to 128 streams to one executor: the curve of what a stream costs.
//
// codex may be left out. It exits with 1 if it could not measure, not if a figure misses
// what is wanted of it: the table says so.
package main
