package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/server/sqlite"
	"github.com/wsd-dev/wsd/server/workspace"
)

// While wsd sync watches, its state is made smaller from time to time, and when the disk is
// full.
func TestF5WatchSweeps(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := &syncLocal{db: db, swept: time.Now()}
	var skew time.Duration
	l.forest = tree.New(db.Tree(), tree.Config{Now: func() time.Time { return time.Now().Add(skew) }})
	l.bounds.Garbage = workspace.Garbage{Bytes: 1, Share: -1}
	garbage := tree.Data{Hash: tree.Sum([]byte("garbage")), Bytes: []byte("garbage")}
	if _, err := l.forest.PutChunks(t.Context(), garbage); err != nil {
		t.Fatal(err)
	}
	if l.due() {
		t.Error("it is time at once")
	}
	l.swept = l.swept.Add(-workspace.CollectInterval)
	if !l.due() {
		t.Error("it is not time after the interval")
	}
	for _, kept := range []bool{true, false} {
		l.full.Store(true)
		if !l.due() {
			t.Error("it is not time although the disk is full")
		}
		if err := l.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l.due() {
			t.Error("it is time again at once")
		}
		if _, err := l.forest.Chunk(t.Context(), garbage.Hash, nil); (err == nil) != kept {
			t.Errorf("garbage is kept: %v, want %v", err, kept)
		}
		skew = tree.MinUnseen + time.Minute
	}
}
