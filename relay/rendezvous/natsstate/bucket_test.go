package natsstate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
)

func info(t *testing.T, s *State) *jetstream.StreamInfo {
	t.Helper()
	stream, err := s.js.Stream(t.Context(), "KV_"+s.cfg.Bucket)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo()
}

func testReplicas(t *testing.T, c *natstest.Cluster) {
	bucket := fresh()
	with := func(replicas int) *State { return open(t, c, bucket, func(cfg *Config) { cfg.Replicas = replicas }) }
	for _, tt := range []struct{ ask, want int }{{0, 3}, {1, 1}, {0, 1}, {3, 3}} {
		if got := info(t, with(tt.ask)).Config.Replicas; got != tt.want {
			t.Errorf("asked for %d: %d replicas, want %d", tt.ask, got, tt.want)
		}
	}
	cfg, err := ParseURL(c.URL() + "?bucket=large&replicas=5")
	if err != nil {
		t.Fatal(err)
	}
	cfg.OpenTimeout = 5 * time.Second
	if s, err := Open(t.Context(), cfg); err == nil {
		s.Close()
		t.Error("five replicas on three servers")
	} else if !strings.Contains(err.Error(), "replicas=") {
		t.Errorf("five replicas on three servers: %v", err)
	}
}

// What is in the servers is a KV bucket as NATS's own tools read it.
func TestIsKVBucket(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	s := open(t, c)
	if got := info(t, s).Config.Replicas; got != 1 {
		t.Errorf("a server on its own has %d replicas", got)
	}
	rev, err := s.Put(t.Context(), rendezvous.BucketTokens, "k", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := s.js.KeyValue(t.Context(), DefaultBucket)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(t.Context(), "tokens.k"); err != nil || string(e.Value()) != "v" || e.Revision() != rev {
		t.Errorf("%v, %v", e, err)
	}
	// What such a tool deletes is deleted, and can be written anew.
	if err := kv.Delete(t.Context(), "tokens.k"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), rendezvous.BucketTokens, "k"); !errors.Is(err, rendezvous.ErrNotFound) {
		t.Errorf("deleted by a tool: %v", err)
	}
	if _, err := s.Put(t.Context(), rendezvous.BucketTokens, "k", nil, 0); err != nil {
		t.Errorf("write again: %v", err)
	}

	// Another program's bucket is left alone.
	if _, err := s.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "foreign", History: 5}); err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseURL(c.URL() + "?bucket=foreign")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), cfg); err == nil {
		s.Close()
		t.Error("another program's bucket is taken")
	} else if !strings.Contains(err.Error(), "bucket=") {
		t.Errorf("another program's bucket: %v", err)
	}
}

// Several nodes make the bucket at once.
func testOpenAtOnce(t *testing.T, c *natstest.Cluster) {
	cfg, err := ParseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	bucket := fresh()
	bucket(&cfg)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			s, err := Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if _, err := s.Put(t.Context(), rendezvous.BucketNodes, strconv.Itoa(i), nil, 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list, err := open(t, c, bucket).List(t.Context(), rendezvous.BucketNodes); err != nil || len(list) != 6 {
		t.Errorf("%v, %v", list, err)
	}
}

// The servers forget deletions in the end: the bucket does not grow by them for ever.
func TestDeletionsAreForgotten(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	s := open(t, c, func(cfg *Config) { cfg.markerLife = 3 * time.Second })
	const n = 20
	for i := range n {
		rev, err := s.Put(t.Context(), rendezvous.BucketAuthorizations, strconv.Itoa(i), nil, 0)
		if err == nil {
			err = s.Delete(t.Context(), rendezvous.BucketAuthorizations, strconv.Itoa(i), rev)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := info(t, s).State.Msgs; got == 0 {
		t.Error("fresh deletions are forgotten")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for p := newPause(); info(t, s).State.Msgs > 0; {
		if err := p.wait(ctx); err != nil {
			t.Fatalf("%d messages are left", info(t, s).State.Msgs)
		}
	}
	if _, err := s.Put(t.Context(), rendezvous.BucketAuthorizations, "0", nil, 0); err != nil {
		t.Errorf("write what was forgotten: %v", err)
	}
}

// A listing in many pages misses nothing that is there throughout, though all of it is
// written anew meanwhile and so moves from its beginning to its end.
func testListWhileWriting(t *testing.T, c *natstest.Cluster) {
	bucket := fresh()
	lister := open(t, c, bucket, func(cfg *Config) { cfg.page = 7 })
	writer := open(t, c, bucket)
	const n = 60
	write := func() {
		for i := range n {
			if _, err := writer.Put(t.Context(), rendezvous.BucketNodes, fmt.Sprintf("%02d", i), nil, rendezvous.AnyRevision); err != nil {
				t.Error(err)
			}
		}
	}
	write()
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				write()
			}
		}
	})
	for range 20 {
		list, err := lister.List(t.Context(), rendezvous.BucketNodes)
		if err != nil {
			t.Error(err)
		}
		for i := range n {
			if i >= len(list) || list[i].Key != fmt.Sprintf("%02d", i) {
				t.Errorf("of %d entries number %d is missing in %v", n, i, list)
				break
			}
		}
	}
	close(stop)
	all.Wait()
}

// A write that is repeated because its answer was lost is done once, and is no conflict.
func TestRepeatedWrite(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.Start(t, 1))
	subject := s.subject(rendezvous.BucketTokens, "k")
	first := write{subject: subject, value: []byte("v"), expects: true, id: "one"}
	rev, err := s.commit(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	first.again = true
	if got, err := s.commit(t.Context(), first); got != rev || err != nil {
		t.Errorf("written at %d, again at %d, %v", rev, got, err)
	}
	other := write{subject: subject, expects: true, id: "two", again: true}
	if got, err := s.commit(t.Context(), other); !errors.Is(err, errOutrun) {
		t.Errorf("another's write was taken for it: %d, %v", got, err)
	}
	gone := write{subject: subject, expects: true, expect: rev, id: "three", remove: s.cfg.markerLife}
	if rev, err = s.commit(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	gone.again = true
	if got, err := s.commit(t.Context(), gone); got != rev || err != nil {
		t.Errorf("deleted at %d, again at %d, %v", rev, got, err)
	}
}

func TestLargeValues(t *testing.T) {
	t.Parallel()
	s := open(t, natstest.Start(t, 1))
	for i := range 60 { // more than pageBytes
		if _, err := s.Put(t.Context(), rendezvous.BucketTokens, strconv.Itoa(i), make([]byte, maxValue), 0); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context(), rendezvous.BucketTokens)
	if err != nil || len(list) != 60 {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	for _, e := range list {
		if len(e.Value) != maxValue {
			t.Errorf("%s has %d bytes", e.Key, len(e.Value))
		}
	}
	if _, err := s.Put(t.Context(), rendezvous.BucketTokens, "k", make([]byte, maxValue+1), 0); err == nil {
		t.Error("a value beyond the limit is taken")
	}
}
