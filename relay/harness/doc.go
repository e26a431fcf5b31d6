// Package harness is the end of a relay that wants something of an executor: it finds
// it through the registry, makes certain of its key, opens a stream to it, and keeps
// the stream going.
//
//	New ── Connect ──► registry connect ──► key ──► upgrade ──► handshake ──► a stream
//	                   ▲                                                        │
//	                   │ reliable profile: the socket was lost, or is silent     │
//	                   └─────────── a new socket for the same stream ◄───────────┘
//
// # What a stream survives
//
// In the codex profile a stream ends with its socket, and with an invalid frame of its
// own. Its owner connects again, which makes a new stream, and resumes its session
// there.
//
// In the reliable profile the harness replaces a socket that was lost, or over which
// the executor has been silent: at once, then after 0.1 s and so on up to 5 s, for as
// long as the stream lives (10 minutes). Nothing is lost or repeated, and there is no
// new handshake: the authorization that comes with the new socket is not used. Only if
// the executor does not know the stream any more does it end. Which profile a stream
// has is bound into the handshake, and asked for once: one that is not granted fails.
//
// # What is for good
//
// Permanent tells errors that another attempt does not mend from those that may pass.
// A registry that refuses (any status but 408, 429, 5xx and 409 environment_offline),
// an executor whose key is not trusted or is another one than before, one whose
// credentials the registry rejects, and a profile that is not granted are for good: a
// stream that lacks its socket ends at once then. The key counts even where there is no
// handshake: an executor with another one cannot have the stream.
//
// A connection has one goroutine, besides those of its stream and socket: it replaces the
// socket, and reads it while nobody waits for a message, who otherwise does so
// (docs/decisions/0012). Close ends it and waits. Limits and times are in limits.go.
package harness
