//go:build attack && linux

package attack

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// relay starts a relay with args that may have so many files open.
func (w *world) relay(files int, args ...string) *target.Server {
	w.Helper()
	limited := filepath.Join(w.home, "limited")
	w.write(limited, fmt.Sprintf("#!/bin/sh\nulimit -n %d && exec '%s' \"$@\"\n", files, program), 0o755)
	relay, err := target.Start(w.Context(), target.Config{
		Kind: target.Relay, Path: limited, Args: args, Dir: w.dir, Home: w.home, Attributes: credential(w.uid),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = relay.Stop() })
	return relay
}

// asked sends a GET over a new connection, which is left open, and awaits the answer.
func (w *world) asked(addr, target string) (status int, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	w.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, addr); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// Connections that have asked once and are kept do not use up a relay's descriptors: it
// closes old ones, and who comes next is answered.
func TestSR6IdleConnectionsAreBounded(t *testing.T) {
	each(t, func(w *world) {
		const files = 256
		relay := w.relay(files)
		descriptors := func() int {
			open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", relay.PID))
			if err != nil {
				w.Fatal(err)
			}
			return len(open)
		}
		before := descriptors()
		for i := range files + 50 {
			if status, err := w.asked(relay.Addr, "/healthz"); err != nil || status != http.StatusOK {
				w.Fatalf("connection %d: %d, %v", i, status, err)
			}
		}
		// One address has an eighth of the descriptors for connections that are no sockets.
		if now := descriptors(); now > before+files/8+8 {
			w.Errorf("%d descriptors are open, %d were before", now, before)
		}
	})
}

// Requests without a credential do not make the audit log grow.
func TestSR5AuditLogDoesNotGrow(t *testing.T) {
	each(t, func(w *world) {
		audit := filepath.Join(w.home, "audit.jsonl")
		relay := w.relay(1024, "--audit-log", audit)
		for i := range 100 {
			for _, path := range []string{"/relay/" + strings.Repeat("%00", 5000) + "?v=1", fmt.Sprintf("/relay/lab%d?v=1&role=harness&exp=9999999999&sig=AAAA", i)} {
				if status, err := w.asked(relay.Addr, path); err != nil || status != http.StatusUnauthorized {
					w.Fatalf("%d, %v", status, err)
				}
			}
		}
		if log, err := os.ReadFile(audit); err != nil || len(log) > 4<<10 {
			w.Errorf("the audit log has %d bytes, %v", len(log), err)
		}
	})
}
