package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/sqlitefile"
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
		return errors.Join(err, tx.DeleteNode(7), tx.DeleteNode(8)) // or the store is none
	})
	if err != nil {
		t.Fatal(err)
	}
}

// schema9 are rows of before migration 0010: a file of one part, of two, of none, a stub and a link; a
// directory that was moved; files that were changed after they had been made; one directory with many
// entries and one with few.
func schema9(t *testing.T) (text string, stats map[string]string) {
	t.Helper()
	var b strings.Builder
	sum := func(text string) tree.Hash { return tree.Sum([]byte(text)) }
	two := []tree.Part{{Hash: sum("first"), Size: tree.ChunkSize}, {Hash: sum("one"), Size: 3}}
	one := []tree.Part{{Hash: sum("one"), Size: 3}}
	fmt.Fprintf(&b, `INSERT INTO ns VALUES (1, 'default', 1, 1796024469117999, 4, 3, %d, '{"synced":true}'), (2, 'other', 9, 5, 0, 1, 0, '{}');
		INSERT INTO disk_root VALUES (1, 'default', '/w', x'00');
		INSERT INTO node (ino, ns, kind, mode, size, nlink, mtime_ns, btime_ns, rev, target, manifest, stub) VALUES
		(1, 1, 2, 493, 0, 1, 1, 1, 0, NULL, NULL, 0), (9, 2, 2, 493, 0, 1, 1, 1, 0, NULL, NULL, 0),
		(2, 1, 2, 493, 0, 1, 1, 1, 1796024469117950, NULL, NULL, 0), (8, 1, 2, 493, 0, 1, 1, 1, 1796024469117951, NULL, NULL, 0),
		(3, 1, 1, 420, 3, 1, 1, 1, 1796024469117952, NULL, x'%s', 0), (4, 1, 1, 420, %d, 1, 1, 1, 1796024469117980, NULL, x'%s', 0),
		(5, 1, 1, 420, 0, 1, 1, 1, 1796024469117953, NULL, x'%s', 0), (6, 1, 1, 420, 7, 1, 1, 1, 1796024469117954, NULL, NULL, 1),
		(7, 1, 3, 511, 0, 1, 1, 1, 1796024469117955, 'there', NULL, 0);
		INSERT INTO part VALUES (3, 0, x'%s', 3), (4, 0, x'%s', %d), (4, 1, x'%s', 3);
		INSERT INTO name VALUES (1, 'd', 2, 1, 1796024469117950), (1, 'moved', 8, 1, 1796024469117990), (2, 'one', 3, 1, 1796024469117952),
		(2, 'two', 4, 1, 1796024469117952), (8, 'none', 5, 1, 1796024469117953), (2, 'stub', 6, 1, 1796024469117954), (2, 'link', 7, 1, 1796024469117955);`,
		2*3+tree.ChunkSize+7, tree.ManifestOf(one), tree.ChunkSize+3, tree.ManifestOf(two), tree.ManifestOf(nil),
		one[0].Hash, two[0].Hash, two[0].Size, two[1].Hash)
	stats = map[string]string{"": "root", "d": "dir"}
	b.WriteString("INSERT INTO disk_dir VALUES (1, 1, ''), (2, 1, 'd');\nINSERT INTO disk_entry VALUES (1, '', x'726f6f74'), (1, 'd', x'646972');\n")
	for i := range 2*oldPage + 300 {
		name, stat := fmt.Sprintf("file-%05d.js", i), string(statOf(i))
		fmt.Fprintf(&b, "INSERT INTO disk_entry VALUES (2, '%s', x'%x');\n", name, stat)
		stats["d/"+name] = stat
	}
	return "BEGIN;" + b.String() + "COMMIT;", stats
}

// statOf is a stat as fs/disk encodes it.
func statOf(i int) []byte {
	b := []byte{1, 0}
	b = binary.AppendUvarint(b, 0o100644)
	b = binary.AppendUvarint(b, 0)
	b = binary.AppendUvarint(b, uint64(2_000_000+i))
	b = binary.AppendVarint(b, int64(1000+i*37%9000))
	b = binary.AppendVarint(b, 1_796_024_469_117_949_806+int64(i)*1_000_000)
	b = binary.AppendVarint(b, int64(i)*1000)
	return binary.AppendVarint(b, 1_796_024_469_117_949_806+int64(i)*1_000_000)
}

// A store with a row for each part, name and entry is brought over: all of it is as it was.
func TestStoreOfRowsIsBroughtOver(t *testing.T) {
	text, stats := schema9(t)
	broughtOver(t, older(t, 9, text), stats)
}

func broughtOver(t *testing.T, path string, stats map[string]string) {
	t.Helper()
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
	if db, err = Open(t.Context(), Config{Path: path}); err != nil { // and stays so
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Tree().View(t.Context(), func(tx tree.Tx) error {
		rows, _ := tx.(disk.Rows)
		got := map[string]string{}
		err := rows.DiskStats(1, func(path string, stat []byte) error { got[path] = string(stat); return nil })
		if diff := cmp.Diff(stats, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		for path, want := range stats {
			if got, err := rows.DiskStat(1, path); string(got) != want || err != nil {
				t.Errorf("%s: %v, %v", path, got, err)
			}
		}
		one, err := tx.Lookup(2, "one")
		want := tree.Child{
			Name: tree.Name{Parent: 2, Name: "one", Child: 3, Namespace: 1, Rev: 1796024469117952},
			Node: tree.Node{
				Ino: 3, Namespace: 1, Kind: tree.KindFile, Mode: 0o644, Size: 3, Links: 1, MTime: 1, BTime: 1, Rev: 1796024469117952,
				Manifest: tree.ManifestOf([]tree.Part{{Hash: tree.Sum([]byte("one")), Size: 3}}),
			},
		}
		if diff := cmp.Diff(want, one); diff != "" || err != nil {
			t.Error(diff, err)
		}
		uses, err := tx.Uses(tree.Sum([]byte("one")), 10)
		if diff := cmp.Diff([]tree.Use{{Ino: 3}, {Ino: 4, Index: 1}}, uses); diff != "" || err != nil {
			t.Error(diff, err)
		}
		for rev, want := range map[int64][]string{
			0: {"d", "link", "moved", "none", "one", "stub", "two"}, 1796024469117953: {"link", "moved", "stub", "two"},
			1796024469117979: {"moved", "two"}, 1796024469117989: {"moved"}, 1796024469117990: nil,
		} {
			var got []string
			note := func(c tree.Child) error { got = append(got, c.Name.Name); return nil }
			err := errors.Join(tx.NamesAfter(1, rev, note), tx.NodesAfter(1, rev, note))
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Error(rev, diff, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A file of a damaged store, which has another size than its only part, consists of what is written to
// it, and of nothing else.
func TestFileOfADamagedStoreIsWritten(t *testing.T) {
	text, _ := schema9(t)
	text += "UPDATE node SET size = 5 WHERE ino = 3; UPDATE ns SET bytes = bytes + 2 WHERE id = 1;"
	one, long := []byte("one"), bytes.Repeat([]byte("l"), tree.ChunkSize)
	for name, damage := range map[string]string{
		"brought over":  "",
		"written since": "UPDATE node SET only = (SELECT hash FROM part WHERE ino = 3), manifest = NULL WHERE ino = 3",
	} {
		broughtOver := older(t, 9, text)
		db, err := Open(t.Context(), Config{Path: broughtOver})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		file := raw(t, broughtOver)
		if _, err := file.Exec(damage); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		store, err := os.ReadFile(broughtOver)
		if err != nil {
			t.Fatal(err)
		}
		for content, data := range map[string][][]byte{
			"nothing": nil, "the same": {one}, "another": {[]byte("two")}, "the same and more": {long, one}, "more": {long, []byte("two")},
		} {
			t.Run(name+" "+content, func(t *testing.T) {
				path := temporary(t)
				if err := os.WriteFile(path, store, 0o600); err != nil {
					t.Fatal(err)
				}
				db := open(t, path)
				forest, tr := theTree(t, db)
				var want []tree.Part
				for _, b := range data {
					want = append(want, tree.Part{Hash: tree.Sum(b), Size: int64(len(b))})
					if _, err := forest.PutChunks(t.Context(), tree.Data{Hash: tree.Sum(b), Bytes: b}); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := tr.Update(t.Context(), func(e *tree.Edit) error {
					return e.PutFile("/d/one", tree.File{Parts: want})
				}); err != nil {
					t.Fatal(err)
				}
				err = db.Tree().View(t.Context(), func(tx tree.Tx) error {
					got, err := tx.Parts(3)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error(diff)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// migrateWith brings a file to schema 10, with what is done at the end of the migration.
func migrateWith(t *testing.T, path string, pragma string, behind func() error) error {
	t.Helper()
	f, err := format()
	if err != nil {
		t.Fatal(err)
	}
	code := f.Code[10]
	f.Code = map[int]func(context.Context, *sql.Tx) error{10: func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(code(ctx, tx), behind())
	}}
	db, err := sql.Open("sqlite", sqlitefile.DSN(path, busyTimeout, "_txlock=immediate"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), pragma); err != nil {
		t.Fatal(err)
	}
	return errors.Join(f.Migrate(t.Context(), db), db.Close())
}

// A wsd that is killed as it brings a store over leaves one that the next opens, and so does one that
// has no room for it: it says so, and the store is that of before.
func TestBringingOverIsAllOrNothing(t *testing.T) {
	text, stats := schema9(t)
	t.Run("killed", func(t *testing.T) {
		path := older(t, 9, text)
		left := filepath.Join(t.TempDir(), "left.db")
		err := migrateWith(t, path, "PRAGMA cache_size = 10", func() error { // pages go to the log early
			for _, end := range []string{"", "-wal"} {
				data, err := os.ReadFile(path + end)
				if err == nil {
					err = os.WriteFile(left+end, data, 0o600)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := size(t, left+"-wal"); n < 50_000 {
			t.Fatalf("the log that is left has only %d bytes", n)
		}
		broughtOver(t, left, stats)
		broughtOver(t, path, stats)
	})
	t.Run("no room", func(t *testing.T) {
		path := older(t, 9, text)
		before := dump(t, path)
		pages := size(t, path) / 4096
		err := migrateWith(t, path, fmt.Sprintf("PRAGMA max_page_count = %d", pages+2), func() error { return nil })
		if err = sqlitefile.Explain("open", "the store", err); !errors.Is(err, sqlitefile.ErrFull) {
			t.Error(err)
		}
		if diff := cmp.Diff(before, dump(t, path)); diff != "" {
			t.Error(diff)
		}
		broughtOver(t, path, stats)
	})
}

// dump is all rows of a file that a migration changes.
func dump(t *testing.T, path string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	db := raw(t, path)
	for _, table := range []string{"ns", "node", "name", "part", "disk_dir", "disk_entry", "sqlite_schema", "meta"} {
		rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(table, err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		for err == nil && rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			err = rows.Scan(values...)
			for i := range values {
				values[i] = *values[i].(*any) //nolint:forcetypeassert // It was made so.
			}
			all[table] = append(all[table], fmt.Sprintf("%v", values))
		}
		if err := errors.Join(err, rows.Err()); err != nil {
			t.Fatal(table, err)
		}
	}
	return all
}

// A file costs few bytes of rows beside a directory: F5.
func TestBytesPerFile(t *testing.T) {
	const files, most = 4000, 170
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
			stats = append(stats, disk.Row{Path: path, Stat: statOf(i)})
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
