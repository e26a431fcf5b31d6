package sqlite

import (
	"context"
	"errors"
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

// A transaction that was told of no chunk finds those that it puts from then on, and one that begins
// later does, too.
func TestFirstChunk(t *testing.T) {
	t.Parallel()
	put := map[string]func(tx tree.Tx, h tree.Hash) (bool, error){
		"in the store": func(tx tree.Tx, h tree.Hash) (bool, error) { return tx.PutChunk(h, []byte("text"), 1) },
		"in an object": func(tx tree.Tx, h tree.Hash) (bool, error) { return tx.PutPlaced(h, 4, tree.Place{Object: 1}, 1) },
		"in an object, as expected": func(tx tree.Tx, h tree.Hash) (bool, error) {
			if err := tx.Expect([]tree.Hash{h}); err != nil {
				return false, err
			}
			is, err := tx.PutPlaced(h, 4, tree.Place{Object: 1}, 1)
			return is, errors.Join(err, tx.Expect(make([]tree.Hash, maxExpected))) // it is forgotten
		},
	}
	for name, put := range put {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, h := openCopy(t).Tree(), tree.Sum([]byte("text"))
			find := func(tx tree.Tx) error {
				c, err := tx.Chunk(h)
				if err == nil && c.Size != 4 {
					t.Errorf("it has %d bytes", c.Size)
				}
				return err
			}
			for range 2 {
				err := s.Update(t.Context(), func(tx tree.Tx) error {
					if err := find(tx); !errors.Is(err, tree.ErrNoRow) {
						t.Errorf("before: %v", err)
					}
					if is, err := put(tx, h); !is || err != nil {
						t.Errorf("put: %v, %v", is, err)
					}
					return find(tx)
				})
				if err == nil {
					err = s.View(t.Context(), find)
				}
				if err == nil {
					err = s.Update(t.Context(), func(tx tree.Tx) error { return errors.Join(tx.DeleteChunk(h), tx.DeleteChunk(tree.Hash{})) })
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
