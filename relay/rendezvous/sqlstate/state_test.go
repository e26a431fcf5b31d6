package sqlstate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/statetest"
)

func TestState(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(t *testing.T) rendezvous.State {
		return open(t, filepath.Join(t.TempDir(), "relay.db"))
	})
}

// The same through two States of one file, as two processes have them.
func TestStateTwice(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(t *testing.T) rendezvous.State {
		path := filepath.Join(t.TempDir(), "relay.db")
		return statetest.Spread(open(t, path), open(t, path))
	})
}

// What a person made is on disk before the call returns; see the package's comment.
func TestSynchronous(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	for _, tt := range []struct {
		bucket rendezvous.Bucket
		want   int // of PRAGMA synchronous
	}{
		{rendezvous.BucketTokens, 2},
		{rendezvous.BucketNodes, 1},
		{rendezvous.BucketSecrets, 2},
		{rendezvous.BucketAuthorizations, 1},
		{rendezvous.BucketRegistrations, 1},
	} {
		put(t, s, tt.bucket, "k", "v")
		var level int
		var journal string
		if err := errors.Join(
			s.write.QueryRow("PRAGMA synchronous").Scan(&level),
			s.write.QueryRow("PRAGMA journal_mode").Scan(&journal),
		); err != nil {
			t.Fatal(err)
		}
		if level != tt.want || journal != "wal" {
			t.Errorf("%s: synchronous %d, journal %s", tt.bucket, level, journal)
		}
	}
}

// A full disk refuses writes, says so, and loses nothing.
func TestFull(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	put(t, s, rendezvous.BucketTokens, "kept", "v")
	var pages int
	if err := s.write.QueryRow("PRAGMA max_page_count = 1").Scan(&pages); err != nil { // SQLite makes it what there is
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), rendezvous.BucketTokens, "big", make([]byte, 1<<20), 0)
	if !errors.Is(err, sqlitefile.ErrFull) || !strings.Contains(err.Error(), "make room") {
		t.Errorf("write to a full disk: %v", err)
	}
	if e, err := s.Get(t.Context(), rendezvous.BucketTokens, "kept"); err != nil || string(e.Value) != "v" {
		t.Errorf("read from a full disk: %q, %v", e.Value, err)
	}
	if err := s.write.QueryRow("PRAGMA max_page_count = 10000").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), rendezvous.BucketTokens, "big", make([]byte, 1<<20), 0); err != nil {
		t.Errorf("write after room was made: %v", err)
	}
}

// The connections that read cannot write, which is also what a file that must not be
// written says.
func TestReadOnly(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "relay.db"))
	put(t, s, rendezvous.BucketTokens, "k", "v")
	swapped := &State{path: s.path, write: s.read, read: s.read}
	_, err := swapped.Put(t.Context(), rendezvous.BucketTokens, "k", nil, rendezvous.AnyRevision)
	if !errors.Is(err, sqlitefile.ErrReadOnly) || !strings.Contains(err.Error(), "mode of the file") {
		t.Errorf("write where it is not allowed: %v", err)
	}
}

// A page that was overwritten is found, by reading it or by Check.
func TestDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "relay.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		put(t, s, rendezvous.BucketTokens, strings.Repeat("k", i+1), strings.Repeat("v", 100))
	}
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("before: %v", err)
	}
	if err := s.Close(); err != nil { // moves what is in the log into the file
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copy(data[2*4096:], strings.Repeat("\xff", len(data)-2*4096))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(t.Context(), Config{Path: path})
	if err == nil {
		defer s.Close()
		if _, err = s.List(t.Context(), rendezvous.BucketTokens); err == nil {
			err = s.Check(t.Context())
		}
	}
	if !errors.Is(err, sqlitefile.ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("after: %v", err)
	}
}

// What holds between our tables is checked too.
func TestCheckRevisions(t *testing.T) {
	s, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "relay.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, rendezvous.BucketTokens, "k", "v")
	for _, text := range []string{"UPDATE revisions SET last = 0", "DELETE FROM revisions"} {
		if _, err := s.write.Exec(text); err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); !errors.Is(err, sqlitefile.ErrDamaged) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A call ends with its context, also while another process keeps the write lock.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	holder, waiter := open(t, path), open(t, path)
	tx, err := holder.write.Begin() // takes the lock
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()

	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := waiter.Put(ctx, rendezvous.BucketTokens, "k", nil, rendezvous.AnyRevision)
		result <- err
	}()
	// Reading goes on meanwhile.
	if _, err := waiter.Get(t.Context(), rendezvous.BucketTokens, "k"); !errors.Is(err, rendezvous.ErrNotFound) {
		t.Errorf("read: %v", err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	// Without patience of its own it says who is in the way.
	if _, err := waiter.write.Exec("PRAGMA busy_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	if _, err := waiter.Put(t.Context(), rendezvous.BucketTokens, "k", nil, rendezvous.AnyRevision); !errors.Is(err, sqlitefile.ErrBusy) {
		t.Errorf("write: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	put(t, waiter, rendezvous.BucketTokens, "k", "v")
}
