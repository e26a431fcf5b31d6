package rendezvous

import (
	"context"
	"testing"
	"testing/synctest"
)

// A lateState takes a while to write what a node says of itself.
type lateState struct {
	State
	writes, goOn chan struct{}
}

func (s lateState) Put(ctx context.Context, bucket Bucket, key string, value []byte, revision uint64) (uint64, error) {
	if bucket == BucketNodes {
		s.writes <- struct{}{}
		<-s.goOn
	}
	return s.State.Put(ctx, bucket, key, value, revision)
}

// A node that is drained is known to nobody, also if it was about to say that it lives.
func TestDrainBesideABeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := lateState{NewMemory(), make(chan struct{}), make(chan struct{})}
		n := newTestNode(t, state)
		ended := make(chan error, 2)
		go func() { ended <- n.beat(t.Context()) }()
		<-state.writes
		go func() { ended <- n.Drain(t.Context()) }()
		synctest.Wait()
		close(state.goOn)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if nodes, err := state.List(t.Context(), BucketNodes); err != nil || len(nodes) != 0 {
			t.Errorf("%d nodes are known, %v", len(nodes), err)
		}
	})
}
