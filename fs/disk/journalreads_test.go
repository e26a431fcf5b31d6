package disk_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// journalReads is a store that counts the rows of journals that are read.
type journalReads struct {
	tree.Store
	rows atomic.Int64
}

func (s *journalReads) View(ctx context.Context, fn func(tree.Tx) error) error {
	return s.Store.View(ctx, func(tx tree.Tx) error {
		rows, _ := tx.(disk.Rows)
		return fn(&journalTx{Tx: tx, Rows: rows, read: &s.rows})
	})
}

type journalTx struct {
	tree.Tx
	disk.Rows
	read *atomic.Int64
}

func (tx *journalTx) DiskJournal(root, after int64, fn func(int64, []byte) error) error {
	return tx.Rows.DiskJournal(root, after, func(id int64, paths []byte) error {
		tx.read.Add(1)
		return fn(id, paths)
	})
}

// Rows of the journal that were just written are not read back, in however many pages they are brought.
// Those of a server that was killed are.
func TestJournalIsNotReadBack(t *testing.T) {
	b := newBench(t, disk.Config{})
	b.settle()
	b.ws.Shrink()
	store := &journalReads{Store: b.gate.Store}
	b.gate.Store = store
	want := map[string]string{}
	var list []tree.Entry
	for _, name := range []string{"b", "c", "d", "e", "g"} {
		list = append(list, b.file("/workspace/"+name, name, 0o644))
		want[name] = "file 0644 " + name
	}
	b.apply(list...)
	b.want(want)
	if n := store.rows.Load(); n != 0 {
		t.Errorf("%d rows were read back", n)
	}
	b.pend(b.file("/workspace/f", "f", 0o644))
	b.settle()
	if n := store.rows.Load(); n == 0 {
		t.Error("nothing was read of what was left to do")
	}
	want["f"] = "file 0644 f"
	b.want(want)
}
