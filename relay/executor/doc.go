// Package executor is the end of a relay that harnesses come to: it registers, waits at
// the rendezvous, lets harnesses in that the registry knows, and gives each of their
// streams, as an rpc.Connection, to the function that serves it.
//
//	        register ◄────────────── refused with 4xx, or failed twice
//	           ▼                               │
//	┌───► connect ─────────────────────────────┤
//	│          ▼                               │ failed
//	│        serve                             │
//	│          │ lost                          │
//	└────── wait ◄─────────────────────────────┘
//
// Waits double from 1 s to 30 s and are 0.5 to 1.0 of that by chance; only a connection
// of two minutes begins anew.
//
// # When Run ends
//
// The first registration is asked for again only while the registry says that it cannot
// decide (503 registration_conflict, 502 authentication_service_unavailable); all else
// ends Run, as it ends codex. Later, and this is ours, an executor also bears with a
// registry that is away, answers 408, 429 or 5xx: a relay that restarts, or a node that
// is lost, must not end its executors. With several base URLs it registers with the next
// node. Any other refusal ends Run at any time: 401 and 403 for a credential that was
// revoked, 409 for an environment id that somebody else has now.
//
// # Streams
//
//	unknown ── handshake ──► pending ── registry: valid ──► stream ──► ended
//	                            │ anything else: reset
//	                            ▼
//	                         unknown
//
// A connection's reader hands each frame to its stream and never waits: what would have to
// has another goroutine read on first. Handshakes run
// beside it. A stream is in the table before message 2 leaves. Streams of the codex
// profile end with the connection; reliable ones lose it, and go on over the next. Ids
// are the harness's and may come again: an instance, not an id, is what a late answer
// belongs to.
//
// A frame that is invalid is dropped. One for a stream that is not there is answered
// with a reset if it is data, or a resume of a reliable stream that had a socket before.
//
// # Owners
//
// Run owns everything, and returns when all has ended. A connection has three
// goroutines: one reads, and runs what is quick of the requests that it reads
// (docs/decisions/0012), one writes what the executor says for itself (resets and
// handshakes; streams write their own frames), one notices that the machine slept and
// asks the relay for a sign of life. Limits are in limits.go; nothing that a harness or
// the relay does makes an executor hold more.
package executor
