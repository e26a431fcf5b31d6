// Package soak lets programs write on both sides of a running synchronisation at random,
// while its two ends are killed, stopped and cut off from each other and their disks are full,
// and checks in the end that each value that was ever written is accounted for. `make e2e` runs
// it for a minute, `make soak` for ten.
package soak
