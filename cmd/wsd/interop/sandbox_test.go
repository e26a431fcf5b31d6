//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"
)

// exitedDenied is sandboxDenied of the only process.
func exitedDenied(t *testing.T, s *setup) bool {
	t.Helper()
	exits := s.tap.Messages(notices("process/exited"))
	if len(exits) != 1 {
		t.Fatalf("%d process/exited", len(exits))
	}
	var exit struct{ SandboxDenied bool }
	exits[0].Params(t, &exit)
	return exit.SandboxDenied
}

// wantConfined checks that the only process was started with a sandbox, in one.
func wantConfined(t *testing.T, s *setup) {
	t.Helper()
	started := s.tap.Messages(answers("process/start"))
	if len(started) != 1 {
		t.Fatalf("%d process/start", len(started))
	}
	var result struct{ SandboxType string }
	started[0].Params(t, &result)
	if result.SandboxType != "linuxSeccomp" {
		t.Errorf("process/start: %s", started[0].Raw)
	}
}

// The client's read-only mode: reading works, writing does not.
func TestSandboxReadOnly(t *testing.T) {
	s := newSetup(t)
	if err := os.WriteFile(filepath.Join(s.workspace, "readable"), []byte("content\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := newModel(t, shell("cat readable; echo x > written || exit 3"), say())
	a, thread := newAppServer(t, newHome(t, m, "read-only"), s, map[string]any{"sandbox": "read-only"})
	a.turn(thread)
	want(t, m.results(t)[0].Text, "content", "code 3")
	wantNoFile(t, s.workspace, "written")
	wantConfined(t, s)
	if !exitedDenied(t, s) {
		t.Error("sandboxDenied is false")
	}
}

// The client's workspace-write mode: the workspace may be written, its .git and what
// lies outside may not.
func TestSandboxWorkspaceWrite(t *testing.T) {
	s, outside := newSetup(t), tempDir(t)
	if err := os.Mkdir(filepath.Join(s.workspace, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := newModel(t, shell("echo in > inside; echo x > '"+outside+"/written'; echo x > .git/written; echo survived; exit 4"), say())
	a, thread := newAppServer(t, newHome(t, m, "workspace-write"), s, map[string]any{"sandbox": "workspace-write"})
	a.turn(thread)
	want(t, m.results(t)[0].Text, "survived", "code 4")
	wantFile(t, s.workspace, "inside", "in\n")
	wantNoFile(t, outside, "written")
	wantNoFile(t, s.workspace, ".git/written")
	wantConfined(t, s)
	if !exitedDenied(t, s) {
		t.Error("sandboxDenied is false")
	}
}

// A command that the sandbox does not get in the way of ends as it would without.
func TestSandboxUnnoticed(t *testing.T) {
	s := newSetup(t)
	m := newModel(t, shell("echo hello > greeting && cat greeting"), say())
	a, thread := newAppServer(t, newHome(t, m, "workspace-write"), s, map[string]any{"sandbox": "workspace-write"})
	a.turn(thread)
	want(t, m.results(t)[0].Text, "hello", "code 0")
	wantConfined(t, s)
	if exitedDenied(t, s) {
		t.Error("sandboxDenied is true")
	}
	if n := len(s.tap.Messages(requests("process/read"))); n != 0 {
		t.Errorf("%d process/read on a complete stream", n)
	}
}
