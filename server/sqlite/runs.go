package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/process/shell"
)

var _ shell.Store = runStore{}

// A runStore is the runs in a database.
type runStore struct{ db *DB }

// Runs is the store of the file's runs of commands.
func (db *DB) Runs() shell.Store { return runStore{db} }

// seqBits is how many bits of an event's key are its number.
const seqBits = 32

func eventKey(run int64, seq uint64) int64 { return run<<seqBits | int64(seq) }

// Kinds of run_event.
const (
	kindStdout = iota
	kindStderr
	kindExit
)

// nextRun numbers a new run.
func (db *DB) nextRun(c *conn) (int64, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.lastRun == 0 {
		// A run that is being forgotten may have rows of one kind only.
		err := c.row("SELECT max(coalesce((SELECT max(run) FROM run), 0), coalesce((SELECT max(key) >> 32 FROM run_event), 0))").Scan(&db.lastRun)
		if err != nil {
			return 0, err
		}
	}
	db.lastRun++
	return db.lastRun, nil
}

func (s runStore) Begin(ctx context.Context, id string, about shell.About, at time.Time) (run int64, err error) {
	err = s.db.group.update(ctx, func(c *conn) error {
		var err error
		if run, err = s.db.nextRun(c); err != nil { // before the old one's number is forgotten
			return err
		}
		var old int64
		switch err := c.row("SELECT run FROM run WHERE id = ?", id).Scan(&old); {
		case err == nil:
			if err := forgetRun(c, old); err != nil {
				return err
			}
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		return c.exec("INSERT INTO run (run, id, command, cwd, started_ms) VALUES (?, ?, ?, ?, ?)", run, id, about.Command, about.Cwd, at.UnixMilli())
	})
	return run, s.db.explain("record a run in", err)
}

func forgetRun(c *conn, run int64) error {
	if err := dropEvents(c, eventKey(run, 0), eventKey(run+1, 0)); err != nil {
		return err
	}
	return c.exec("DELETE FROM run WHERE run = +?", run)
}

// dropEvents removes the events with keys from one to below another.
func dropEvents(c *conn, from, to int64) error {
	return c.exec("DELETE FROM run_event WHERE key BETWEEN ? AND ?", from, to-1)
}

var putEvents = newBulk(4, "INSERT INTO run_event (key, at_ms, kind, value)", "")

func (s runStore) Append(ctx context.Context, run int64, b *shell.Batch) error {
	args := make([]any, 0, 4*len(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		kind, value := kindStdout, e.Data
		switch e.Name {
		case shell.Stderr:
			kind = kindStderr
		case shell.Exit:
			kind, value = kindExit, exitValue(e.Code)
		default:
		}
		args = append(args, eventKey(run, e.Seq), b.At.UnixMilli(), kind, value)
	}
	var err error
	if len(b.Events) > 0 {
		err = s.db.mayGrow()
	}
	if err == nil {
		err = s.db.group.update(ctx, func(c *conn) error { return appendRun(c, run, b, args) })
	}
	if err = s.db.explain("write the log of a run to", err); errors.Is(err, sqlitefile.ErrFull) {
		err = fmt.Errorf("%w: %w", shell.ErrFull, err)
	}
	return err
}

func appendRun(c *conn, run int64, b *shell.Batch, args []any) error {
	if err := putEvents.put(c, args); err != nil {
		return err
	}
	if b.Evicted {
		if err := c.exec("UPDATE run SET evicted = 1 WHERE run = +?", run); err != nil {
			return err
		}
	}
	if b.First > 0 {
		if err := dropEvents(c, eventKey(run, 0), eventKey(run, b.First)); err != nil {
			return err
		}
	}
	if end := b.End; end != nil {
		return c.exec("UPDATE run SET exited_ms = ?, code = ?, last = ?, bytes = ? WHERE run = +?",
			b.At.UnixMilli(), end.Code, int64(end.Last), end.Bytes, run)
	}
	return nil
}

func exitValue(code int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(int32(code))) }

// runColumns are what scanRecord reads.
const runColumns = `run, id, command, cwd, started_ms, evicted, exited_ms IS NOT NULL, coalesce(exited_ms, 0), coalesce(code, 0), coalesce(last, 0), bytes`

func scanRecord(row scanner) (r shell.Record, err error) {
	var started, exited, last int64
	err = row.Scan(&r.Run, &r.ID, &r.About.Command, &r.About.Cwd, &started, &r.Evicted, &r.Ended, &exited, &r.End.Code, &last, &r.End.Bytes)
	r.Started, r.End.Last = time.UnixMilli(started), uint64(last)
	if r.Ended {
		r.At = time.UnixMilli(exited)
	}
	return r, err
}

func (s runStore) Find(ctx context.Context, id string) (r shell.Record, err error) {
	err = s.db.view(ctx, func(c *conn) error {
		var err error
		r, err = scanRecord(c.row("SELECT "+runColumns+" FROM run WHERE id = ?", id))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return shell.Record{}, shell.ErrNoRun
	}
	return r, s.db.explain("look for a run in", err)
}

func (s runStore) Ended(ctx context.Context, since time.Time, n int) (list []shell.Record, err error) {
	err = s.db.view(ctx, func(c *conn) error {
		list = nil
		return c.each(func(row scanner) error {
			r, err := scanRecord(row)
			list = append(list, r)
			return err
		}, "SELECT "+runColumns+" FROM run WHERE exited_ms >= ? ORDER BY run DESC LIMIT ?", since.UnixMilli(), n)
	})
	return list, s.db.explain("list the runs of", err)
}

func (s runStore) Read(ctx context.Context, run int64, after uint64, maxBytes int) ([]shell.Event, error) {
	var events []shell.Event
	if after >= 1<<seqBits {
		return nil, nil
	}
	err := s.db.view(ctx, func(c *conn) error {
		events = nil
		left := maxBytes
		err := c.each(func(row scanner) error {
			var key int64
			var kind int
			var value []byte
			if err := row.Scan(&key, &kind, &value); err != nil {
				return err
			}
			if kind != kindExit {
				if left -= len(value); left < 0 && len(events) > 0 {
					return errFull
				}
			}
			e := shell.Event{Seq: uint64(key & (1<<seqBits - 1)), Name: shell.Stdout}
			switch kind {
			case kindStderr:
				e.Name = shell.Stderr
			case kindExit:
				e.Name = shell.Exit
				if len(value) != 4 {
					return fmt.Errorf("the exit of run %d has %d bytes", run, len(value))
				}
				e.Code = int(int32(binary.LittleEndian.Uint32(value)))
			default:
			}
			if kind != kindExit {
				e.Data = value
			}
			events = append(events, e)
			return nil
		}, "SELECT key, kind, value FROM run_event WHERE key > ? AND key < ? ORDER BY key LIMIT ?", eventKey(run, after), eventKey(run+1, 0), shell.MaxPageEvents)
		if errors.Is(err, errFull) {
			return nil
		}
		return err
	})
	return events, s.db.explain("read the log of a run from", err)
}

// errFull ends a reading that has enough.
var errFull = errors.New("enough")

func (s runStore) Forget(ctx context.Context, run int64) error {
	err := s.db.group.update(ctx, func(c *conn) error { return forgetRun(c, run) })
	return s.db.explain("forget a run in", err)
}

func (s runStore) Recover(ctx context.Context, at time.Time) (n int, err error) {
	err = s.db.update(ctx, func(c *conn) error {
		n = 0
		var list []int64
		err := c.each(func(row scanner) error {
			var run int64
			err := row.Scan(&run)
			list = append(list, run)
			return err
		}, "SELECT run FROM run WHERE exited_ms IS NULL")
		if err != nil {
			return err
		}
		for _, run := range list {
			if err := endLost(c, run, at); err != nil {
				return err
			}
			n++
		}
		return nil
	})
	return n, s.db.explain("recover the runs of", err)
}

// endLost ends a run that was live when its server died.
func endLost(c *conn, run int64, at time.Time) error {
	var last, bytes int64
	err := c.row("SELECT coalesce(max(key), 0), coalesce(sum(length(value)), 0) FROM run_event WHERE key BETWEEN ? AND ?",
		eventKey(run, 0), eventKey(run+1, 0)-1).Scan(&last, &bytes)
	if err != nil {
		return err
	}
	exit := uint64(last&(1<<seqBits-1)) + 1
	args := []any{eventKey(run, exit), at.UnixMilli(), kindExit, exitValue(-1)}
	return appendRun(c, run, &shell.Batch{At: at, End: &shell.End{Code: -1, Last: exit, Bytes: bytes}}, args)
}

// sweepRuns is how many runs are forgotten in one transaction.
const sweepRuns = 200

func (s runStore) Sweep(ctx context.Context, keep shell.Keep) error {
	var over []int64
	err := s.db.view(ctx, func(c *conn) error {
		over = nil
		runs, bytes := 0, int64(0)
		return c.each(func(row scanner) error {
			var run, exited, size int64
			if err := row.Scan(&run, &exited, &size); err != nil {
				return err
			}
			runs, bytes = runs+1, bytes+size
			if exited < keep.Since.UnixMilli() || runs > keep.Runs || bytes > keep.Bytes {
				over = append(over, run)
			}
			return nil
		}, "SELECT run, exited_ms, bytes FROM run WHERE exited_ms IS NOT NULL ORDER BY exited_ms DESC, run DESC")
	})
	for err == nil && len(over) > 0 {
		some := over[:min(len(over), sweepRuns)]
		over = over[len(some):]
		err = s.db.update(ctx, func(c *conn) error {
			for _, run := range some {
				if err := forgetRun(c, run); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s.db.explain("forget old runs in", err)
}
