package shell

import "syscall"

// signals are those that a client may send.
var signals = map[string]syscall.Signal{
	"":        syscall.SIGTERM,
	"SIGTERM": syscall.SIGTERM,
	"SIGKILL": syscall.SIGKILL,
	"SIGINT":  syscall.SIGINT,
	"SIGHUP":  syscall.SIGHUP,
}

// lostCode is the code of a run that could not be started.
const lostCode = -1
