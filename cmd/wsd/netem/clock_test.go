//go:build e2e && linux

package netem

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// jumps makes a wall clock that is right for ten seconds, then an hour fast, right, an
// hour slow, and so on, in time.Now itself: there is no other way to a wrong clock that
// would leave the machine's alone.
const (
	rightClock = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {"
	jumps      = `	sec, nsec, mono := runtimeNow()
	switch (mono - startNano) / 1e9 / 10 % 4 {
	case 1:
		sec += 3600
	case 3:
		sec -= 3600
	}
	if mono == 0 {`
)

// buildJumping builds a wsd for which the wall clock jumps.
func buildJumping(ctx context.Context, t *testing.T) string {
	t.Helper()
	root, err := target.Root()
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, original := t.TempDir(), filepath.Join(strings.TrimSpace(string(goroot)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), rightClock) {
		t.Fatalf("time.Now of %s is not what it was: this test must follow", runtime.Version())
	}
	changed := filepath.Join(dir, "time.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), rightClock, jumps, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "wsd")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-overlay", file, "-o", program, "./cmd/wsd")
	build.Dir = root
	build.Env = append(build.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// Relay, executor and client have wall clocks that jump by an hour, each at times of
// its own: nothing is measured by them, so no connection ends for it.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	w := newWorld(t, 9, buildJumping(ctx, t))
	for _, s := range []*site{w.executor, w.client} {
		w.wire.setWeather(s.port, far)
	}
	scenario(t, w, nil, 45*time.Second)
	if n := w.connections(); n != 1 {
		t.Errorf("the executor connected %d times", n)
	}
	if n := strings.Count(w.executorLog.String(), `msg="stream opened"`); n != 2 {
		t.Errorf("%d streams were opened, want one for the shell and one for the copy", n)
	}
}
