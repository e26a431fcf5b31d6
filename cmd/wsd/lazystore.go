package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/server/sqlite"
)

// A lazyStore is an eventlog.Store whose file is opened when it is used first, and which
// other servers of the directory may have open too.
type lazyStore struct {
	log *slog.Logger

	mu     sync.Mutex
	db     *sqlite.DB // nil before it was opened
	closed bool
}

// errUnused is the error of a lazyStore that was closed.
var errUnused = errors.New("the history is closed")

// open opens the file, unless it is open. If that fails it is tried again the next time.
func (s *lazyStore) open(ctx context.Context) (eventlog.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errUnused
	case s.db != nil:
		return s.db.Log(), nil
	}
	path, err := historyStore()
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(context.WithoutCancel(ctx), sqlite.Config{Path: path, Shared: true, Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.db = db
	return db.Log(), nil
}

// Close closes the file, if it was opened.
func (s *lazyStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

// Write implements eventlog.Store.
func (s *lazyStore) Write(ctx context.Context, changes []eventlog.Change) error {
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	return store.Write(ctx, changes)
}

// List implements eventlog.Store.
func (s *lazyStore) List(ctx context.Context, q eventlog.Query) ([]eventlog.Record, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return store.List(ctx, q)
}

// LastEnd implements eventlog.Store.
func (s *lazyStore) LastEnd(ctx context.Context) (int64, error) {
	store, err := s.open(ctx)
	if err != nil {
		return 0, err
	}
	return store.LastEnd(ctx)
}

// Read implements eventlog.Store.
func (s *lazyStore) Read(ctx context.Context, log int64, after uint64, maxBytes, maxEvents int) ([]eventlog.Event, error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return store.Read(ctx, log, after, maxBytes, maxEvents)
}

// Recover implements eventlog.Store.
func (s *lazyStore) Recover(ctx context.Context, at time.Time) (ended []int64, err error) {
	store, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	return store.Recover(ctx, at)
}

// Sweep implements eventlog.Store.
func (s *lazyStore) Sweep(ctx context.Context, keep eventlog.Keep) error {
	store, err := s.open(ctx)
	if err != nil {
		return err
	}
	return store.Sweep(ctx, keep)
}
