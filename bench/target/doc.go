// Package target starts the servers that the benchmarks, the endurance tests and
// the tests with the real client look at from outside: wsd, and the codex
// exec-server it is compared with. It also reads what a server costs from /proc,
// so that measuring needs nothing of the server.
//
// A Server's methods are safe for concurrent use. What it leaves behind when it
// stops (children that live on) is for the caller to look for.
package target
