package harness

import (
	"time"

	"github.com/wsd-dev/wsd/relay/registry"
)

const (
	// HandshakeTimeout bounds a handshake, once the socket is there (noise-relay.md,
	// section 12).
	HandshakeTimeout = 10 * time.Second
	// DialTimeout bounds the making of a socket (noise-relay.md, section 10).
	DialTimeout = 10 * time.Second
	// FirstRetries is how often the registry is asked again for the first stream
	// (registry.md, section 3).
	FirstRetries = 4
	// RecoveryTime is how long a later Connect goes on trying (noise-relay.md, section 12).
	RecoveryTime = 45 * time.Second
	// ConnectTime is enough for every Connect: RecoveryTime, and then one more try of
	// registry, socket and handshake.
	ConnectTime = RecoveryTime + registry.ConnectTimeout + DialTimeout + HandshakeTimeout
)

const (
	// A lost socket is replaced at once, then after replaceMin, doubling to replaceMax,
	// each varied by up to half. One that lived for settled is replaced at once again, one
	// that at least carried something after replaceMin.
	replaceMin = 100 * time.Millisecond
	replaceMax = 5 * time.Second
	settled    = 2 * time.Second

	// takeOver is that of handoff.ReaderConfig.
	takeOver = 10 * time.Millisecond

	// maxGraves bounds the streams whose end the executor is still to be told; the
	// oldest is forgotten.
	maxGraves = 16
)
