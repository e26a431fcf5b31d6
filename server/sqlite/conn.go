package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// A conn is one connection with the statements that it has prepared. It is for one
// goroutine at a time.
type conn struct {
	sc    *sql.Conn
	stmts map[string]*sql.Stmt // by their text, all of which are constants of ours
}

// A statement is a prepared one, which close closes.
type statement interface {
	ExecContext(ctx context.Context, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, args ...any) *sql.Row
}

func (c *conn) stmt(query string) (statement, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.sc.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs a statement that returns no rows.
func (c *conn) exec(query string, args ...any) error {
	_, err := c.execute(query, args...)
	return err
}

func (c *conn) execute(query string, args ...any) (sql.Result, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.ExecContext(context.Background(), args...)
}

// row runs a query of at most one row.
func (c *conn) row(query string, args ...any) scanner {
	s, err := c.stmt(query)
	if err != nil {
		return failed{err}
	}
	return s.QueryRowContext(context.Background(), args...)
}

type scanner interface{ Scan(dst ...any) error }

type failed struct{ err error }

func (f failed) Scan(...any) error { return f.err }

// each calls fn for each row of a query.
func (c *conn) each(fn func(scanner) error, query string, args ...any) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
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
	return errors.Join(append(errs, c.sc.Close())...)
}
