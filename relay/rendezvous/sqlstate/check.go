package sqlstate

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
)

// Check reads the whole file and returns an error that wraps sqlitefile.ErrDamaged when
// it is not sound: SQLite's own check, and what must hold between our tables.
func (s *State) Check(ctx context.Context) error {
	if err := sqlitefile.IntegrityCheck(ctx, s.read); err != nil {
		return s.explain("check", err)
	}
	var found []error
	var last, highest, counters int64
	err := s.read.QueryRowContext(ctx, `SELECT
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
		return s.explain("check", fmt.Errorf("%w: %w", sqlitefile.ErrDamaged, errors.Join(found...)))
	}
	return nil
}
