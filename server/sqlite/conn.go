package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/wsd-dev/wsd/fs/tree"
)

// A conn is one connection with the statements that it has prepared. It is for one
// goroutine at a time.
//
// It is the driver's, without package database/sql between: a connection that stays needs
// no pool, and a third of the time of a short statement went into locking and into values
// whose types were found by reflection.
type conn struct {
	driver.Conn
	stmts map[string]*stmt // by their text, all of which are constants of ours
	args  []driver.NamedValue
}

// A stmt is a prepared statement with its present row. It has one at a time: what is
// called for a row must not run the same statement.
type stmt struct {
	statement
	row row
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func (c *conn) stmt(query string) (*stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	prepared, err := c.Prepare(query)
	if err != nil {
		return nil, err
	}
	s, ok := prepared.(statement)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a statement of the driver is a %T", prepared), prepared.Close())
	}
	c.stmts[query] = &stmt{statement: s}
	return c.stmts[query], nil
}

// named are arguments as the driver takes them. It does not keep them.
func (c *conn) named(args []any) ([]driver.NamedValue, error) {
	c.args = c.args[:0]
	for i, arg := range args {
		switch v := arg.(type) {
		case nil, int64, string, []byte, bool:
		default:
			var err error
			if arg, err = driver.DefaultParameterConverter.ConvertValue(v); err != nil {
				return nil, fmt.Errorf("argument %d: %w", i, err)
			}
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args, nil
}

// exec runs a statement that returns no rows.
func (c *conn) exec(query string, args ...any) error {
	_, err := c.execute(query, args...)
	return err
}

func (c *conn) execute(query string, args ...any) (driver.Result, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, err
	}
	list, err := c.named(args)
	defer clear(list)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), list)
}

func (c *conn) query(query string, args []any) (*stmt, driver.Rows, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, nil, err
	}
	list, err := c.named(args)
	defer clear(list)
	if err != nil {
		return nil, nil, err
	}
	rows, err := s.QueryContext(context.Background(), list)
	if err != nil {
		return nil, nil, err
	}
	if s.row == nil {
		s.row = make(row, len(rows.Columns()))
	}
	return s, rows, nil
}

// row runs a query of at most one row.
func (c *conn) row(query string, args ...any) scanner {
	s, rows, err := c.query(query, args)
	if err != nil {
		return failed{err}
	}
	err = rows.Next(s.row)
	if errors.Is(err, io.EOF) {
		err = sql.ErrNoRows
	}
	if closed := rows.Close(); closed != nil {
		err = closed
	}
	if err != nil {
		return failed{err}
	}
	return only{s.row}
}

// each calls fn for each row of a query.
func (c *conn) each(fn func(scanner) error, query string, args ...any) (err error) {
	s, rows, err := c.query(query, args)
	if err != nil {
		return err
	}
	defer func() {
		clear(s.row)
		if closed := rows.Close(); err == nil {
			err = closed
		}
	}()
	for {
		switch err := rows.Next(s.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := fn(s.row); err != nil {
			return err
		}
	}
}

// drain runs a query for its effect.
func (c *conn) drain(query string) error {
	return c.each(func(scanner) error { return nil }, query)
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.Close())...)
}

// A scanner is a row whose columns are to be had.
type scanner interface{ Scan(dst ...any) error }

type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// An only row is scanned once.
type only struct{ row }

func (o only) Scan(dst ...any) error {
	defer clear(o.row) // it may have half a MiB
	return o.row.Scan(dst...)
}

// A row is the values of the columns. Texts and blobs are copies, which the driver makes
// for each row.
type row []driver.Value

// Scan is that of sql.Rows, for the types that we read.
func (r row) Scan(dst ...any) error {
	if len(dst) != len(r) {
		return fmt.Errorf("%d columns are read as %d", len(r), len(dst))
	}
	for i, v := range r {
		if err := assign(dst[i], v); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

func assign(dst any, v driver.Value) error {
	ok := false
	switch dst := dst.(type) {
	case *int64:
		*dst, ok = v.(int64)
	case *string:
		*dst, ok = v.(string)
	case *[]byte:
		*dst, ok = v.([]byte)
		ok = ok || v == nil
	case *tree.Kind:
		ok = narrow(dst, v)
	case *uint32:
		ok = narrow(dst, v)
	case *uint8:
		ok = narrow(dst, v)
	case *int:
		ok = narrow(dst, v)
	case *bool:
		n, is := v.(int64)
		*dst, ok = n != 0, is && n>>1 == 0
	case sql.Scanner:
		return dst.Scan(v)
	}
	if !ok {
		return fmt.Errorf("%T is read as %T", v, dst)
	}
	return nil
}

// narrow reports whether a number is one that dst can have.
func narrow[T ~uint8 | ~uint32 | ~int](dst *T, v driver.Value) bool {
	n, ok := v.(int64)
	*dst = T(n)
	return ok && int64(*dst) == n
}
