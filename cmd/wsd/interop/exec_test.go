//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/bench/target"
)

// A command that says where it ran.
const whereAmI = `echo "parent: $(tr '\0' ' ' < /proc/$PPID/cmdline)"; echo done > made`

// shell has the client run a command and wait for it.
func shell(cmd string) step {
	return call("exec_command", map[string]any{"cmd": cmd, "yield_time_ms": 20000, "max_output_tokens": 100000})
}

func wantFile(t *testing.T, dir, name, content string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	} else if string(got) != content {
		t.Errorf("%s holds %q, want %q", name, got, content)
	}
}

func wantNoFile(t *testing.T, dir, name string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		t.Errorf("%s exists", name)
	}
}

// One command through codex exec, the environment chosen by CODEX_EXEC_SERVER_URL.
func TestExecShellCall(t *testing.T) {
	s := newSetup(t)
	m := newModel(t, shell(whereAmI), say())
	out := newHome(t, m, "danger-full-access").codexExec(t, s.workspace, "CODEX_EXEC_SERVER_URL="+s.tap.URL)
	want(t, out, "FINAL:", "parent: ", string(kind))
	wantFile(t, s.workspace, "made", "done\n")
	if n := len(s.tap.Messages(requests("process/read"))); n != 0 {
		t.Errorf("%d process/read on a complete stream", n)
	}
}

// The environment is a program that the client starts and speaks to over stdio.
func TestExecStdio(t *testing.T) {
	workspace := tempDir(t)
	m := newModel(t, shell(whereAmI), say())
	h := newHome(t, m, "danger-full-access")
	cfg := target.Config{Kind: kind, Path: program, Dir: workspace, Home: tempDir(t)}
	argv, err := cfg.Command("stdio")
	if err != nil {
		t.Fatal(err)
	}
	args := make([]string, 0, len(argv))
	for _, a := range argv[1:] {
		args = append(args, fmt.Sprintf("%q", a))
	}
	h.write(t, "environments.toml", fmt.Sprintf(`
default = "under-test"
include_local = false

[[environments]]
id = "under-test"
program = %q
args = [%s]
cwd = %q
`, argv[0], strings.Join(args, ", "), workspace))
	out := h.codexExec(t, workspace)
	want(t, out, "FINAL:", "parent: ", "stdio")
	wantFile(t, workspace, "made", "done\n")
}

// The client names a token and a request id, on reconnects too.
func TestBearerToken(t *testing.T) {
	token := filepath.Join(tempDir(t), "token")
	if err := os.WriteFile(token, []byte("a token of the test's own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newSetup(t, "--ws-auth", "capability-token", "--ws-token-file", token)
	s.environment = map[string]any{"authBearerToken": "a token of the test's own", "websocketRequestId": "request-7"}
	m := newModel(t, shell("echo hello"), say(), shell("echo again"), say())
	a, thread := newAppServer(t, newHome(t, m, "danger-full-access"), s, nil)
	a.turn(thread)
	s.tap.Cut()
	a.turn(thread)
	results := m.results(t)
	if len(results) != 2 {
		t.Fatalf("%d tool outputs", len(results))
	}
	want(t, results[0].Text, "hello")
	want(t, results[1].Text, "again")
	headers := s.tap.Headers()
	if len(headers) < 2 {
		t.Fatalf("%d upgrades, want a second after the cut", len(headers))
	}
	for i, h := range headers {
		if h.Get("Authorization") != "Bearer a token of the test's own" || h.Get("X-Request-Id") != "request-7" {
			t.Errorf("upgrade %d: %v", i+1, h)
		}
	}
}
