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

// Whatever has been forgotten of the names of new directories, they are found, and no others.
func TestManyNamesInNewDirectories(t *testing.T) {
	db := openCopy(t)
	_, tr := theTree(t, db)
	const dirs, files = 5, maxNamed / 4
	_, err := tr.Update(t.Context(), func(e *tree.Edit) error {
		for d := range dirs {
			for f := range files {
				if err := e.PutFile(fmt.Sprintf("/d%d/f%d", d, f), tree.File{}); err != nil {
					return err
				}
			}
			if d > 0 { // a name of another node
				if err := e.Rename(fmt.Sprintf("/d%d/f0", d-1), fmt.Sprintf("/d%d/moved", d)); err != nil {
					return err
				}
			}
		}
		for d := range dirs {
			for name, want := range map[string]bool{"f1": true, fmt.Sprintf("f%d", files-1): true, "f0": d == dirs-1, "moved": d > 0, "none": false} {
				if _, err := e.Lstat(fmt.Sprintf("/d%d/%s", d, name)); (err == nil) != want {
					t.Errorf("%s in %d: %v", name, d, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := tr.Info(t.Context())
	if err != nil || info.Files != dirs*files {
		t.Error(info, err)
	}
}
