// Command workspace measures `wsd serve --workspace` from outside, over JSON-RPC with the
// Go client: content and entries each way, commands, a whole source tree beside rsync,
// single changes among many, and what a change costs as the tree grows.
//
// `make bench-sync` runs it. What the reference daemon reaches with its own client on two
// quiet cores is printed beside the figures that it has.
package main
