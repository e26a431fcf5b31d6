package sqlite

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// older makes a file that has the first migrations only, and what text puts into it.
func older(t *testing.T, migrations int, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "older.db")
	f, err := format()
	if err != nil {
		t.Fatal(err)
	}
	names, err := iofs.Glob(f.Migrations, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	db := raw(t, path)
	for _, name := range names[:migrations] {
		step, err := iofs.ReadFile(f.Migrations, name)
		if err == nil {
			_, err = db.Exec(string(step))
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, migrations) + text); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a store knew of a directory by whole paths it knows by directories and names, and it finds
// parts by their hashes.
func TestOlderStoreIsMadeSmaller(t *testing.T) {
	paths := []string{"", "a", "a/b", "a/b/c", "a-b", "a0", "ü", "ü/ö ö", "ü/ö ö/é.txt", "ü/ö ö/'x'", "z.", "z./."}
	var text strings.Builder
	for root := range 2 {
		fmt.Fprintf(&text, "INSERT INTO disk_root VALUES (%d, 't%d', '/w', x'00');\n", root+1, root)
		for i, p := range paths {
			fmt.Fprintf(&text, "INSERT INTO disk_stat VALUES (%d, '%s', x'%02x');\n", root+1, strings.ReplaceAll(p, "'", "''"), 16*root+i)
		}
	}
	h, other := tree.Sum([]byte("x")), tree.Sum([]byte("y"))
	copy(other[:8], h[:8]) // they begin with the same
	fmt.Fprintf(&text, "INSERT INTO part VALUES (7, 0, x'%s', 1), (7, 1, x'%s', 1), (8, 0, x'%s', 1);", h, other, h)
	db := open(t, older(t, 7, text.String()))
	updateRows(t, db, func(rows disk.Rows) error {
		for root := range 2 {
			r, err := rows.DiskRoot(fmt.Sprint("t", root), "/w")
			if err != nil {
				return err
			}
			got, want := map[string]byte{}, map[string]byte{}
			for i, p := range paths {
				want[p] = byte(16*root + i)
				if stat, err := rows.DiskStat(r.ID, p); err != nil || len(stat) != 1 || stat[0] != want[p] {
					t.Errorf("%q of root %d: %v, %v", p, root, stat, err)
				}
			}
			err = rows.DiskStats(r.ID, func(path string, stat []byte) error {
				got[path] = stat[0]
				return nil
			})
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		}
		return nil
	})
	err := db.Tree().Update(t.Context(), func(tx tree.Tx) error {
		for hash, want := range map[tree.Hash]int{h: 2, other: 1, tree.Sum([]byte("z")): 0} {
			uses, err := tx.Uses(hash, 10)
			if err != nil || len(uses) != want {
				t.Errorf("%v has uses %v, %v", hash, uses, err)
			}
			if is, err := tx.Referenced(hash); err != nil || is != (want > 0) {
				t.Error(is, err)
			}
		}
		n := map[tree.Hash]int{}
		err := tx.CountUses([]tree.Hash{h, other}, 10, func(hash tree.Hash, parts int) error {
			n[hash] = parts
			return nil
		})
		if n[h] != 2 || n[other] != 1 {
			t.Error(n)
		}
		return errors.Join(err, tx.CutParts(7, 0), tx.CutParts(8, 0)) // or the store is none
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A file costs few bytes of rows beside a directory: F5.
func TestBytesPerFile(t *testing.T) {
	const files, most = 4000, 300
	db := open(t, temporary(t))
	forest := tree.New(db.Tree(), tree.Config{})
	of, err := forest.Tree(t.Context(), tree.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	size := func() (bytes int64) {
		t.Helper()
		err := db.view(t.Context(), func(c *conn) error {
			return c.row("SELECT sum(payload) FROM dbstat").Scan(&bytes)
		})
		if err != nil {
			t.Fatal(err)
		}
		return bytes
	}
	before := size()
	_, err = of.Update(t.Context(), func(e *tree.Edit) error {
		rows, _ := e.Tx().(disk.Rows)
		r := disk.Root{Tree: tree.DefaultName, Mount: "/w", State: []byte{}}
		if err := rows.PutDiskRoot(&r); err != nil {
			return err
		}
		var stats []disk.Row
		for i := range files {
			path := fmt.Sprintf("node_modules/package-%03d/dist/module/file%05d.js", i/40, i)
			text := fmt.Appendf(nil, "content of %d", i)
			entry := tree.Entry{
				Kind: tree.KindFile, Path: "/w/" + path, Mode: 0o644, MTime: e.Now(), Size: int64(len(text)),
				Parts: []tree.Part{{Hash: tree.Sum(text), Size: int64(len(text))}},
			}
			if _, err := e.Apply(&entry, tree.Located); err != nil {
				return err
			}
			stats = append(stats, disk.Row{Path: path, Stat: make([]byte, 38)})
		}
		return rows.PutDiskStats(r.ID, stats)
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := (size() - before) / files; n > most {
		t.Errorf("%d bytes of rows for a file, more than %d", n, most)
	}
}
