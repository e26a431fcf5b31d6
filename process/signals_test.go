package process

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
)

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"interrupt": syscall.SIGINT, "SIGTERM": syscall.SIGTERM, "TERM": syscall.SIGTERM, "hup": syscall.SIGHUP,
		"SigUsr1": syscall.SIGUSR1, "15": syscall.SIGTERM, "1": syscall.SIGHUP,
	} {
		if got, err := parseSignal(text); err != nil || got != want {
			t.Errorf("parseSignal(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "65", "99999999999999999999", "zz", "Interrupt", "SIG", "SIGSIGTERM", strings.Repeat("x", 1000)} {
		got, err := parseSignal(text)
		failure, ok := errors.AsType[*protocol.Error](err)
		if !ok || failure.Code != protocol.CodeInvalidParams || !strings.Contains(failure.Message, "SIGKILL") || !strings.Contains(failure.Message, "interrupt") {
			t.Errorf("parseSignal(%q) = %v, %v", text, got, err)
		} else if len(failure.Message) > 1000 {
			t.Errorf("message has %d bytes", len(failure.Message))
		}
	}
}

func TestSignalName(t *testing.T) {
	for sig, want := range map[syscall.Signal]string{9: "SIGKILL", 15: "SIGTERM", 34: "SIG34"} {
		if got := signalName(sig); got != want {
			t.Errorf("signalName(%d) = %q", sig, got)
		}
	}
	// Every name that is accepted is the name of the signal it stands for.
	for _, name := range signalNames() {
		if sig, err := parseSignal(name); err != nil || signalName(sig) != name {
			t.Errorf("parseSignal(%q) = %v, %v", name, sig, err)
		}
	}
}
