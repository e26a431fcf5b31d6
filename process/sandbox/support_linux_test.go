package sandbox

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

// listen opens a TCP port on loopback that accepts everybody.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go accept(l)
	return l, l.Addr().String()
}

func listenUnix(t *testing.T, at string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	go accept(l)
	return l
}

func accept(l net.Listener) { // ends with l
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

func launchOf(argv ...string) process.Launch {
	return process.Launch{Path: argv[0], Argv: argv, Dir: "/"}
}

// wantUnavailable checks that err is what process/start answers when the sandbox
// cannot be had, naming what is missing.
func wantUnavailable(t *testing.T, err error, words string) {
	t.Helper()
	failure, ok := errors.AsType[*protocol.Error](err)
	if !ok || failure.Code != protocol.CodeInvalidParams ||
		failure.Data != (protocol.SpawnErrorData{Kind: protocol.KindSandboxUnavailable}) ||
		!strings.Contains(failure.Message, words) {
		t.Errorf("%#v, want sandboxUnavailable with %q", err, words)
	}
}
