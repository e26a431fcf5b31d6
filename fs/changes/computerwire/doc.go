// Package computerwire is the form that synchronisation and runs have between Cloudflare's
// computer and its clients: plain structs for package capnweb, and what makes them of
// entries, cursors and objects and back. Both ends use it.
//
// Hashes are bytes here, times milliseconds, a cursor behind all of a revision has the
// path null. What a peer leaves out it may also send as undefined, or null.
package computerwire
