// Package interop drives a server with the real codex client, end to end: a stand-in
// for the model decides what the client does, and a tap between client and server
// sees every message and can drop, change, cut and refuse.
//
// It has tests only, behind the build tag interop, run by `make interop`. They look at
// the wsd that WSD_BIN names (else one they build), with the client that CODEX_BIN
// names. WSD_INTEROP_TARGET=codex puts the original server in wsd's place: that is how
// the tests themselves are checked.
package interop
