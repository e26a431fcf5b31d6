package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/lost"
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

// Lost versions that go since they are too large are named.
func TestSweepSaysWhatItForgets(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	l := &syncLocal{db: db, forest: tree.New(db.Tree(), tree.Config{})}
	l.bounds.Lost.Bytes = 1
	of, err := l.forest.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := l.forest.Stage(t.Context(), strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{2 * lost.Young, 0} {
		v := lost.Version{Path: localMount + "/a", At: time.Now().Add(-age), Why: lost.Conflict, Entry: tree.Entry{Kind: tree.KindFile, Size: 4, Parts: parts}}
		if _, err := of.Update(t.Context(), func(e *tree.Edit) error { return lost.Keep(e, &v) }); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	newSyncOutput(&syncJob{app: &app{stderr: &text}, local: l, flags: syncFlags{lost: lostFlags{bytes: 1}}})
	for range 2 {
		if err := l.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if want := "forgotten, since all lost versions have more than --lost-max-bytes 1: 1 version of before (a)\n"; text.String() != want {
		t.Errorf("it said %q", text.String())
	}
}
