//go:build unix

package executor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// envChild has the registry's URL for the executor that a test runs as a process.
const envChild = "WSD_TEST_EXECUTOR_CHILD"

// TestStoppedChild is that process; it does nothing of its own.
func TestStoppedChild(t *testing.T) {
	url := os.Getenv(envChild)
	if url == "" {
		return
	}
	client, err := registry.New(registry.Config{BaseURLs: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := seal.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	x, err := newExecutor(Config{Registry: client, EnvironmentID: env, Identity: identity, Serve: echo})
	if err != nil {
		t.Fatal(err)
	}
	x.watchEvery, x.watchGap = 20*time.Millisecond, 300*time.Millisecond
	if err := x.run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// C-037: a process that was stopped asks, as soon as it goes on, whether its connection
// is still one. Its next ping of itself would be due after 30 s.
func TestStoppedProcessProbes(t *testing.T) {
	pinged := make(chan struct{}, 100)
	connected := make(chan struct{}, 100)
	server := httptest.NewUnstartedServer(nil)
	url := server.Listener.Addr().String()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == registry.OpRegister {
			reg := registration(0)
			reg.URL = "ws://" + url + "/relay"
			_ = json.NewEncoder(w).Encode(reg)
			return
		}
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.Close() }()
		answer := ws.PingHandler()
		ws.SetPingHandler(func(data string) error {
			pinged <- struct{}{}
			return answer(data)
		})
		connected <- struct{}{}
		_, _, _ = ws.ReadMessage()
	})
	server.Start()
	t.Cleanup(server.Close)

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStoppedChild$", "-test.timeout=2m")
	child.Env = append(os.Environ(), envChild+"=http://"+url)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	select {
	case <-connected:
	case <-time.After(time.Minute):
		t.Fatal("the executor does not connect")
	}
	asked := false
	for i := 0; i < 5 && !asked; i++ { // the first time it may not have begun to watch
		asked = stopAndGo(t, child.Process, pinged)
	}
	if !asked {
		t.Fatal("the executor does not ask")
	}
	if len(connected) != 0 {
		t.Error("the connection was replaced, though it was answered")
	}
}

// stopAndGo stops a process for a second, and reports whether it pings soon after.
func stopAndGo(t *testing.T, p *os.Process, pinged <-chan struct{}) bool {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for len(pinged) > 0 {
		<-pinged // a busy machine stops it, too
	}
	<-time.After(time.Second) // for which it is stopped
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-pinged:
		return true
	case <-time.After(3 * time.Second):
		return false
	}
}
