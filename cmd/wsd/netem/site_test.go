//go:build e2e && linux

package netem

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Addresses of the three machines.
var (
	relayAddr    = netip.MustParseAddr("10.77.0.1")
	executorAddr = netip.MustParseAddr("10.77.0.2")
	clientAddr   = netip.MustParseAddr("10.77.0.3")
)

const (
	relayURL    = "https://10.77.0.1:8443"
	environment = "lab"
	connectURL  = "relay://10.77.0.1:8443/lab"
)

// A world is a relay, an executor and a client, each on its machine.
type world struct {
	wire                    *wire
	program                 string // the wsd of all three
	caFile                  string
	relay, executor, client *site
	executorLog             *logBuffer
}

// A site is a machine, and the home of whoever works there.
type site struct {
	*machine
	world *world
	home  string
}

// newWorld starts a world that ends with the test. Its network is good to begin with.
func newWorld(t *testing.T, seed uint64, program string) *world {
	t.Helper()
	w := &world{wire: newWire(t, seed), program: program}
	home := func(addr netip.Addr) *site {
		return &site{machine: newMachine(t, w.wire, addr), world: w, home: t.TempDir()}
	}
	w.relay, w.executor, w.client = home(relayAddr), home(executorAddr), home(clientAddr)
	cert, key := writeCertificate(t, w.relay.home, net.IP(relayAddr.AsSlice()))
	w.caFile = cert
	state := "sqlite:" + filepath.Join(w.relay.home, "relay.db")
	log := w.relay.start(t, "the relay", w.relay.command("relay", "--listen", relayURL, "--tls-cert", cert, "--tls-key", key, "--state", state))
	if err := log.wait(relayURL+"\n", 20*time.Second); err != nil {
		t.Fatalf("the relay: %v", err)
	}
	for role, at := range map[string]*site{"executor": w.executor, "harness": w.client} {
		token, err := w.relay.run(t.Context(), nil, "relay", "token", "create", "--role", role, "--environment", environment, "--state", state)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at.tokenFile(), []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.executorLog = w.executor.start(t, "the executor", w.executor.command(
		"serve", "--remote", relayURL, "--environment-id", environment, "--token-file", w.executor.tokenFile()))
	if err := w.executorLog.wait("connected to the relay", 20*time.Second); err != nil {
		t.Fatalf("the executor: %v", err)
	}
	return w
}

func (s *site) tokenFile() string { return filepath.Join(s.home, "token") }

// reach makes a command of the client's that goes over the relay.
func (w *world) reach(args ...string) *exec.Cmd {
	flags := []string{"--connect", connectURL, "--token-file", w.client.tokenFile()}
	return w.client.command(append(append(args[:1:1], flags...), args[1:]...)...)
}

// connections is how often the executor has connected to the relay.
func (w *world) connections() int {
	return strings.Count(w.executorLog.String(), `msg="connected to the relay"`)
}

// moved returns once n bytes more have come through the link of a machine.
func (w *world) moved(ctx context.Context, m *machine, n int64) error {
	from := w.wire.bytes(m.port)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for w.wire.bytes(m.port)-from < n {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
