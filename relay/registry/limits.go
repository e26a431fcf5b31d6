package registry

import "time"

// Sizes, in bytes.
const (
	// MaxResponse bounds the body of a good answer, after decompression. The longest
	// one that makes sense has about 10 KiB.
	MaxResponse = 64 << 10
	// MaxErrorBody is how much of the body of an error is looked at (registry.md,
	// section 1.4). The rest is ignored.
	MaxErrorBody = 4096
	// MaxAuthorization bounds a harness_key_authorization (registry.md, section 1.2).
	MaxAuthorization = 4096
	// MaxToken bounds a token, and a line of the pipe that brings one.
	MaxToken = 16 << 10
	// MaxEnvironmentID bounds an environment id.
	MaxEnvironmentID = 128
	// maxAuthFile bounds the file that `codex login` writes.
	maxAuthFile = 256 << 10
	// maxMessage bounds what an error repeats of a registry's words.
	maxMessage = 512
)

// Time limits of one call, all base URLs together, the body included.
const (
	RegisterTimeout = 10 * time.Second
	ValidateTimeout = 10 * time.Second
	ConnectTimeout  = 6 * time.Second
)

// idleTimeout is how long a connection to a registry is kept for the next call: less
// than servers and proxies keep one, so that no call meets one that is just being closed.
const idleTimeout = 30 * time.Second
