package executor

import (
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

// What harnesses and the relay can make an executor hold (noise-relay.md, section 6).
const (
	// MaxStreams bounds the streams, those included that wait for the registry's word.
	// One more is reset, unless a reliable stream's harness is silent (relay/arq says
	// when): then the one that was silent for longest makes room. Harnesses that died
	// would otherwise keep others out for as long as their streams live.
	MaxStreams = 128
	// MaxPending bounds the handshakes under way. One more is reset.
	MaxPending = 32
	// MaxFailures is how many handshakes of one connection may fail before only known keys
	// are let in: those that were before, and those that are authorized here by name. One
	// failure is forgiven each ForgiveTime. A relay of ours lets a token fail three times in
	// ten seconds.
	MaxFailures = 64
	ForgiveTime = 125 * time.Millisecond
	// MaxLooks is how many handshakes a second are looked at meanwhile. One more is reset.
	MaxLooks = 64
	// MaxKnown bounds the keys that are remembered because they were let in.
	MaxKnown = 4096
	// MaxAuthorization bounds the payload of message 1, in bytes. A longer one is reset.
	MaxAuthorization = registry.MaxAuthorization
	// MaxControl bounds the resets and handshakes that wait to be written. What a
	// relay provokes beyond it is not sent: it does not read.
	MaxControl = 128
)

// Timers of connections to the relay (noise-relay.md, section 12).
const (
	// DialTimeout bounds an attempt to connect.
	DialTimeout = 10 * time.Second
	// BackoffBase doubles with each wait up to BackoffCeiling; a wait is 0.5 to 1.0 of
	// it. While a relay cannot be reached it doubles up to BackoffAway, for AwayTime, so
	// that all executors are back soon after a relay's restart. A connection after that
	// begins anew, and one that lasted BackoffCleared.
	BackoffBase    = time.Second
	BackoffAway    = 4 * time.Second
	BackoffCeiling = 30 * time.Second
	BackoffCleared = 120 * time.Second
	AwayTime       = 10 * time.Minute
	// RenewAfter is after how many failed attempts with one URL the executor registers
	// again, with another node where there is one.
	RenewAfter = 2
	// ShutdownTimeout bounds how long streams may take to say goodbye.
	ShutdownTimeout = 5 * time.Second
	// WatchInterval is how often an executor looks whether it slept; WatchGap is how
	// much later than that it must be to have slept, and ProbeTimeout how long the relay
	// has then to show that the connection is still one.
	WatchInterval = 5 * time.Second
	WatchGap      = 10 * time.Second
	ProbeTimeout  = 10 * time.Second
)
