package rendezvous

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
)

// Memory is a State that ends with the process.
type Memory struct {
	mu      sync.Mutex
	buckets map[Bucket]map[string]Entry
	last    uint64 // revision given
	closed  bool
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{buckets: map[Bucket]map[string]Entry{}} }

var errMemoryClosed = errors.New("the state is closed")

// begin locks and looks an entry up.
func (m *Memory) begin(ctx context.Context, bucket Bucket, key string) (Entry, bool, error) {
	m.mu.Lock()
	if ctx.Err() != nil {
		return Entry{}, false, context.Cause(ctx)
	}
	if m.closed {
		return Entry{}, false, errMemoryClosed
	}
	e, ok := m.buckets[bucket][key]
	return e, ok, nil
}

// Get implements State.
func (m *Memory) Get(ctx context.Context, bucket Bucket, key string) (Entry, error) {
	e, ok, err := m.begin(ctx, bucket, key)
	defer m.mu.Unlock()
	if err == nil && !ok {
		err = ErrNotFound
	}
	e.Value = bytes.Clone(e.Value)
	return e, err
}

// Put implements State.
func (m *Memory) Put(ctx context.Context, bucket Bucket, key string, value []byte, revision uint64) (uint64, error) {
	e, _, err := m.begin(ctx, bucket, key) // no entry has revision 0
	defer m.mu.Unlock()
	if err == nil && revision != AnyRevision && revision != e.Revision {
		err = ErrConflict
	}
	if err != nil {
		return 0, err
	}
	if m.buckets[bucket] == nil {
		m.buckets[bucket] = map[string]Entry{}
	}
	m.last++
	m.buckets[bucket][key] = Entry{Key: key, Value: bytes.Clone(value), Revision: m.last}
	return m.last, nil
}

// Delete implements State.
func (m *Memory) Delete(ctx context.Context, bucket Bucket, key string, revision uint64) error {
	e, ok, err := m.begin(ctx, bucket, key)
	defer m.mu.Unlock()
	switch {
	case err != nil:
		return err
	case !ok:
		return ErrNotFound
	case revision != AnyRevision && revision != e.Revision:
		return ErrConflict
	}
	delete(m.buckets[bucket], key)
	return nil
}

// List implements State.
func (m *Memory) List(ctx context.Context, bucket Bucket) ([]Entry, error) {
	_, _, err := m.begin(ctx, bucket, "")
	defer m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, key := range slices.Sorted(maps.Keys(m.buckets[bucket])) {
		e := m.buckets[bucket][key]
		e.Value = bytes.Clone(e.Value)
		list = append(list, e)
	}
	return list, nil
}

// Close implements State.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
