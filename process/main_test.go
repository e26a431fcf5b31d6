package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// helperVar names what this test binary does instead of its tests.
const helperVar = "WSD_PROCESS_TEST_HELPER"

// helpers are programs of their own, for what a test cannot do to its own process.
// What they return is printed by main; a fault ends them with status 1.
var helpers = map[string]func() error{}

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVar); name != "" {
		if err := helpers[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// helper is a command that runs a helper.
func helper(t *testing.T, name string, wrap ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := append(wrap, self)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), helperVar+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// runHelper runs a helper to its end and returns what it printed.
func runHelper(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.String())
	}
	return string(out)
}
