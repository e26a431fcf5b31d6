package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"github.com/wsd-dev/wsd/bench/raw"
	"github.com/wsd-dev/wsd/bench/target"
	"github.com/wsd-dev/wsd/protocol/rpc/wsconn"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/harness"
	"github.com/wsd-dev/wsd/relay/registry"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A way leads to an executor.
type way struct {
	name     string
	executor *target.Server
	relay    *target.Server // nil for a direct way
	harness  *harness.Harness
	serial   int // makes process ids
}

// dial opens a session. Both kinds of way take what the client library takes.
func (w *way) dial(ctx context.Context) (*raw.Client, error) {
	var c *raw.Client
	if w.harness == nil {
		ws, resp, err := websocket.DefaultDialer.DialContext(ctx, w.executor.URL, nil)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		c = raw.Over(wire{wsconn.New(ws, wsconn.Config{})})
	} else {
		conn, err := w.harness.Connect(ctx)
		if err != nil {
			return nil, err
		}
		c = raw.Over(wire{conn})
	}
	context.AfterFunc(ctx, func() { _ = c.Close() }) // so that nothing waits longer than the run may take
	if _, err := c.Initialize(""); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// process names a new process.
func (w *way) process(argv ...string) raw.Start {
	w.serial++
	return raw.NewStart(fmt.Sprintf("%s-%d", w.name, w.serial), argv...)
}

// cpu is the processor time that executor and relay have used, children not counted.
func (w *way) cpu() ([2]time.Duration, error) {
	var used [2]time.Duration
	var err error
	if used[0], _, err = w.executor.CPU(); err == nil && w.relay != nil {
		used[1], _, err = w.relay.CPU()
	}
	return used, err
}

// through makes a way to env over the relay.
func through(name string, relay, executor *target.Server, env, token string, profile frame.Profile) (*way, error) {
	credential, err := registry.Bearer(token)
	if err != nil {
		return nil, err
	}
	client, err := registry.New(registry.Config{BaseURLs: []string{relay.URL}, Credential: credential})
	if err != nil {
		return nil, err
	}
	identity, err := seal.NewIdentity()
	if err != nil {
		return nil, err
	}
	h, err := harness.New(harness.Config{Registry: client, EnvironmentID: env, Identity: identity, Profile: profile})
	if err != nil {
		return nil, err
	}
	return &way{name: name, relay: relay, executor: executor, harness: h}, nil
}
