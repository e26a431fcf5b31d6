package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// open opens a database that is checked as it closes, when the test ends.
func open(t testing.TB, path string) *DB { return openAs(t, Config{Path: path}) }

func openAs(t testing.TB, cfg Config) *DB {
	t.Helper()
	db, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, db) })
	return db
}

// empty is a new database's file: to make one takes longer than most tests with it.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "wsd-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	db, err := Open(context.Background(), Config{Path: filepath.Join(dir, "db"), Durability: none})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(db.Path())
})

// openCopy opens a copy of an empty database, as little durable as can be.
func openCopy(t testing.TB) *DB {
	t.Helper()
	return openAs(t, Config{Path: emptyCopy(t), Durability: none, Readers: 2})
}

func emptyCopy(t testing.TB) string {
	t.Helper()
	data, err := empty()
	if err != nil {
		t.Fatal(err)
	}
	path := temporary(t)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// check is what every test database goes through as it closes.
func check(t testing.TB, db *DB) {
	t.Helper()
	ctx := context.Background()
	if err := db.Check(ctx); err != nil {
		t.Error(err)
	}
	if _, err := tree.New(db.Tree(), tree.Config{}).Verify(ctx); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func temporary(t testing.TB) string { return filepath.Join(t.TempDir(), "workspace.db") }

// raw opens a file past us.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func theTree(t testing.TB, db *DB) (*tree.Forest, *tree.Tree) {
	t.Helper()
	f := tree.New(db.Tree(), tree.Config{})
	tr, err := f.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	return f, tr
}

func write(t testing.TB, tr *tree.Tree, path, text string) int64 {
	t.Helper()
	rev, err := tr.WriteFile(t.Context(), path, strings.NewReader(text), tree.File{})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}
