//go:build attack && linux

package attack

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/executor"
)

// A fleet is executors that have an environment of one relay each.
type fleet struct {
	*relaySite
	listen   string
	size     int
	attempts chan attempt
}

// An attempt is one of an executor to connect.
type attempt struct {
	executor  int
	connected bool
}

func fleetEnvironment(i int) string { return fmt.Sprint("fleet-", i) }

// fleet starts a relay and as many executors, which end with the test.
func (w *world) fleet(size int) *fleet {
	w.Helper()
	// Dials go out from 127.0.0.1: while the relay is away, none can have its port.
	f := &fleet{relaySite: &relaySite{world: w}, listen: "http://127.0.0.2:0", size: size, attempts: make(chan attempt, 100*size)}
	f.begin()
	f.listen = f.url
	ctx, end := context.WithCancel(w.Context())
	var running sync.WaitGroup
	w.Cleanup(func() { end(); running.Wait() })
	token, dial := f.token("executor", "*"), relay.NewDialer(relay.DialConfig{RequestID: true})
	for i := range size {
		cfg := executor.Config{
			Registry: f.client(token), EnvironmentID: fleetEnvironment(i), Identity: newKeys(w),
			Serve:     func(context.Context, rpc.Connection, executor.StreamInfo) {},
			OnConnect: func() { f.attempts <- attempt{i, true} },
			Dial: func(ctx context.Context, url string) (relay.Carrier, error) {
				c, err := dial(ctx, url)
				if err != nil {
					f.attempts <- attempt{i, false}
				}
				return c, err
			},
		}
		running.Go(func() {
			if err := executor.Run(ctx, cfg); err != nil {
				w.Errorf("%s: %v", cfg.EnvironmentID, err)
			}
		})
	}
	f.await("connect", func(a attempt) bool { return a.connected }, 1)
	return f
}

// begin starts the relay.
func (f *fleet) begin() {
	f.Helper()
	f.relay = f.start("relay", "--listen", f.listen)
	f.url = f.relay.first
}

// await waits until each executor has made so many attempts of a kind.
func (f *fleet) await(what string, counts func(attempt) bool, times int) {
	f.Helper()
	made, missing := make([]int, f.size), f.size
	for late := time.After(time.Minute); missing > 0; {
		select {
		case a := <-f.attempts:
			if counts(a) {
				if made[a.executor]++; made[a.executor] == times {
					missing--
				}
			}
		case <-late:
			f.Fatalf("after a minute %d of %d executors do not %s", missing, f.size, what)
		}
	}
}

// All executors are back soon after their relay's restart, however it ends and however
// long it is away: 500 of them within five seconds in the long form.
func TestItem8ExecutorsComeBack(t *testing.T) {
	size, bound := 500, 5*time.Second
	if testing.Short() {
		size, bound = 50, time.Minute
	}
	f := newWorld(t, os.Geteuid()).fleet(size)
	harness, keys := f.client(f.token("harness", "*")), newKeys(t)
	for _, r := range []struct {
		name   string
		signal os.Signal
		tries  int // that fail before the relay is there again
	}{
		{"killed", os.Kill, 0},
		{"ended", syscall.SIGTERM, 0},
		{"killed for long", os.Kill, 5},
	} {
		if testing.Short() && r.tries > 0 {
			continue
		}
		if err := f.relay.cmd.Process.Signal(r.signal); err != nil {
			t.Fatal(err)
		}
		_ = f.relay.wait()
		if r.tries > 0 {
			f.await("try in vain", func(a attempt) bool { return !a.connected }, r.tries)
		}
		f.begin()
		began := time.Now()
		f.await("come back", func(a attempt) bool { return a.connected }, 1)
		took := time.Since(began)
		t.Logf("%s: %d executors are back after %v", r.name, size, took)
		if took > bound {
			t.Errorf("%s: the last executor is back after %v", r.name, took)
		}
		for i := range size {
			if _, err := harness.Connect(t.Context(), fleetEnvironment(i), keys.Public()); err != nil {
				t.Errorf("%s: the relay sends nobody to executor %d: %v", r.name, i, err)
			}
		}
	}
}
