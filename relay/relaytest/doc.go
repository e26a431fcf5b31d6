// Package relaytest tests the relay as a whole: executor, harness and what stands in
// between, over a simulated network, mostly in bubbles of testing/synctest. It has
// tests only.
//
//   - world_test.go: the real rendezvous, executors and harnesses on a simnet.Network,
//     over HTTP and WebSockets. What is on it can be cut, blocked and restarted.
//   - middle_test.go: executor and harness with somebody hostile in between, who has
//     every frame in his hands.
//   - seeds_test.go: runs with faults by chance. A failure prints its seed and the trace
//     of frames; `go test ./relay/relaytest -run TestSeeds -relay.seed N` runs it again,
//     -relay.seeds N runs more of them.
//   - plaintext_test.go: all that the relay routes is searched for what it must not show.
//     The memory of the real program is searched by a test of cmd/wsd.
package relaytest
