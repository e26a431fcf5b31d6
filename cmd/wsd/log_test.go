package main

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol"
)

// The hint of a run that cannot begin is about runs, not about those that follow one.
func TestHintOfTooManyRuns(t *testing.T) {
	for method, want := range map[string]string{
		protocol.MethodShellExec:    "'wsd kill ID' ends one",
		protocol.MethodShellGetExec: "wait until one of them goes",
	} {
		err := explainRun(&client.Error{Method: method, Name: "EEXEC_BUSY", Message: "256 commands are running, as many as are possible"})
		var out strings.Builder
		report(&out, err)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q", method, &out)
		}
	}
}
