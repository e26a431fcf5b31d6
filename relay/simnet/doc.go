// Package simnet is a network in memory for tests: seeded, with faults on command,
// and made for a bubble of testing/synctest, in which its time costs nothing.
//
// There are two levels:
//
//   - A Network has hosts that listen and dial: streams of bytes with latency, jitter
//     and bandwidth, enough for net/http and WebSockets. A Link is one connection; it
//     can be cut at any byte, one direction can be blocked (the half-dead socket), a
//     host can vanish or refuse.
//   - Carriers joins two ends that exchange whole frames, and Between puts itself
//     between an end and its socket. A Filter sees each frame and says what becomes
//     of it: it is how frames are dropped, repeated, reordered, delayed, changed and
//     forged. A Trace keeps what passed, to be printed when a test fails.
//
// # Determinism
//
// In a bubble, what is due at the same instant runs in any order. So no two
// deliveries are: time is cut into slots of 65,536 ns, and each direction of each
// connection delivers at a place within the slot that is its own. All chance comes
// from the seed and the number of the connection, not from the order in which
// goroutines happen to ask. What remains is up to the program under test: goroutines
// that one delivery wakes run in any order.
//
// Everything is safe for concurrent use. Out of a bubble it works too, in real time.
// Limits: BufferBytes a direction of a stream, CarrierBytes one of a carrier,
// TraceEvents a trace.
package simnet
