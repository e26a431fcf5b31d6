package sqlite

import (
	"context"
	"fmt"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/fs/tree"
)

// rowRules are queries that find what must not be among the rows of nodes, of runs and of logs of
// processes, and say what it is.
var rowRules = []string{
	"SELECT 'node ' || ino || ' has a hash of its only part, and a manifest' FROM node WHERE only IS NOT NULL AND manifest IS NOT NULL LIMIT 1",
	"SELECT 'node ' || ino || ' has a hash of its only part, and rows of parts' FROM part JOIN node USING (ino) WHERE only IS NOT NULL LIMIT 1",
	`SELECT 'name ' || m.name || ' is younger than node ' || n.ino || ', by whose revision it is found' FROM name m JOIN node n ON n.ino = m.child
		WHERE m.rev & 1 AND m.rev >> 1 > n.rev LIMIT 1`,
	"SELECT 'events of run ' || (key >> 32) || ', which is not there' FROM run_event WHERE key >> 32 NOT IN (SELECT run FROM run) LIMIT 1",
	`SELECT 'run ' || run || ' has ' || n || ' events of ' || last || ' to ' || newest FROM
		(SELECT run, evicted, coalesce(last, 0) AS last, count(key) AS n, coalesce(max(key) & 0xffffffff, 0) AS newest,
			coalesce(min(key) & 0xffffffff, 1) AS oldest
			FROM run LEFT JOIN run_event ON key BETWEEN run << 32 AND (run << 32) + 0xffffffff GROUP BY run)
		WHERE n != newest - oldest + 1 OR oldest > 1 AND NOT evicted OR n > 0 AND last NOT IN (0, newest) LIMIT 1`,
	`SELECT 'run ' || run || ' does not end with its exit' FROM run
		WHERE exited_ms IS NOT NULL AND NOT evicted AND coalesce((SELECT kind FROM run_event WHERE key = (run << 32) + last), 0) != 2 LIMIT 1`,
	"SELECT 'output of log ' || (key >> 32) || ', which is not there' FROM process_output WHERE key >> 32 NOT IN (SELECT log FROM process_log) LIMIT 1",
	`SELECT 'log ' || log || ' has event ' || (key & 0xffffffff) || ' and ends with ' || (next - 1) FROM
		process_log JOIN process_output ON key BETWEEN (log << 32) + next AND (log << 32) + 0xffffffff LIMIT 1`,
	"SELECT 'run ' || run || ' has half an end' FROM run WHERE (exited_ms IS NULL) != (code IS NULL) OR (exited_ms IS NULL) != (last IS NULL) LIMIT 1",
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
