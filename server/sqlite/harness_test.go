package sqlite

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
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
