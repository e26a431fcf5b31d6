package disk_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/fs/disk"
	"github.com/wsd-dev/wsd/fs/tree"
)

// A store of before objects has the content of every file. It is read as it is, and a collection
// leaves to the directory what the directory has.
func TestStoreOfBeforeObjects(t *testing.T) {
	b := newBench(t, disk.Config{})
	long := strings.Repeat("l", tree.ChunkSize) + "ong"
	b.write("f", "text of f")
	b.write("long", long)
	b.write("changed", "as it was")
	b.settle()
	b.close()
	b.openStore() // without a home content is in the store, as it was then
	for _, text := range []string{"text of f", long, "as it was"} {
		b.parts(text)
	}
	b.closeStore()
	old := b.toSchema9(t)
	for _, statement := range []string{
		"DROP INDEX part_hash", "CREATE INDEX part_hash ON part (hash)",
		`CREATE TABLE disk_stat (root INTEGER NOT NULL REFERENCES disk_root (id), path TEXT NOT NULL, stat BLOB NOT NULL,
			PRIMARY KEY (root, path)) STRICT, WITHOUT ROWID`,
		"INSERT INTO disk_stat SELECT d.root, trim(d.path || '/' || e.name, '/'), e.stat FROM disk_dir d JOIN disk_entry e ON e.dir = d.id",
		"DROP TABLE disk_entry", "DROP TABLE disk_dir",
		"DROP INDEX chunk_object", "ALTER TABLE chunk DROP COLUMN at", "ALTER TABLE chunk DROP COLUMN object",
		"UPDATE chunk SET seen_ms = 1", "UPDATE meta SET v = 6 WHERE k = 'schema_version'", "PRAGMA user_version = 6",
	} {
		if _, err := old.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	inStore := func(want int) {
		t.Helper()
		var n int
		db, err := sql.Open("sqlite", b.store)
		b.must(err)
		b.must(db.QueryRowContext(t.Context(), "SELECT count(*) FROM chunk_data").Scan(&n))
		b.must(db.Close())
		if n != want {
			t.Errorf("%d contents are in the store, not %d", n, want)
		}
	}
	b.must(old.Close())
	inStore(4)

	b.write("changed", "as it is now") // while nobody looked
	b.open()
	b.want(map[string]string{"f": "file 0644 text of f", "long": "file 0644 " + brief([]byte(long)), "changed": "file 0644 as it is now"})
	if got, err := b.forest.Chunk(t.Context(), tree.Sum([]byte("as it was")), nil); string(got) != "as it was" || err != nil {
		t.Errorf("what the store alone has: %q, %v", got, err)
	}
	for start := time.Now(); time.Since(start) < 2*disk.Granularity; { // until the files' times tell
		b.settle()
	}
	if _, err := b.forest.Collect(t.Context(), tree.Policy{}); err != nil {
		t.Error(err)
	}
	b.want(map[string]string{"f": "file 0644 text of f", "long": "file 0644 " + brief([]byte(long)), "changed": "file 0644 as it is now"})
	b.close()
	inStore(1) // what no file has: it is marked, and goes later
	b.open()
}
