package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/wsd-dev/wsd/relay/frame"
)

// counters count bytes: in goes to the executor, or comes to the harness.
type counters struct {
	in, out, frames atomic.Int64
}

func (c *counters) add(to *atomic.Int64, n int64) {
	to.Add(n)
	c.frames.Add(1)
}

// NodeStats is what a node does.
type NodeStats struct {
	Executors int `json:"executors"`
	Harnesses int `json:"harnesses"`
	Streams   int `json:"streams"`
	// Since the node began; frames of both directions.
	Frames             int64 `json:"frames"`
	BytesToExecutors   int64 `json:"bytesToExecutors"`
	BytesFromExecutors int64 `json:"bytesFromExecutors"`
	// Busy has the streams of each environment with any, as far as there is room.
	Busy map[string]int `json:"busy,omitempty"`
}

// maxBusy bounds NodeStats.Busy.
const maxBusy = 256

func (n *Node) stats() NodeStats {
	n.mu.Lock()
	held := make([]*executor, 0, len(n.executors))
	for _, e := range n.executors {
		held = append(held, e)
	}
	n.mu.Unlock()
	s := NodeStats{
		Executors: len(held), Frames: n.total.frames.Load(), Busy: map[string]int{},
		BytesToExecutors: n.total.in.Load(), BytesFromExecutors: n.total.out.Load(),
	}
	for _, e := range held {
		e.routing.Lock()
		streams := len(e.routes)
		s.Harnesses += len(e.harnesses)
		e.routing.Unlock()
		s.Streams += streams
		if streams > 0 && len(s.Busy) < maxBusy {
			s.Busy[e.env] = streams
		}
	}
	return s
}

// A RelayStatus is what a relay does, as its State knows it; figures are as old as a
// heartbeat.
type RelayStatus struct {
	Nodes        []NodeStatus        `json:"nodes"`
	Environments []EnvironmentStatus `json:"environments"`
}

// A NodeStatus is one node.
type NodeStatus struct {
	ID       string    `json:"id"`
	URL      string    `json:"url"`
	Started  time.Time `json:"started"`
	Alive    bool      `json:"alive"`
	Draining bool      `json:"draining"`
	NodeStats
}

// An EnvironmentStatus is one environment that an executor has registered for.
type EnvironmentStatus struct {
	ID          string `json:"id"`
	Attached    bool   `json:"attached"`
	Fingerprint string `json:"fingerprint"`
	// Token is the id of the executor's, Node who holds its socket, which came from Remote.
	Token      string          `json:"token"`
	Node       string          `json:"node,omitempty"`
	Remote     string          `json:"remote,omitempty"`
	Profiles   []frame.Profile `json:"profiles"`
	Registered time.Time       `json:"registered"`
	Since      time.Time       `json:"attachedSince,omitzero"`
	Streams    int             `json:"streams"`
}

// Status reads what the relay with that State does. It needs no running node.
func Status(ctx context.Context, s State) (*RelayStatus, error) {
	nodes, err := s.List(ctx, BucketNodes)
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	environments, err := s.List(ctx, BucketRegistrations)
	if err != nil {
		return nil, fmt.Errorf("list the environments: %w", err)
	}
	status := &RelayStatus{Nodes: []NodeStatus{}, Environments: []EnvironmentStatus{}}
	busy := map[string]map[string]int{} // of the nodes that live
	now := time.Now()
	for _, e := range nodes {
		var r nodeRecord
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, fmt.Errorf("node %s: %w", e.Key, err)
		}
		if r.alive(now) {
			busy[r.ID] = r.Stats.Busy
			if r.Stats.Busy == nil {
				busy[r.ID] = map[string]int{}
			}
		}
		status.Nodes = append(status.Nodes, NodeStatus{
			ID: r.ID, URL: r.URL, Started: r.Started, Alive: r.alive(now), Draining: r.Draining, NodeStats: r.Stats,
		})
	}
	for _, e := range environments {
		var r registration
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, fmt.Errorf("environment %s: %w", e.Key, err)
		}
		streams, attached := busy[r.Node]
		env := EnvironmentStatus{
			ID: e.Key, Attached: attached, Fingerprint: r.Key.Fingerprint().String(), Token: r.Token,
			Profiles: r.Profiles, Registered: r.Made, Streams: streams[e.Key],
		}
		if len(env.Profiles) == 0 {
			env.Profiles = []frame.Profile{frame.Codex}
		}
		if attached {
			env.Node, env.Remote, env.Since = r.Node, r.Remote, r.Attached
		}
		status.Environments = append(status.Environments, env)
	}
	return status, nil
}
