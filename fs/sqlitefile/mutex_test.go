package sqlitefile

import (
	"database/sql/driver"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
)

// A connection works without its mutex, and a second one beside it. What is no connection of the
// driver is refused.
func TestUnlock(t *testing.T) {
	dsn := DSN(filepath.Join(t.TempDir(), "x.db"), 0)
	for range 2 {
		c, err := new(sqlite.Driver).Open(dsn)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := Unlock(c)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			lock()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		s, err := c.Prepare("CREATE TABLE IF NOT EXISTS t (a)")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Exec(nil); err != nil { //nolint:staticcheck // as long as the driver has it
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []driver.Conn{nil, strange{}, &strange{}} {
		if _, err := Unlock(c); err == nil {
			t.Errorf("%T is a connection of the driver", c)
		}
	}
}

// strange has another db than the driver's.
type strange struct {
	driver.Conn
	db string //nolint:unused // by reflection
}
