package computer

import "time"

// What clients can make a Computer hold or do. Each says what happens beyond it.
const (
	// MaxSessions bounds the sessions of a Computer, those with hosts that it dialled
	// included; the next is refused with status 503.
	MaxSessions = 256
	// MaxBatches bounds the batches that are under way; the next is refused with status
	// 503. BatchReadTimeout bounds how long the body of one may take; it is answered 400.
	MaxBatches       = 16
	BatchReadTimeout = 30 * time.Second
	// MaxIDBytes bounds the id of a run; a longer one is EINVAL.
	MaxIDBytes = 256
	// EventWindow is how many bytes of messages a run can be ahead of who follows it; more
	// wait for the client, and at last the command does.
	EventWindow = 256 << 10

	// MaxConnectBytes bounds the body of /connect, which is refused with 413 above, and
	// MaxConnectURLBytes the URLs made of it, 400.
	MaxConnectBytes    = 16 << 10
	MaxConnectURLBytes = 4 << 10
	// HealthTimeout is how long /connect waits for the host's health by default, and
	// MaxHealthTimeout at most. It asks every HealthInterval; one answer may take
	// HealthTryTimeout.
	HealthTimeout    = 30 * time.Second
	MaxHealthTimeout = 5 * time.Minute
	HealthInterval   = 250 * time.Millisecond
	HealthTryTimeout = 5 * time.Second
	// DialTimeout bounds the WebSocket handshake with the host.
	DialTimeout = 30 * time.Second
)
