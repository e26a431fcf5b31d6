package sqlite

import "strings"

// A bulk inserts rows, many with one statement: to begin and end a statement takes longer
// than to insert a row.
type bulk struct {
	columns int
	texts   [len(bulkRows)]string
}

// bulkRows is how many rows the statements of a bulk have.
var bulkRows = [...]int{64, 8, 1}

// newBulk makes a bulk of an INSERT without its values, and of what comes behind them.
func newBulk(columns int, insert, conflict string) *bulk {
	b := &bulk{columns: columns}
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	for i, n := range bulkRows {
		b.texts[i] = insert + " VALUES " + row + strings.Repeat(", "+row, n-1) + " " + conflict
	}
	return b
}

// one is the statement for one row.
func (b *bulk) one() string { return b.texts[len(b.texts)-1] }

// full reports whether the values are as many as one statement takes.
func (b *bulk) full(values []any) bool { return len(values) >= b.columns*bulkRows[0] }

// put inserts the rows that some values make up, one after the other.
func (b *bulk) put(c *conn, values []any) error {
	for i, n := range bulkRows {
		for n *= b.columns; len(values) >= n; values = values[n:] {
			if err := c.exec(b.texts[i], values[:n]...); err != nil {
				return err
			}
		}
	}
	return nil
}
