package sqlstate

import (
	"context"
	"errors"
	"fmt"
)

// Check reads the whole file and returns an error that wraps ErrDamaged when it is not
// sound: SQLite's own check, and what must hold between our tables.
func (s *State) Check(ctx context.Context) error {
	rows, err := s.read.QueryContext(ctx, "PRAGMA integrity_check")
	if err != nil {
		return s.explain("check", err)
	}
	defer rows.Close()
	var found []error
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return s.explain("check", err)
		}
		if line != "ok" {
			found = append(found, errors.New(line))
		}
	}
	if err := rows.Err(); err != nil {
		return s.explain("check", err)
	}
	var last, highest, counters int64
	err = s.read.QueryRowContext(ctx, `SELECT
		(SELECT coalesce(max(last), 0) FROM revisions),
		(SELECT coalesce(max(revision), 0) FROM entries),
		(SELECT count(*) FROM revisions)`).Scan(&last, &highest, &counters)
	if err != nil {
		return s.explain("check", err)
	}
	if counters != 1 {
		found = append(found, fmt.Errorf("there are %d counters of revisions", counters))
	}
	if highest > last {
		found = append(found, fmt.Errorf("an entry has revision %d, but only %d were given", highest, last))
	}
	if len(found) > 0 {
		return fmt.Errorf("check the relay's state %s: %w: %w", s.path, ErrDamaged, errors.Join(found...))
	}
	return nil
}
