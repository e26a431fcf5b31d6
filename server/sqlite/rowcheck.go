package sqlite

import (
	"context"
	"fmt"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// rowRules are queries that find what must not be among the rows of nodes and of the log of
// commands, and say what it is.
var rowRules = []string{
	"SELECT 'node ' || ino || ' has a hash of its only part, and a manifest' FROM node WHERE only IS NOT NULL AND manifest IS NOT NULL LIMIT 1",
	"SELECT 'node ' || ino || ' has a hash of its only part, and rows of parts' FROM part JOIN node USING (ino) WHERE only IS NOT NULL LIMIT 1",
	`SELECT 'name ' || m.name || ' is younger than node ' || n.ino || ', by whose revision it is found' FROM name m JOIN node n ON n.ino = m.child
		WHERE m.rev & 1 AND m.rev >> 1 > n.rev LIMIT 1`,
	"SELECT 'events of log ' || (key >> 32) || ', which is not there' FROM log_event WHERE key >> 32 NOT IN (SELECT log FROM log) LIMIT 1",
	`SELECT 'log ' || log || ' has event ' || newest || ' and ends with ' || last FROM
		(SELECT log, last, max(key) & 0xffffffff AS newest FROM log CROSS JOIN log_event ON key BETWEEN log << 32 AND (log << 32) + 0xffffffff
			WHERE ended_ms IS NOT NULL GROUP BY log) WHERE newest > last LIMIT 1`,
	`SELECT 'run ' || log || ' has ' || n || ' events from ' || oldest || ' to ' || newest FROM
		(SELECT log, evicted, count(key) AS n, max(key) & 0xffffffff AS newest, min(key) & 0xffffffff AS oldest
			FROM log CROSS JOIN log_event ON key BETWEEN log << 32 AND (log << 32) + 0xffffffff WHERE origin = 2 GROUP BY log)
		WHERE n != newest - oldest + 1 OR oldest > 1 AND NOT evicted LIMIT 1`,
	`SELECT 'run ' || log || ' does not end with its exit' FROM log WHERE origin = 2 AND ended_ms IS NOT NULL AND NOT evicted AND NOT hidden
		AND coalesce((SELECT kind FROM log_event WHERE key = (log << 32) + last), 0) != 2 LIMIT 1`,
	"SELECT 'run ' || log || ' has half an end' FROM log WHERE origin = 2 AND (ended_ms IS NULL) != (exit IS NULL) LIMIT 1",
}

// checkRows looks for what must not be among the rows.
func (db *DB) checkRows(ctx context.Context) error {
	return db.view(ctx, func(c *conn) error {
		for _, rule := range rowRules {
			err := c.each(func(row scanner) error {
				var what string
				if err := row.Scan(&what); err != nil {
					return err
				}
				return fmt.Errorf("%w: %s", sqlitefile.ErrDamaged, what)
			}, rule)
			if err != nil {
				return err
			}
		}
		return checkBlocks(c)
	})
}

// checkBlocks looks for entries of directories that are not found where they are.
func checkBlocks(c *conn) error {
	var root int64
	var dir, first string
	var b []byte
	var last *diskEntry // of the block before, if that is of the same directory
	var before string
	return c.each(func(row scanner) error {
		of, in := root, dir
		if err := row.Scan(&root, &dir, &first, &b); err != nil {
			return err
		}
		if of != root || in != dir {
			last = nil
		}
		if last != nil && last.name >= first {
			return fmt.Errorf("%w: %q in %q of directory %d is not where it belongs", tree.ErrDamaged, last.name, dir, root)
		}
		before = ""
		return unpack(b, func(e diskEntry) error {
			if e.name < first || e.name <= before && before != "" {
				return fmt.Errorf("%w: %q in %q of directory %d is not where it belongs", tree.ErrDamaged, e.name, dir, root)
			}
			last, before = &e, e.name
			return nil
		})
	}, "SELECT root, dir, first, entries FROM disk_block ORDER BY root, dir, first")
}
