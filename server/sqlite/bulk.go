package sqlite

import "strings"

// A bulk inserts rows, or asks about some, many with one statement: to begin and end a statement
// takes longer than to insert a row.
type bulk struct {
	columns int
	texts   [len(bulkRows)]string
}

// bulkRows is how many rows the statements of a bulk have.
var bulkRows = [...]int{64, 8, 1}

// newBulk makes a bulk of what comes before and behind the values of a statement.
func newBulk(columns int, before, behind string) *bulk {
	b := &bulk{columns: columns}
	row := "(?" + strings.Repeat(", ?", columns-1) + ")"
	for i, n := range bulkRows {
		b.texts[i] = before + " VALUES " + row + strings.Repeat(", "+row, n-1) + " " + behind
	}
	return b
}

// one is the statement for one row.
func (b *bulk) one() string { return b.texts[len(b.texts)-1] }

// full reports whether the values are as many as one statement takes.
func (b *bulk) full(values []any) bool { return len(values) >= b.columns*bulkRows[0] }

// put runs the statement for the rows that some values make up, one after the other. more are the
// parameters behind the values.
func (b *bulk) put(c *conn, values []any, more ...any) error {
	return b.pages(values, more, func(text string, args []any) error { return c.exec(text, args...) })
}

// each is put for a query, and calls fn for what is found.
func (b *bulk) each(c *conn, fn func(scanner) error, values []any, more ...any) error {
	return b.pages(values, more, func(text string, args []any) error { return c.each(fn, text, args...) })
}

func (b *bulk) pages(values, more []any, fn func(text string, args []any) error) error {
	for i, n := range bulkRows {
		for n *= b.columns; len(values) >= n; values = values[n:] {
			args := values[:n:n]
			if len(more) > 0 {
				args = append(args, more...)
			}
			if err := fn(b.texts[i], args); err != nil {
				return err
			}
		}
	}
	return nil
}
