package sqlite

import (
	"context"
	"testing"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/fs/tree/treetest"
)

func TestTree(t *testing.T) {
	t.Parallel()
	treetest.Test(t, func(t testing.TB) tree.Store {
		return openCopy(t).Tree()
	})
}

func TestRows(t *testing.T) {
	t.Parallel()
	treetest.Rows(t, func(t testing.TB) tree.Store {
		db, err := Open(t.Context(), Config{Path: temporary(t), Durability: none, Readers: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := sqlitefile.IntegrityCheck(context.Background(), db.pool); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db.Tree()
	})
}
