package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestSteps(t *testing.T) {
	for name, tt := range map[string]struct {
		dir  fstest.MapFS
		want int // -1 for an error
	}{
		"none":      {fstest.MapFS{}, 0},
		"two":       {fstest.MapFS{"0001_a.sql": file(""), "0002_b.sql": file(""), "README": file("")}, 2},
		"a gap":     {fstest.MapFS{"0001_a.sql": file(""), "0003_b.sql": file("")}, -1},
		"twice":     {fstest.MapFS{"0001_a.sql": file(""), "0001_b.sql": file("")}, -1},
		"no number": {fstest.MapFS{"first.sql": file("")}, -1},
	} {
		f := Format{Migrations: tt.dir}
		if n, err := f.Steps(); (err != nil) != (tt.want < 0) || err == nil && n != tt.want {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// A file takes the steps that it lacks, each whole or not at all, and several at once.
func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a?b", "x#.db")
	if narrowed, err := Prepare(path); narrowed || err != nil {
		t.Fatal(narrowed, err)
	}
	migrate := func(steps ...string) error {
		dir := fstest.MapFS{}
		for i, text := range steps {
			dir["000"+string(rune('1'+i))+"_x.sql"] = file(text)
		}
		db, err := sql.Open("sqlite", DSN(path, 5*time.Second, "_txlock=immediate"))
		if err != nil {
			return err
		}
		defer db.Close()
		f := Format{ApplicationID: 0x1234, Migrations: dir, Fresh: []string{"PRAGMA page_size = 1024"}}
		if err := f.Migrate(context.Background(), db); err != nil {
			return err
		}
		return IntegrityCheck(context.Background(), db)
	}
	one, two := "CREATE TABLE a (x)", "CREATE TABLE b (x); INSERT INTO b VALUES (1)"
	results := make(chan error)
	for range 4 {
		go func() { results <- migrate(one) }()
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if err := migrate(one, two+"; INSERT INTO nothing VALUES (1)"); err == nil || !strings.Contains(err.Error(), "migration 2") {
		t.Error(err)
	}
	for range 2 {
		if err := migrate(one, two); err != nil {
			t.Error(err)
		}
	}
	if err := migrate(one); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	db, err := sql.Open("sqlite", DSN(path, time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]int{"PRAGMA page_size": 1024, "PRAGMA user_version": 2, "PRAGMA application_id": 0x1234, "SELECT count(*) FROM b": 1} {
		var got int
		if err := db.QueryRowContext(t.Context(), query).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", query, got, err, want)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if narrowed, err := Prepare(path); !narrowed || err != nil {
		t.Error(narrowed, err)
	}
}

// Whoever writes to a file that is not WAL yet is waited for, as long as for any lock.
func TestMigrateWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		held time.Duration
		busy bool
	}{"ended in time": {4 * time.Second, false}, "held": {6 * time.Second, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "x.db")
				db := [2]*sql.DB{}
				for i := range db {
					var err error
					if db[i], err = sql.Open("sqlite", DSN(path, 5*time.Second, "_txlock=immediate")); err != nil {
						t.Fatal(err)
					}
					defer db[i].Close()
				}
				if _, err := db[0].ExecContext(t.Context(), "CREATE TABLE a (x)"); err != nil {
					t.Fatal(err)
				}
				writing, err := db[0].BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer writing.Rollback() //nolint:errcheck // After a commit it has nothing to do.
				result := make(chan error)
				go func() {
					conn, err := db[1].Conn(t.Context())
					if err == nil {
						err = errors.Join(toWAL(t.Context(), conn), conn.Close())
					}
					result <- err
				}()
				time.AfterFunc(tt.held, func() { _ = writing.Commit() })
				if err := <-result; isBusy(err) != tt.busy || err != nil && !tt.busy {
					t.Error(err)
				}
			})
		})
	}
}

func TestExplain(t *testing.T) {
	db, err := sql.Open("sqlite", DSN(filepath.Join(t.TempDir(), "none", "x.db"), time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = Explain("open", "the store /x", db.PingContext(t.Context()))
	if !errors.Is(err, ErrReadOnly) || !strings.HasPrefix(err.Error(), "open the store /x: ") || !strings.Contains(err.Error(), "owner and mode") {
		t.Error(err)
	}
	again := Explain("write", "the store /x", fmt.Errorf("begin: %w", err))
	if text := again.Error(); !errors.Is(again, ErrReadOnly) || text != "begin: "+err.Error() {
		t.Errorf("explained twice: %v", again)
	}
	other := errors.New("other")
	if err := Explain("read", "f", other); !errors.Is(err, other) || err.Error() != "read f: other" {
		t.Error(err)
	}
	if err := Explain("read", "f", context.Canceled); err != context.Canceled {
		t.Error(err)
	}
	if err := Explain("read", "f", nil); err != nil {
		t.Error(err)
	}
}

// A link to nothing is not made a file of, wherever it leads; one to a file is.
func TestSL7DanglingLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "elsewhere", "real.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	for range 2 { // also when the directory is there
		if _, err := Prepare(link); err == nil || !strings.Contains(err.Error(), "link to something that does not exist") {
			t.Errorf("a dangling link: %v", err)
		}
		if _, err := os.Lstat(real); err == nil {
			t.Error("a file was made where the link leads")
		}
		if err := os.MkdirAll(filepath.Dir(real), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Prepare(real); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(link); err != nil {
		t.Errorf("a link to a file: %v", err)
	}
}
