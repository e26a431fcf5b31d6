//go:build !linux

package sandbox

import (
	"errors"
	"io"
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/protocol"
)

func runTool([]string, io.Writer) int { return 1 }

func tool(string, []string) error { return errors.ErrUnsupported }

func forever() error { return errors.ErrUnsupported }

func describe(err error) string { return err.Error() }

// Without a sandbox whatever restricts anything is refused, and the rest is served.
func TestOtherSystemsRefuse(t *testing.T) {
	e := enforcer(t, Config{})
	cmd := process.Launch{Path: "/bin/true", Argv: []string{"true"}, Dir: "/"}
	for _, s := range []*protocol.Sandbox{
		policy(at("root", "read")), policy(at("root", "write")), policy(entry("/a", "write"), denyGlob("/a/*")),
	} {
		_, err := e.Confine(t.Context(), s, nil, false, cmd)
		failure, ok := errors.AsType[*protocol.Error](err)
		if !ok || failure.Code != protocol.CodeInvalidParams || failure.Data != (protocol.SpawnErrorData{Kind: protocol.KindSandboxUnavailable}) {
			t.Errorf("Confine: %#v", err)
		}
		if _, err := e.Start(t.Context(), s); err == nil {
			t.Error("a helper was started")
		}
	}
	confined, err := e.Confine(t.Context(), withNetwork(policy(at("root", "write"))), nil, false, cmd)
	if err != nil || confined.Launch.Path != cmd.Path {
		t.Errorf("unrestricted: %+v, %v", confined, err)
	}
	if r := Probe(); r.OK() || r.ReadOnly.Says == "" {
		t.Errorf("report %+v", r)
	}
}
