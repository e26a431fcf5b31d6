package sqlite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/wsd-dev/wsd/fs/tree"
)

// An error that comes with rows that were put before fails the transaction, whatever is
// made of it by then.
func TestNewRowsThatFail(t *testing.T) {
	db := openCopy(t)
	theTree(t, db)
	put := func(tx tree.Tx, ns int64) error {
		n := tree.Node{Namespace: ns, Kind: tree.KindFile}
		return errors.Join(tx.PutNode(&n), tx.PutName(tree.Name{Parent: 1, Name: fmt.Sprint(n.Ino), Child: n.Ino, Namespace: ns}))
	}
	for name, look := range map[string]func(tx tree.Tx){
		"at the end": func(tree.Tx) {},
		"when it is asked for": func(tx tree.Tx) {
			if _, err := tx.Node(1); err == nil {
				t.Error("no error")
			}
			if _, err := tx.Node(1); err == nil {
				t.Error("no error the second time")
			}
		},
		"when there are more": func(tx tree.Tx) {
			var err error
			for range bulkRows[0] {
				err = errors.Join(err, put(tx, 1))
			}
			if err == nil {
				t.Error("no error")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := db.Tree().Update(t.Context(), func(tx tree.Tx) error {
				err := errors.Join(put(tx, 1), put(tx, 99))
				look(tx)
				return err
			})
			if err == nil {
				t.Error("a node of no tree was kept")
			}
			err = db.Tree().View(context.Background(), func(tx tree.Tx) error {
				list, err := tx.Children(1, "", 10)
				if len(list) > 0 {
					t.Error(list)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
