package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	hasX32    = false
)

// metadataRefusedArch is empty: this machine has no older forms of metadataRefused.
var metadataRefusedArch []uint32
