package shell

import (
	"syscall"

	"github.com/wsd-dev/wsd/process"
)

// signals are those that a client may send.
var signals = map[string]syscall.Signal{
	"":        syscall.SIGTERM,
	"SIGTERM": syscall.SIGTERM,
	"SIGKILL": syscall.SIGKILL,
	"SIGINT":  syscall.SIGINT,
	"SIGHUP":  syscall.SIGHUP,
}

// lostCode is the code of a run that could not be started, or whose end nobody saw.
const lostCode = -1

// exitCode is what an exit event says: the status, or 128 and the number of the signal.
func exitCode(status process.WaitStatus) int {
	switch {
	case status.Lost:
		return lostCode
	case status.Signal != 0:
		return 128 + int(status.Signal)
	default:
		return status.Code
	}
}
