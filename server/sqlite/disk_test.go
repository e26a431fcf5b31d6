package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// updateRows runs fn in an update.
func updateRows(t *testing.T, db *DB, fn func(disk.Rows) error) {
	t.Helper()
	err := db.Tree().Update(t.Context(), func(tx tree.Tx) error {
		rows, ok := tx.(disk.Rows)
		if !ok {
			return errors.New("a transaction has no rows of directories")
		}
		return fn(rows)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDiskRoot(t *testing.T) {
	db := openCopy(t)
	updateRows(t, db, func(rows disk.Rows) error {
		r, err := rows.DiskRoot("default", "/workspace")
		if err != nil || r.ID != 0 || r.Tree != "default" || r.Mount != "/workspace" {
			t.Errorf("%+v, %v", r, err)
		}
		r.State = []byte("one")
		other := disk.Root{Tree: "default", Mount: "/other", State: []byte("two")}
		if err := errors.Join(rows.PutDiskRoot(&r), rows.PutDiskRoot(&other)); err != nil {
			return err
		}
		id := r.ID
		r.State = []byte("three")
		if err := rows.PutDiskRoot(&r); err != nil || r.ID != id || id == 0 || other.ID == id {
			t.Errorf("%d, %d, %v; other %d", id, r.ID, err, other.ID)
		}
		got, err := rows.DiskRoot("default", "/workspace")
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("-put +got:\n%s", diff)
		}
		return err
	})
}

func TestDiskStats(t *testing.T) {
	db := openCopy(t)
	updateRows(t, db, func(rows disk.Rows) error {
		one, two := disk.Root{Tree: "a", Mount: "/", State: []byte{}}, disk.Root{Tree: "b", Mount: "/", State: []byte{}}
		if err := errors.Join(rows.PutDiskRoot(&one), rows.PutDiskRoot(&two)); err != nil {
			return err
		}
		list := func(root int64) string {
			var all []string
			err := rows.DiskStats(root, func(path string, stat []byte) error {
				all = append(all, path+"="+string(stat))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			return strings.Join(all, " ")
		}
		put := func(root int64, text string) {
			var all []disk.Row
			for _, p := range strings.Fields(text) {
				path, stat, _ := strings.Cut(p, "=")
				all = append(all, disk.Row{Path: path, Stat: []byte(stat)})
			}
			if err := rows.PutDiskStats(root, all); err != nil {
				t.Error(err)
			}
		}
		put(one.ID, "d=1 d/x=2 d/x/y=3 d-e=4 d0=5 =0")
		put(two.ID, "d=other d/x=other")
		put(one.ID, "d/x=22")
		for _, step := range []struct{ remove, want string }{
			{"none", "=0 d=1 d-e=4 d0=5 d/x=22 d/x/y=3"},
			{"d>ü", "=0 d-e=4 d0=5 ü=1 ü/x=22 ü/x/y=3"},
			{"ü>d/é", "=0 d-e=4 d0=5 d/é=1 d/é/x=22 d/é/x/y=3"},
			{"d/é>d", "=0 d=1 d-e=4 d0=5 d/x=22 d/x/y=3"},
			{"d/x", "=0 d=1 d-e=4 d0=5"},
			{"d", "=0 d-e=4 d0=5"},
			{"", ""},
		} {
			var err error
			if from, to, ok := strings.Cut(step.remove, ">"); ok {
				err = rows.MoveDiskStats(one.ID, from, to)
			} else {
				err = rows.DeleteDiskStats(one.ID, step.remove)
			}
			if err != nil {
				t.Error(err)
			}
			if got := list(one.ID); got != step.want {
				t.Errorf("without %q: %s; want %s", step.remove, got, step.want)
			}
		}
		if got := list(two.ID); got != "d=other d/x=other" {
			t.Errorf("the other root has %s", got)
		}
		// More than fit one statement.
		var many []disk.Row
		for i := range 2*bulkRows[0] + bulkRows[1] + 3 {
			many = append(many, disk.Row{Path: fmt.Sprintf("f%04d", i), Stat: []byte{byte(i)}})
		}
		if err := rows.PutDiskStats(one.ID, many); err != nil {
			return err
		}
		n := 0
		return rows.DiskStats(one.ID, func(path string, stat []byte) error {
			if path != many[n].Path || stat[0] != byte(n) {
				t.Errorf("row %d is %s %v", n, path, stat)
			}
			n++
			return nil
		})
	})
}

func TestDiskJournal(t *testing.T) {
	db := openCopy(t)
	updateRows(t, db, func(rows disk.Rows) error {
		one, two := disk.Root{Tree: "a", Mount: "/", State: []byte{}}, disk.Root{Tree: "b", Mount: "/", State: []byte{}}
		if err := errors.Join(rows.PutDiskRoot(&one), rows.PutDiskRoot(&two)); err != nil {
			return err
		}
		for i, text := range []string{"first", "second", "third"} {
			added, err := rows.AddDiskJournal(one.ID, []byte(text))
			if err != nil {
				return err
			}
			if last, err := rows.LastDiskJournal(one.ID); last != added || err != nil {
				t.Errorf("row %d was added, and the last is %d, %v", added, last, err)
			}
			if _, err := rows.AddDiskJournal(two.ID, []byte{byte(i)}); err != nil {
				return err
			}
		}
		read := func(root, after int64) (text string, ids []int64) {
			err := rows.DiskJournal(root, after, func(id int64, paths []byte) error {
				text, ids = text+" "+string(paths), append(ids, id)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			return text, ids
		}
		text, ids := read(one.ID, 0)
		if text != " first second third" {
			t.Error(text)
		}
		if text, _ := read(one.ID, ids[0]); text != " second third" {
			t.Error(text)
		}
		last := func(root, want int64) {
			t.Helper()
			if id, err := rows.LastDiskJournal(root); id != want || err != nil {
				t.Errorf("the last row is %d, %v; want %d", id, err, want)
			}
		}
		last(one.ID, ids[2])
		last(one.ID+two.ID, 0)
		if err := rows.DeleteDiskJournal(one.ID, ids[:2]); err != nil {
			return err
		}
		if text, _ := read(one.ID, 0); text != " third" {
			t.Error(text)
		}
		if text, _ := read(two.ID, 0); len(text) != 6 {
			t.Errorf("the other root has %q", text)
		}
		// An error of the function is the call's.
		enough := errors.New("enough")
		if err := rows.DiskJournal(two.ID, 0, func(int64, []byte) error { return enough }); !errors.Is(err, enough) {
			t.Error(err)
		}
		return nil
	})
}

// They belong to the transaction: what fails leaves nothing.
func TestDiskRowsRollBack(t *testing.T) {
	db := openCopy(t)
	boom := errors.New("boom")
	err := db.Tree().Update(t.Context(), func(tx tree.Tx) error {
		rows, _ := tx.(disk.Rows)
		r := disk.Root{Tree: "a", Mount: "/", State: []byte{}}
		err := rows.PutDiskRoot(&r)
		if err == nil {
			_, err = rows.AddDiskJournal(r.ID, []byte("x"))
		}
		return errors.Join(err, boom)
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	updateRows(t, db, func(rows disk.Rows) error {
		if r, err := rows.DiskRoot("a", "/"); err != nil || r.ID != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		return nil
	})
}
