package main

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What the stores of both sides have beside files in step is at most 5% of a node_modules, whose files
// have 4.9 KB in the middle: less than 245 bytes for a file, with its part of a directory.
func TestStoresBesideSmallFiles(t *testing.T) {
	t.Parallel()
	const files, most = 3000, 245
	p := newSyncPair(t)
	for i := range files {
		path := filepath.Join(p.here, fmt.Sprintf("node_modules/package-%03d/dist/module%d/file%d.js", i/20, i/10%2, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, fmt.Appendf(nil, "file %d\n", i), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.serve()
	p.sync().want(t, 0)
	p.server.end(syscall.SIGTERM)
	for _, store := range []string{p.state, p.store} {
		p.run("fsck", "--workspace", strings.TrimSuffix(store, ".db"), "--store", store).want(t, 0)
		db, err := sql.Open("sqlite", store)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var bytes int
		err = db.QueryRow(`SELECT sum(pgsize) FROM dbstat WHERE name IN
			(SELECT name FROM sqlite_schema WHERE tbl_name IN ('node', 'name', 'part', 'chunk', 'disk_dir', 'disk_entry', 'disk_block'))`).Scan(&bytes)
		if n := bytes / files; err != nil || n > most {
			t.Errorf("%s has %d bytes of rows for a file, more than %d: %v", filepath.Base(store), n, most, err)
		}
	}
}
