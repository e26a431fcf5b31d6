package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// The reserve is there while a store is used, and content is refused while it is not.
func TestReserve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	size := func() int64 {
		info, err := os.Stat(reservePath(path))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	if size() != reserveBytes || db.Tight() {
		t.Fatalf("the reserve has %d bytes", size())
	}
	if !db.UseReserve() || size() != 0 || !db.Tight() {
		t.Error("the reserve was not used")
	}
	if db.UseReserve() {
		t.Error("the reserve was used twice")
	}
	// Nobody can make it again while something else has its name.
	if err := os.Mkdir(reservePath(path), 0o700); err != nil {
		t.Fatal(err)
	}
	data := tree.Data{Hash: tree.Sum([]byte("x")), Bytes: []byte("x")}
	forest := tree.New(db.Tree(), tree.Config{})
	if _, err := forest.PutChunks(t.Context(), data); !errors.Is(err, sqlitefile.ErrFull) {
		t.Errorf("content is taken without a reserve: %v", err)
	}
	if err := os.Remove(reservePath(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := forest.PutChunks(t.Context(), data); err != nil {
		t.Error(err)
	}
	if size() != reserveBytes || db.Tight() {
		t.Errorf("the reserve has %d bytes", size())
	}
}
