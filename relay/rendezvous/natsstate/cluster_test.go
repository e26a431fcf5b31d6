package natsstate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
)

// open opens a state on the cluster, by its URL; changes alter the configuration.
func open(t testing.TB, c *natstest.Cluster, changes ...func(*Config)) *State {
	t.Helper()
	cfg, err := ParseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(&cfg)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// at limits a state to one server.
func at(address string) func(*Config) {
	return func(cfg *Config) { cfg.Servers, cfg.pinned = []string{address}, true }
}

// Of many who take one authorization through three clients exactly one gets it.
func testOneTaker(t *testing.T, c *natstest.Cluster) {
	bucket := fresh()
	var states []*State
	for _, address := range c.Addresses() {
		states = append(states, open(t, c, at(address), bucket))
	}
	const rounds, takers = 50, 200
	for round := range rounds {
		key := strconv.Itoa(round)
		rev, err := states[round%3].Put(t.Context(), rendezvous.BucketAuthorizations, key, []byte("x"), 0)
		if err != nil {
			t.Fatal(err)
		}
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range takers {
			all.Go(func() {
				err := states[i%3].Delete(t.Context(), rendezvous.BucketAuthorizations, key, rev)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, rendezvous.ErrConflict) && !errors.Is(err, rendezvous.ErrNotFound):
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		if n := won.Load(); n != 1 {
			t.Fatalf("round %d: %d of %d got it", round, n, takers)
		}
	}
}

// The server that leads the bucket is stopped while clients of all servers write: all
// writes go on. It comes back, catches up, and is then needed for the majority.
func TestServerStops(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 3)
	var states []*State
	for range 3 { // an election may take longer than a call is given otherwise
		states = append(states, open(t, c, func(cfg *Config) { cfg.Timeout = patience / 2 }))
	}
	var written atomic.Int64
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for i, s := range states {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("%d-%d", i, n)
				rev, err := s.Put(t.Context(), rendezvous.BucketRegistrations, key, []byte(key), 0)
				if err == nil && n%2 == 0 {
					err = s.Delete(t.Context(), rendezvous.BucketRegistrations, key, rev)
				}
				if err != nil {
					t.Errorf("%s: %v", key, err)
					return
				}
				written.Add(1)
			}
		})
	}
	// further waits until that many writes more are done.
	further := func(n int64) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for goal, p := written.Load()+n, newPause(); written.Load() < goal; {
			if err := p.wait(ctx); err != nil {
				t.Fatalf("%d writes are done, wanted %d", written.Load(), goal)
			}
		}
	}
	further(50)
	first := c.Leader("KV_" + DefaultBucket)
	c.Stop(first)
	further(100)
	c.Restart(first)
	second := (first + 1) % 3
	c.Stop(second)
	further(100)
	close(stop)
	writers.Wait()

	// Through the one that was away, all is as it was written.
	list, err := open(t, c, at(c.Addresses()[first])).List(t.Context(), rendezvous.BucketRegistrations)
	if err != nil {
		t.Fatal(err)
	}
	odd := 0
	for _, e := range list {
		if e.Key != string(e.Value) || (e.Key[len(e.Key)-1]-'0')%2 == 0 {
			t.Errorf("%s is %q", e.Key, e.Value)
		}
		odd++
	}
	if int64(odd) < written.Load()/2-3 || int64(odd) > written.Load()/2+3 {
		t.Errorf("%d entries are there after %d writes, of which every other one was deleted again", odd, written.Load())
	}
}

// The leader is cut off from the others. Who asks it gets errors and not what was; who
// may use the others moves there by itself. When it is back all see the same.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 3)
	s := open(t, c)
	rev, err := s.Put(t.Context(), rendezvous.BucketTokens, "k", []byte("old"), 0)
	if err != nil {
		t.Fatal(err)
	}
	cut := c.Leader("KV_" + DefaultBucket)
	inside := open(t, c, at(c.Addresses()[cut]), func(cfg *Config) { cfg.Timeout = 2 * time.Second })
	outside := open(t, c, at(c.Addresses()[(cut+1)%3]))
	mover := open(t, c, func(cfg *Config) {
		cfg.Servers[0], cfg.Servers[cut] = cfg.Servers[cut], cfg.Servers[0]
		cfg.ordered = true
	})
	if got := mover.nc.ConnectedAddr(); got != c.Addresses()[cut] {
		t.Fatalf("connected to %s", got)
	}

	c.Isolate(cut)
	// The cut-off server believes to lead for some seconds yet.
	unavailable := func(when string) {
		t.Helper()
		var all sync.WaitGroup
		for name, call := range map[string]func() error{
			"get":    func() error { _, err := inside.Get(t.Context(), rendezvous.BucketTokens, "k"); return err },
			"list":   func() error { _, err := inside.List(t.Context(), rendezvous.BucketTokens); return err },
			"delete": func() error { return inside.Delete(t.Context(), rendezvous.BucketTokens, "k", rev) },
			"put": func() error {
				_, err := inside.Put(t.Context(), rendezvous.BucketTokens, "k", []byte("lost"), rendezvous.AnyRevision)
				return err
			},
		} {
			all.Go(func() {
				if err := call(); !errors.Is(err, ErrUnavailable) {
					t.Errorf("%s: %s: %v", when, name, err)
				}
			})
		}
		all.Wait()
	}
	var early sync.WaitGroup
	early.Go(func() { unavailable("before the others have a leader") })

	// eventually repeats what an election may hinder.
	eventually := func(call func() error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for p := newPause(); ; {
			err := call()
			if err == nil {
				return
			}
			if !errors.Is(err, ErrUnavailable) || p.wait(ctx) != nil {
				t.Fatal(err)
			}
		}
	}
	start := time.Now()
	eventually(func() error {
		_, err := outside.Put(t.Context(), rendezvous.BucketTokens, "k", []byte("new"), rendezvous.AnyRevision)
		return err
	})
	t.Logf("the others write after %v", time.Since(start))
	early.Wait()
	unavailable("after the others have written")
	eventually(func() error {
		e, err := mover.Get(t.Context(), rendezvous.BucketTokens, "k")
		if err == nil && string(e.Value) != "new" {
			t.Errorf("who moved sees %q", e.Value)
		}
		return err
	})
	if got := mover.nc.ConnectedAddr(); got == c.Addresses()[cut] {
		t.Error("it did not move")
	}

	c.Rejoin(cut)
	eventually(func() error {
		e, err := inside.Get(t.Context(), rendezvous.BucketTokens, "k")
		if err == nil && string(e.Value) != "new" {
			t.Errorf("who was cut off sees %q", e.Value)
		}
		return err
	})
}

// A server on its own goes away and comes back: calls fail in time and then work again.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	s := open(t, c, func(cfg *Config) { cfg.Timeout = 300 * time.Millisecond })
	rev, err := s.Put(t.Context(), rendezvous.BucketTokens, "k", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Stop(0)
	start := time.Now()
	if _, err := s.Get(t.Context(), rendezvous.BucketTokens, "k"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if took := time.Since(start); took > patience {
		t.Errorf("the error took %v", took)
	}
	// The caller's own end shows as that.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, rendezvous.BucketTokens, "k", nil, rev); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnavailable) {
		t.Errorf("write: %v", err)
	}
	other := open2(t, c)
	c.Restart(0)
	for p := newPause(); ; {
		e, err := s.Get(t.Context(), rendezvous.BucketTokens, "k")
		if err == nil && e.Revision == rev && string(e.Value) == "v" {
			break
		}
		if !errors.Is(err, ErrUnavailable) || p.wait(t.Context()) != nil {
			t.Fatalf("%v, %v", e, err)
		}
	}
	if err := <-other; err != nil {
		t.Errorf("open before the server was there: %v", err)
	}
	c.Stop(0)
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
	if _, err := s.List(t.Context(), rendezvous.BucketTokens); !errors.Is(err, ErrUnavailable) {
		t.Errorf("list after close: %v", err)
	}
}

// open2 opens a state in the background and closes it.
func open2(t *testing.T, c *natstest.Cluster) <-chan error {
	cfg, err := ParseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), cfg)
		if err == nil {
			err = s.Close()
		}
		result <- err
	}()
	return result
}
