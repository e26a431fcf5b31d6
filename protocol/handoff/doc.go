// Package handoff says which goroutine sends and which one reads, so that a small message
// wakes no other. It moves no bytes itself. docs/decisions 0010 to 0012 say what that is worth.
//
// # Who sends
//
// A Sender sends items one at a time. It is idle, or sends at once, on the goroutine that has
// made an item due, or sends in the background:
//
//	         item due                 left: must wait, or more is due
//	idle ───────────────> at once ──────────────────────────────────> background
//	  ^                      │                                             │
//	  └──────────────────────┴───────────── nothing is due ────────────────┘
//
// One sends the outbox of a peer (protocol/rpc), the frames of a relay stream (relay), what
// waits for a harness (relay/rendezvous) and the input of a child (process).
//
// # Who reads a socket of many streams
//
// An executor's socket is read by one goroutine, which has a Turn. It gives each message to
// the peer of its stream, and runs its handler if that is quick. A handler that waits or turns
// out slow hands the Turn off:
//
//	         message                       handler returns
//	held ───────────────> held, handling ───────────────────> held
//	                             │ HandOff
//	                             v
//	                          passed: another goroutine reads, with a Turn of its own
//
// The goroutine of a peer that reads its own connection has a Turn, too, which is not shared.
//
// # Who reads a socket of one stream
//
// A harness's socket is read by a Reader: by the caller that waits for a message, or else by
// the keeper, the goroutine of Serve.
//
//	         a caller of Read waits
//	nobody ──────────────────────────────> waiter
//	 ^ │ ^            a frame has come        │
//	 │ │ └────────────────────────────────────┘
//	 │ │ nobody has read for TakeOver, or the context of a caller can end
//	 │ └─────────────────────────────────> keeper
//	 │  a message for a waiting caller        │
//	 └────────────────────────────────────────┘
package handoff
