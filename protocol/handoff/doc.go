// Package handoff says which goroutine sends, so that a small message wakes no other. It
// moves no bytes itself.
//
// A Sender sends items one at a time. It is idle, or sends at once, on the goroutine that has
// made an item due, or sends in the background:
//
//	         item due                 left: must wait, or more is due
//	idle ───────────────> at once ──────────────────────────────────> background
//	  ^                      │                                             │
//	  └──────────────────────┴──────────── nothing is due ────────────────┘
//
// The outbox of a peer (protocol/rpc), the frames of a relay stream (relay) and the queue for
// a harness (relay/rendezvous) are sent by one.
package handoff
