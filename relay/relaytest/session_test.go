package relaytest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsd-dev/wsd/client"
	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay/executor"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/server"
)

// serverExecutor runs an executor whose streams an exec-server serves.
func (w *world) serverExecutor() *runner {
	srv, err := newServer()
	if err != nil {
		w.t.Fatal(err)
	}
	w.closing = append(w.closing, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = srv.Shutdown(ctx)
	})
	return w.executor("executor", nil, func(ctx context.Context, conn rpc.Connection, info executor.StreamInfo) {
		_ = srv.ServeConnection(ctx, conn, server.ConnectionOptions{Remote: "relay stream " + info.ID})
	})
}

// client opens a session over h that resumes over new streams.
func (w *world) client(h *harness.Harness) *client.Client {
	w.t.Helper()
	conn, err := h.Connect(w.t.Context())
	if err != nil {
		w.t.Fatalf("connect: %v", err)
	}
	c, err := client.New(w.t.Context(), conn, h.Connect, nil)
	if err != nil {
		w.t.Fatalf("client: %v", err)
	}
	w.closing = append(w.closing, func() { c.Close() })
	return c
}

// Whatever socket is lost: with the reliable profile the stream goes on, with the codex
// profile the session does, over a new one. A process that prints all the while is
// heard to its end, with nothing lost or twice.
func TestSessionOutlivesSockets(t *testing.T) {
	for _, profile := range bothProfiles {
		for _, name := range []string{"HarnessSocket", "ExecutorSocket", "BothSockets", "RelayRestart", "HarnessBackWithAnotherAddress", "ExecutorBackWithAnotherAddress"} {
			t.Run(string(profile)+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testSession(t, profile, losses[name])
				})
			})
		}
	}
}

func testSession(t *testing.T, profile frame.Profile, lose func(*world)) {
	const lines = 300
	w := newWorld(t, 6)
	defer w.close()
	x := w.serverExecutor()
	settle()
	c := w.client(w.harness("harness", profile))
	p := w.startCounter(c, lines, 50*time.Millisecond)
	began := time.Now()
	var losing sync.WaitGroup
	losing.Go(func() {
		time.Sleep(3 * time.Second)
		lose(w)
	})
	defer losing.Wait()
	if err := readLines(t.Context(), p, lines); err != nil {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	t.Logf("%v, %d streams", time.Since(began), x.served.Load())
	if n := x.served.Load(); profile == frame.Reliable && n != 1 || profile == frame.Codex && n < 2 {
		t.Errorf("%d streams", n)
	}
}

// startCounter has the executor print lines, one each interval.
func (w *world) startCounter(c *client.Client, lines int, interval time.Duration) *client.Process {
	w.t.Helper()
	p, err := c.Start(w.t.Context(), client.Command{Argv: []string{"/bin/true", strconv.Itoa(lines), interval.String()}, Dir: "/"})
	if err != nil {
		w.t.Fatalf("seed %d: start: %v", w.seed, err)
	}
	return p
}

// readLines wants all lines of a counter, and a good end.
func readLines(ctx context.Context, p *client.Process, lines int) error {
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		return fmt.Errorf("after %d bytes: %w", len(out), err)
	}
	var want strings.Builder
	for i := range lines {
		want.WriteString(line(i))
	}
	if string(out) != want.String() {
		return fmt.Errorf("%d bytes of output, want %d, or others", len(out), want.Len())
	}
	status, err := p.Wait(ctx)
	if err == nil && status.Code != 0 {
		err = fmt.Errorf("exit status %d", status.Code)
	}
	return err
}

// fs/* over a relay: files written and read back whole, over sockets that are cut.
func TestFilesOutliveSockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 7)
		defer w.close()
		w.serverExecutor()
		settle()
		c := w.client(w.harness("harness", frame.Reliable))
		name := filepath.Join(t.TempDir(), "file")
		content := bytes.Repeat([]byte("0123456789abcdef"), 300_000)
		stop := make(chan struct{})
		var cutting sync.WaitGroup
		cutting.Go(func() {
			for i := 0; ; i++ {
				timer := time.NewTimer(300 * time.Millisecond)
				select {
				case <-stop:
					return
				case <-timer.C:
				}
				w.network.Host([]string{"harness", "executor"}[i%2]).CutAll()
			}
		})
		if _, err := c.WriteFile(t.Context(), name, content, nil); err != nil {
			t.Errorf("write: %v", err)
		}
		got, err := c.ReadFile(t.Context(), name)
		close(stop)
		cutting.Wait()
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("read: %d bytes, %v", len(got), err)
		}
	})
}
