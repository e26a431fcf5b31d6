package sqlstate

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// open opens a state whose file is checked when the test ends.
func open(t testing.TB, path string) *State {
	t.Helper()
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test may have closed it itself
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if s, err = Open(context.Background(), Config{Path: path}); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Check(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, s *State, bucket rendezvous.Bucket, key, value string) uint64 {
	t.Helper()
	rev, err := s.Put(t.Context(), bucket, key, []byte(value), rendezvous.AnyRevision)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// Nobody else can read the file, what SQLite puts beside it, or the directories made.
func TestModes(t *testing.T) {
	base := t.TempDir()
	// A path that would be read as options or be decoded if it were not escaped.
	path := filepath.Join(base, "a?mode=ro", "b%41#c", "relay.db")
	s := open(t, path)
	put(t, s, rendezvous.BucketTokens, "k", "v")
	for _, file := range []string{path, path + "-wal", path + "-shm"} {
		if m := mode(t, file); m != 0o600 {
			t.Errorf("%s: mode %v", file, m)
		}
	}
	for _, dir := range []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		if m := mode(t, dir); m != 0o700 {
			t.Errorf("%s: mode %v", dir, m)
		}
	}
}

func TestClosesFileToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := Open(t.Context(), Config{Path: path, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m := mode(t, path); m != 0o600 {
		t.Errorf("mode %v", m)
	}
	if !strings.Contains(log.String(), path) {
		t.Errorf("nothing is said of it: %q", log.String())
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	database := func(name, text string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name, path string
		is         error
		says       string
	}{
		{"noise", file("noise", bytes.Repeat([]byte("not a database. "), 500)), sqlitefile.ErrDamaged, "restore a backup"},
		{"foreign tables", database("foreign", "CREATE TABLE t (a)"), sqlitefile.ErrForeign, "another program"},
		{"foreign id", database("id", "PRAGMA application_id = 7"), sqlitefile.ErrForeign, "another program"},
		{"newer", database("newer", fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 1000", applicationID)), sqlitefile.ErrNewer, "schema 1000"},
		{"directory", dir, nil, "is not a file"},
		{"below a file", filepath.Join(file("plain", nil), "relay.db"), nil, "plain: not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(t.Context(), Config{Path: tt.path})
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%v", err)
			}
		})
	}
}

// What was written is there for the next State, and revisions go on.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "relay.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	first := put(t, s, rendezvous.BucketTokens, "k", "v")
	if err := s.Delete(t.Context(), rendezvous.BucketTokens, "k", first); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	s = open(t, path)
	if second := put(t, s, rendezvous.BucketTokens, "k", "w"); second <= first {
		t.Errorf("revision %d after %d", second, first)
	}
}
