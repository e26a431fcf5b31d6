package sqlitefile

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	sqlite3 "modernc.org/sqlite/lib"
)

// Unlock takes the mutex from a connection of the driver "sqlite", as SQLITE_OPEN_NOMUTEX does: the
// driver opens every connection with one, and SQLite takes it for each value of each row. From then on
// only one goroutine may use the connection at a time. lock gives the mutex back, to be freed when the
// connection is closed. An error means that the connection has its mutex still.
func Unlock(c driver.Conn) (lock func(), err error) {
	v := reflect.ValueOf(c)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("a connection of the driver is a %T", c)
	}
	field := v.FieldByName("db")
	if field.Kind() != reflect.Uintptr || field.Uint() == 0 {
		return nil, errors.New("a connection of the driver has no pointer to SQLite's")
	}
	p := uintptr(field.Uint())
	db := *(**sqlite3.Tsqlite3)(unsafe.Pointer(&p)) //nolint:gosec // SQLite's memory, which Go does not move
	mutex := db.Fmutex
	db.Fmutex = 0
	return func() { db.Fmutex = mutex }, nil
}
