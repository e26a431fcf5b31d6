package statetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// Spread returns a State that hands each call to another of the states in turn. They are
// of different nodes that share one store; the suite then holds what one node sees of
// what another did.
func Spread(states ...rendezvous.State) rendezvous.State { return &spread{states: states} }

type spread struct {
	states []rendezvous.State
	calls  atomic.Uint64
}

func (s *spread) next() rendezvous.State {
	return s.states[s.calls.Add(1)%uint64(len(s.states))]
}

func (s *spread) Get(ctx context.Context, bucket rendezvous.Bucket, key string) (rendezvous.Entry, error) {
	return s.next().Get(ctx, bucket, key)
}

func (s *spread) Put(ctx context.Context, bucket rendezvous.Bucket, key string, value []byte, revision uint64) (uint64, error) {
	return s.next().Put(ctx, bucket, key, value, revision)
}

func (s *spread) Delete(ctx context.Context, bucket rendezvous.Bucket, key string, revision uint64) error {
	return s.next().Delete(ctx, bucket, key, revision)
}

func (s *spread) List(ctx context.Context, bucket rendezvous.Bucket) ([]rendezvous.Entry, error) {
	return s.next().List(ctx, bucket)
}

func (s *spread) Close() error {
	var errs []error
	for _, state := range s.states {
		errs = append(errs, state.Close())
	}
	return errors.Join(errs...)
}
