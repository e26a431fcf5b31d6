package rendezvous

import "time"

// Sizes and counts. A peer that passes one is refused or loses its own connection, never
// another's.
const (
	// MaxFrame bounds a WebSocket message; a longer one ends its socket.
	MaxFrame = 262_144
	// MaxStreamID bounds the name of a stream, in bytes; frames with longer ones are dropped.
	MaxStreamID = 1024
	// MaxBody bounds the body of a request to the registry.
	MaxBody = 16 << 10
	// MaxSockets bounds the sockets of a node; others are refused with 503. Of this and of
	// MaxHarnesses, MaxUsedURLs and MaxQueued a token has as much as is left at most: one
	// alone has half.
	MaxSockets = 20_000
	// MaxHarnesses bounds the harness sockets of an environment on a node.
	MaxHarnesses = 1024
	// MaxStreams bounds the streams of one harness socket; a frame that would bind one
	// more is dropped.
	MaxStreams = 32
	// MaxParted bounds how many reliable streams without a socket an executor's socket
	// remembers the owner of; the one that parted first is forgotten.
	MaxParted = 4096
	// MaxQueuedBytes and MaxQueuedFrames bound what waits for a harness that reads
	// slowly. It is more than the window of a reliable stream. One more frame waits for
	// room, at most StallTime.
	MaxQueuedBytes  = 16 << 20
	MaxQueuedFrames = 8192
	// MaxQueued bounds what waits for all harnesses of a node, in bytes of memory. When the
	// harnesses of a token have all that it may have, a queue of more than minQueue counts
	// as full.
	MaxQueued = 512 << 20
	minQueue  = 64 << 10
	// MaxHandshakes is how many handshakes of one token may be under way at an executor at
	// once; more wait.
	MaxHandshakes = 3
	// MaxFailedHandshakes within FailureWindow, and the token pauses in that environment:
	// its handshakes are dropped, and those of its sockets are closed over which no stream
	// was opened. With those under way it stays below the 8 after which codex's executor
	// pauses for everybody.
	MaxFailedHandshakes = 4
	// codexFailures is how many handshakes may fail before codex's executor resets all of
	// them for codexPause (noise-relay.md, section 6), which is not charged to anybody.
	codexFailures = 8
	// MaxUsedURLs bounds the one-time URLs of harnesses that are remembered as used.
	MaxUsedURLs = 131_072
	// MaxAuthorizations bounds the authorizations of a token for an environment that were
	// not used yet, MaxTokenAuthorizations those for all; it gets no more meanwhile.
	MaxAuthorizations      = 1024
	MaxTokenAuthorizations = 8 * MaxAuthorizations
	// MaxRegistrations bounds the environments that executors have registered for with one
	// token: a hundredth of them, those that are away for longest, make room for one more,
	// and if all are attached it is refused.
	MaxRegistrations = 10_000
	// MaxTokens bounds the tokens there are.
	MaxTokens = 10_000
	// MaxNote bounds what is said of a token.
	MaxNote = 256
)

// Times.
const (
	// AuthorizationLife is how long a harness may take from connect to its handshake.
	AuthorizationLife = time.Minute
	// HarnessURLLife is how long a harness may take to open its socket.
	HarnessURLLife = time.Minute
	// ExecutorURLLife is how long an executor's URL is good for; it gets a 401 then, and
	// registers anew.
	ExecutorURLLife = 30 * 24 * time.Hour
	// RegistrationLife is how long an executor may be away and is not forgotten.
	RegistrationLife = 30 * 24 * time.Hour
	// ReturnTime is how long an executor that was cut off keeps its place from others.
	ReturnTime = 15 * time.Second
	// SecretLife is how old the secret that signs URLs becomes; the one before it counts
	// for as long again.
	SecretLife = 30 * 24 * time.Hour
	// Heartbeat is how often a node says that it lives, looks for tokens that were
	// revoked, and compares its sockets with the registrations. NodeLease is how long others believe it.
	Heartbeat = 2 * time.Second
	NodeLease = 6 * time.Second
	// AuditInterval is how often refusals of what has no credential are summed up.
	AuditInterval = time.Minute
	// Sweep is how often what has expired is deleted.
	Sweep = 30 * time.Second
	// StateTimeout bounds each question to the State.
	StateTimeout = 5 * time.Second
	// WriteTimeout is how long a socket may take a frame. A harness whose frames the
	// executor's socket does not take waits for that long.
	WriteTimeout = 20 * time.Second
	// FailureWindow, FirstPause and LongestPause: see MaxFailedHandshakes. A pause is twice
	// as long as the one before, if there was one within LongestPause.
	FailureWindow = 10 * time.Second
	FirstPause    = 10 * time.Second
	LongestPause  = 10 * time.Minute
	// HandshakeWait is how long a handshake may wait for the token's others.
	HandshakeWait = 10 * time.Second
	// AbandonedWait is how long a handshake whose harness has given it up counts as under
	// way, unless the executor answers: what it says of it is still the token's.
	AbandonedWait = time.Second
	codexPause    = 10 * time.Second
	// StallTime is how long the executor's socket may wait for a harness whose queue is
	// full and gets no shorter. If the executor has other harnesses, all of a token's
	// have SharedStallTime together, of which a tenth of the time that passes comes back.
	StallTime       = 20 * time.Second
	SharedStallTime = 500 * time.Millisecond
	// MaxDebt bounds how long a socket is not read because of what passed the other way.
	MaxDebt = 10 * time.Second
	// PingInterval and PongTimeout: who does not answer a ping is gone.
	PingInterval = 30 * time.Second
	PongTimeout  = 60 * time.Second
	// PartedLife is how long a reliable stream without a socket keeps its owner.
	PartedLife = 15 * time.Minute
)
