package process

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigaction is the kernel's struct sigaction, of both processors we build for.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// Handlers that are none, of signal(7).
const (
	sigDefault = 0
	sigIgnore  = 1
)

// unignoreOthers gives the default action to signals that are ignored and that the
// Go runtime neither handles nor lets a program handle. GNU make, for one, starts
// its children with signals 32 and 33 ignored.
func unignoreOthers() {
	for sig := 1; sig <= maxSignal; sig++ {
		if sig == int(syscall.SIGHUP) || sig == int(syscall.SIGINT) {
			continue // unignore sees to them
		}
		var act sigaction
		if rtSigaction(sig, nil, &act) != 0 || act.handler != sigIgnore {
			continue
		}
		_ = rtSigaction(sig, &sigaction{handler: sigDefault}, nil) // of no use to know
	}
}

func rtSigaction(sig int, set, old *sigaction) syscall.Errno {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(set.mask), 0, 0)
	return errno
}
