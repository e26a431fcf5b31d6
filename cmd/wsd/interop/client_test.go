//go:build interop

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// turnTimeout bounds one turn of the client.
const turnTimeout = time.Minute

// A home is a CODEX_HOME of the client's own, without account or network.
type home struct{ dir string }

// newHome configures a client for the model, under the name of one that the client
// knows and gives its apply_patch tool. sandbox is its sandbox_mode.
func newHome(t *testing.T, m *model, sandbox string) home {
	t.Helper()
	h := home{tempDir(t)}
	h.write(t, "config.toml", fmt.Sprintf(`
model = "gpt-5.5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = %q

[model_providers.mock]
name = "mock"
base_url = %q
wire_api = "responses"
requires_openai_auth = false
request_max_retries = 0
stream_max_retries = 0

[features]
plugins = false

[analytics]
enabled = false
`, sandbox, m.URL))
	return h
}

func (h home) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(h.dir, ".codex", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// environ is the client's environment, with env added.
func (h home) environ(env ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + h.dir,
		"CODEX_HOME=" + filepath.Join(h.dir, ".codex"), "CODEX_API_KEY=dummy", "RUST_LOG=warn",
	}, env...)
}

// codexExec runs `codex exec` in dir and returns what it printed.
func (h home) codexExec(t *testing.T, dir string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), codexPath, "exec", "--skip-git-repo-check", "run the tool")
	cmd.Dir, cmd.Env = dir, h.environ(env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("codex exec: %v\n%s", err, out)
	}
	return string(out)
}

// want fails the test unless text contains each of words.
func want(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}

// A lockedBuffer collects what a program prints.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
