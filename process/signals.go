package process

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/protocol"
)

// signalInterrupt is the one signal of the original's wire.
const signalInterrupt = "interrupt"

// parseSignal reads "interrupt", a name with or without SIG, or a number.
func parseSignal(text string) (syscall.Signal, error) {
	if text == signalInterrupt {
		return syscall.SIGINT, nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 || n > maxSignal {
			return 0, unknownSignal(text)
		}
		return syscall.Signal(n), nil
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, unknownSignal(text)
}

func unknownSignal(text string) error {
	if len(text) > 64 {
		text = text[:64]
	}
	return protocol.InvalidParams("unknown signal %q, expected `interrupt`, a number from 1 to %d, or one of %s",
		text, maxSignal, strings.Join(signalNames(), ", "))
}

// signalNames lists the names that parseSignal takes, by number.
func signalNames() []string {
	var names []string
	for n := 1; n <= maxSignal; n++ {
		if name := unix.SignalName(syscall.Signal(n)); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// signalName is such as "SIGTERM"; realtime signals, which have no names of their
// own, are "SIG" and the number.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}
