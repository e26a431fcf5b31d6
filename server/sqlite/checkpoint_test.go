package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// quietly runs a test with a database whose clock costs no time.
func quietly(t *testing.T, fn func(t *testing.T, db *DB)) {
	t.Helper()
	path := emptyCopy(t)
	synctest.Test(t, func(t *testing.T) {
		db, err := Open(t.Context(), Config{Path: path, Durability: none, Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		fn(t, db)
		check(t, db)
	})
}

// put commits a row of so many bytes in a table of the test's own.
func put(t testing.TB, db *DB, size int) {
	t.Helper()
	err := db.update(context.Background(), func(c *conn) error {
		if err := c.exec("CREATE TABLE IF NOT EXISTS filler (x)"); err != nil {
			return err
		}
		return c.exec("INSERT INTO filler VALUES (?)", make([]byte, size))
	})
	if err != nil {
		t.Error(err)
	}
}

// A store to which nothing is written any more has no log beside it.
func TestIdleStoreHasNoLog(t *testing.T) {
	quietly(t, func(t *testing.T, db *DB) {
		wal := db.path + "-wal"
		for range 2 {
			put(t, db, 1<<20)
			time.Sleep(quietTime - time.Second)
			put(t, db, 1<<20)
			time.Sleep(quietTime - time.Second)
			if size(t, wal) < 2<<20 {
				t.Errorf("the log has %d bytes while something is written", size(t, wal))
			}
			time.Sleep(2 * quietTime)
			if n := size(t, wal); n != 0 {
				t.Errorf("the log has %d bytes", n)
			}
		}
	})
}

// A view that is open keeps the log until it ends.
func TestIdleStoreIsRead(t *testing.T) {
	quietly(t, func(t *testing.T, db *DB) {
		put(t, db, 1<<20)
		begun, end := make(chan struct{}), make(chan struct{})
		go func() {
			err := db.view(context.Background(), func(c *conn) error {
				var n int
				err := c.row("SELECT count(*) FROM filler").Scan(&n)
				close(begun)
				<-end
				return err
			})
			if err != nil {
				t.Error(err)
			}
			close(end)
		}()
		<-begun
		put(t, db, 1<<20)
		time.Sleep(10 * quietTime)
		if n := size(t, db.path+"-wal"); n < 2<<20 {
			t.Errorf("the log has %d bytes", n)
		}
		end <- struct{}{}
		<-end
		time.Sleep(2 * quietTime)
		if n := size(t, db.path+"-wal"); n != 0 {
			t.Errorf("the log has %d bytes", n)
		}
	})
}

// Where little is written all the time, as by a command that prints a line now and then, the
// log of what was much is cut too.
func TestLogOfLittle(t *testing.T) {
	quietly(t, func(t *testing.T, db *DB) {
		put(t, db, 2*quietBytes)
		for range 7 {
			time.Sleep(quietTime/3 + time.Millisecond) // never when the checkpointer looks
			put(t, db, 100)
		}
		if n := size(t, db.path+"-wal"); n > quietBytes {
			t.Errorf("the log has %d bytes", n)
		}
	})
}

// Commits do not wait for the log to be moved, until it is as long as it may be. Then it
// begins anew.
func TestLogIsMovedBesideCommits(t *testing.T) {
	quietly(t, func(t *testing.T, db *DB) {
		own := <-db.checkpoints.conn // as while the log is moved
		frames := db.checkpoints.frames.Load
		done := make(chan struct{})
		go func() {
			defer close(done)
			for frames() < 3*maxLogPages/4 {
				put(t, db, 100<<10)
			}
			for last := int64(0); frames() >= last; {
				last = frames()
				put(t, db, 100<<10)
			}
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("nothing bounds the log")
		default:
		}
		if n := frames(); n < maxLogPages || n > maxLogPages+100 {
			t.Errorf("the log has %d pages", n)
		}
		db.checkpoints.conn <- own
		<-done
		if n := frames(); n > 100 {
			t.Errorf("the log has %d pages, and does not begin anew", n)
		}
	})
}

// What the checkpointer moves is all there after a crash: the copy is of a store that was not
// closed.
func TestMovedLogIsWhole(t *testing.T) {
	db := openCopy(t)
	const rows = 400
	for range rows {
		put(t, db, 100<<10)
	}
	dir := t.TempDir()
	own := <-db.checkpoints.conn // nothing is moved while it is copied
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(db.path + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "copy"+suffix), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db.checkpoints.conn <- own
	again := openAs(t, Config{Path: filepath.Join(dir, "copy"), Durability: none})
	var n int
	err := again.view(t.Context(), func(c *conn) error { return c.row("SELECT count(*) FROM filler").Scan(&n) })
	if err != nil || n != rows {
		t.Errorf("%d of %d rows, %v", n, rows, err)
	}
}
