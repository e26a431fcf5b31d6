package process

import (
	"errors"
	"syscall"

	"github.com/wsd-dev/wsd/protocol"
)

// maxBlameBytes bounds what a message repeats of a request.
const maxBlameBytes = 1024

// spawnFailed is the error for a start that the system refused. what names the
// directory, the program or the step that is to blame.
func spawnFailed(what string, err error, hint string) *protocol.Error {
	text, kind := err.Error(), protocol.KindSpawnFailed
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		text, kind = systemText(errno), spawnKind(errno)
	}
	if len(what) > maxBlameBytes {
		what = what[:maxBlameBytes] + "…"
	}
	message := what + ": " + text
	if hint != "" {
		message += ": " + hint
	}
	return &protocol.Error{Code: protocol.CodeInternal, Message: message, Data: protocol.SpawnErrorData{Kind: kind}}
}

func spawnKind(errno syscall.Errno) string {
	switch errno {
	case syscall.ENOENT:
		return protocol.KindSpawnNotFound
	case syscall.EACCES, syscall.EPERM:
		return protocol.KindSpawnPermissionDenied
	default:
		return protocol.KindSpawnFailed
	}
}
