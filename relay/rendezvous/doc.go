// Package rendezvous is what a relay is: a registry, where executors say where they are
// and harnesses ask, and a rendezvous, which passes frames between them. It sees who
// speaks to whom, when and how much; it holds no key of theirs and can read nothing.
//
//	http.go       who may ask what; register.go: register, connect, validate
//	sign.go       URLs of sockets, signed, since the peers send no credential with them
//	upgrade.go    sockets come in; executor.go: where frames go; harness.go: a queue each
//	token.go      who may come in; quota.go: how much
//	state.go      what nodes share; record.go: what of it is what
//	node.go       heartbeats, revocation, draining; sweep.go; status.go; audit.go
//
// A stream belongs to the socket over which its first frame came. In the codex profile it
// ends with it, and the executor is told; in the reliable profile its owner, token and
// key, may bring it back over another socket, and nobody else.
//
// Nodes that share a State are one relay. A registration says which node has the
// executor's socket, and connect sends harnesses there. A node whose heartbeat is older
// than NodeLease is dead, and so are its attachments: executors come back by themselves,
// anywhere.
//
// Goroutines: one a socket, which ends with it, and one while frames wait for a harness.
// Drain waits for all of them. Node is safe for concurrent use. Limits and timers are in
// limits.go.
package rendezvous
