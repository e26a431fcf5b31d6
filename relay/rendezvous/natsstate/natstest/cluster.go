package natstest

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The user of every cluster. The password has characters that a URL must escape.
const (
	User     = "relay"
	Password = "p@ss/w:rd%"
)

// patience bounds the waits of this package.
const patience = 30 * time.Second

// A Cluster is a set of servers with JetStream. The servers reach each other through
// links of ours, one for each ordered pair, which [Cluster.Isolate] cuts. So do clients, for
// whom a server keeps its address when it is started again: its port may be another's by then.
type Cluster struct {
	t       testing.TB
	links   map[[2]int]*link // from, to
	fronts  []*link          // for clients
	options []server.Options
	servers []*server.Server // nil while stopped
}

// Start starts n servers and waits until they have elected a leader. They are stopped
// when the test ends. With n = 1 the server is on its own, without a cluster.
func Start(t testing.TB, n int) *Cluster {
	t.Helper()
	return StartWith(t, n, nil)
}

// StartWith is Start with other options for each server, where change makes them.
func StartWith(t testing.TB, n int, change func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, links: map[[2]int]*link{}, servers: make([]*server.Server, n)}
	for i := range n {
		front := newLink(t)
		c.fronts = append(c.fronts, front)
		o := server.Options{
			ServerName: fmt.Sprintf("s%d", i), Host: "127.0.0.1", Port: -1, ClientAdvertise: front.address(),
			Username: User, Password: Password,
			NoLog: true, NoSigs: true,
			JetStream: true, StoreDir: filepath.Join(t.TempDir(), "jetstream"),
			JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 256 << 20,
		}
		if n > 1 {
			// What a server says of itself leads nowhere: others reach it by their links.
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: -1, PoolSize: -1, Advertise: "127.0.0.1:1"}
			for j := range n {
				if j != i {
					l := newLink(t)
					c.links[[2]int{i, j}] = l
					o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: l.address()})
				}
			}
		}
		if change != nil {
			change(&o)
		}
		c.options = append(c.options, o)
	}
	t.Cleanup(func() {
		for i := range c.servers {
			c.Stop(i)
		}
	})
	for i := range n {
		c.start(i)
	}
	for i := range n {
		c.ready(i)
	}
	return c
}

// start starts server i, which must be stopped.
func (c *Cluster) start(i int) {
	c.t.Helper()
	o := c.options[i]
	s, err := server.NewServer(&o)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Start()
	c.servers[i] = s
	if !s.ReadyForConnections(patience) {
		c.t.Fatalf("server %d does not take connections", i)
	}
	c.fronts[i].setTarget(s.Addr().String())
	for j := range c.servers {
		if l := c.links[[2]int{j, i}]; l != nil {
			l.setTarget(s.ClusterAddr().String())
		}
	}
}

// ready waits until server i has joined the others and knows a leader.
func (c *Cluster) ready(i int) {
	c.t.Helper()
	c.wait(fmt.Sprintf("server %d is ready", i), func() bool {
		s := c.servers[i]
		return s.JetStreamEnabled() && (len(c.servers) == 1 || s.JetStreamIsLeader() || s.JetStreamIsCurrent())
	})
}

// wait looks until done is true.
func (c *Cluster) wait(what string, done func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.t.Fatalf("waited for: %s", what)
		}
	}
}

// Addresses are HOST:PORT of the servers, also of those that are stopped.
func (c *Cluster) Addresses() []string {
	var list []string
	for _, front := range c.fronts {
		list = append(list, front.address())
	}
	return list
}

// URL is a --state value for the cluster.
func (c *Cluster) URL() string {
	return "nats://" + User + ":" + url.QueryEscape(Password) + "@" + strings.Join(c.Addresses(), ",")
}

// Stop stops server i in order, if it runs.
func (c *Cluster) Stop(i int) {
	if s := c.servers[i]; s != nil {
		c.servers[i] = nil
		c.fronts[i].setTarget("")
		for j := range c.servers {
			if l := c.links[[2]int{j, i}]; l != nil {
				l.setTarget("")
			}
		}
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Restart starts server i again, with what it had stored, and waits until it has caught
// up with the others.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.start(i)
	c.ready(i)
	c.wait(fmt.Sprintf("server %d has caught up", i), func() bool {
		for j, s := range c.servers {
			if s == nil || j == i {
				continue
			}
			for _, name := range streams(s) {
				if !c.servers[i].JetStreamIsStreamCurrent(server.DEFAULT_GLOBAL_ACCOUNT, name) {
					return false
				}
			}
		}
		return true
	})
}

// streams are the names of the streams that a server has.
func streams(s *server.Server) []string {
	info, err := s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return nil
	}
	var names []string
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			names = append(names, stream.Name)
		}
	}
	return names
}

// Isolate cuts server i off from the other servers, at once and in both directions.
// Clients still reach it.
func (c *Cluster) Isolate(i int) { c.cut(i, true) }

// Rejoin ends what Isolate began.
func (c *Cluster) Rejoin(i int) { c.cut(i, false) }

func (c *Cluster) cut(i int, cut bool) {
	for pair, l := range c.links {
		if pair[0] == i || pair[1] == i {
			l.setCut(cut)
		}
	}
}

// Leader is the number of the server that leads the stream, once there is one.
func (c *Cluster) Leader(stream string) (leader int) {
	c.t.Helper()
	c.wait("a leader of "+stream, func() bool {
		leader = slices.IndexFunc(c.servers, func(s *server.Server) bool {
			return s != nil && s.GlobalAccount() != nil && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
		})
		return leader >= 0
	})
	return leader
}
