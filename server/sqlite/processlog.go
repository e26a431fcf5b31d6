package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/process"
)

var _ process.ArchiveStore = logStore{}

// A logStore is the logs of processes in a database.
type logStore struct{ db *DB }

// ProcessLogs is the store of the file's logs of processes.
func (db *DB) ProcessLogs() process.ArchiveStore { return logStore{db} }

func (s logStore) Write(ctx context.Context, changes []process.LogChange) error {
	err := s.db.group.update(ctx, func(c *conn) error {
		for i := range changes {
			if err := writeLog(c, &changes[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return s.db.explain("write logs of processes to", err)
}

func writeLog(c *conn, change *process.LogChange) error {
	next := uint64(1)
	var exit, ended any // NULL
	for i := range change.Events {
		e := &change.Events[i]
		next = max(next, e.Seq+1)
		switch e.Kind {
		case process.KindOutput:
			if e.Seq >= 1<<seqBits {
				return fmt.Errorf("event %d of a log has too high a number", e.Seq)
			}
			if err := c.exec("INSERT INTO process_output (key, stream, data) VALUES (?, ?, ?)", eventKey(change.Log, e.Seq), e.Stream, e.Data); err != nil {
				return err
			}
		case process.KindExited:
			text, err := json.Marshal(e.Exit)
			if err != nil {
				return err
			}
			exit = string(text)
		default:
		}
	}
	if change.Ended {
		ended = change.At.UnixMilli()
	}
	if change.Oldest > 1 {
		err := c.exec("DELETE FROM process_output WHERE key BETWEEN ? AND ?", eventKey(change.Log, 0), eventKey(change.Log, change.Oldest)-1)
		if err != nil {
			return err
		}
	}
	info := change.Info
	if info == nil {
		return c.exec("UPDATE process_log SET next = max(next, ?), exit = coalesce(?, exit), ended_ms = coalesce(?, ended_ms), bytes = ? WHERE log = +?",
			int64(next), exit, ended, change.Bytes, change.Log)
	}
	argv, err := json.Marshal(info.Argv)
	if err != nil {
		return err
	}
	return c.exec(`INSERT INTO process_log (log, process_id, session_id, pid, argv, cwd, tty, sandbox, started_ms, next, exit, ended_ms, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		change.Log, info.ProcessID, info.SessionID, info.PID, string(argv), info.Cwd, info.TTY, info.SandboxType, info.StartedAtMs, int64(next), exit, ended, change.Bytes)
}

const logColumns = "log, process_id, session_id, pid, argv, cwd, tty, sandbox, started_ms, next, exit"

func scanLog(row scanner) (process.ArchivedLog, error) {
	var l process.ArchivedLog
	var argv string
	var exit sql.NullString
	var next int64
	i := &l.Info
	err := row.Scan(&l.Log, &i.ProcessID, &i.SessionID, &i.PID, &argv, &i.Cwd, &i.TTY, &i.SandboxType, &i.StartedAtMs, &next, &exit)
	if err != nil {
		return l, err
	}
	i.NextSeq = uint64(next)
	if exit.Valid {
		err = json.Unmarshal([]byte(exit.String), &l.Exit)
	}
	return l, errors.Join(err, json.Unmarshal([]byte(argv), &i.Argv))
}

func (s logStore) Find(ctx context.Context, processID string) (l process.ArchivedLog, err error) {
	err = s.db.view(ctx, func(c *conn) error {
		l, err = scanLog(c.row("SELECT "+logColumns+" FROM process_log WHERE process_id = ? AND ended_ms IS NOT NULL ORDER BY log DESC LIMIT 1", processID))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return process.ArchivedLog{}, process.ErrNoLog
	}
	return l, s.db.explain("look for the log of a process in", err)
}

func (s logStore) List(ctx context.Context, limit int) (list []process.ArchivedLog, err error) {
	err = s.db.view(ctx, func(c *conn) error {
		list = nil
		return c.each(func(row scanner) error {
			l, err := scanLog(row)
			list = append(list, l)
			return err
		}, "SELECT "+logColumns+" FROM process_log WHERE ended_ms IS NOT NULL ORDER BY log DESC LIMIT ?", limit)
	})
	return list, s.db.explain("list logs of processes in", err)
}

func (s logStore) Read(ctx context.Context, log int64, after uint64, maxBytes int) (events []process.Event, err error) {
	if after >= 1<<seqBits {
		return nil, nil
	}
	err = s.db.view(ctx, func(c *conn) error {
		events = nil
		taken := 0
		err := c.each(func(row scanner) error {
			var key int64
			var data []byte
			e := process.Event{Kind: process.KindOutput}
			if err := row.Scan(&key, &e.Stream, &data); err != nil {
				return err
			}
			if maxBytes >= 0 && len(events) > 0 && taken+len(data) > maxBytes {
				return errFull
			}
			taken += len(data)
			e.Seq, e.Data = uint64(key&(1<<seqBits-1)), data
			events = append(events, e)
			return nil
		}, "SELECT key, stream, data FROM process_output WHERE key > ? AND key < ? ORDER BY key", eventKey(log, after), eventKey(log+1, 0))
		if errors.Is(err, errFull) {
			return nil
		}
		return err
	})
	return events, s.db.explain("read the log of a process from", err)
}

func (s logStore) Recover(ctx context.Context, at time.Time) (last int64, err error) {
	err = s.db.update(ctx, func(c *conn) error {
		if err := c.row("SELECT coalesce(max(log), 0) FROM process_log").Scan(&last); err != nil {
			return err
		}
		return c.exec("UPDATE process_log SET ended_ms = ? WHERE ended_ms IS NULL", at.UnixMilli())
	})
	return last, s.db.explain("recover logs of processes in", err)
}

func (s logStore) Sweep(ctx context.Context, keep process.ArchiveKeep) error {
	var over []int64
	err := s.db.view(ctx, func(c *conn) error {
		over = nil
		logs, bytes := 0, int64(0)
		return c.each(func(row scanner) error {
			var log, ended, size int64
			if err := row.Scan(&log, &ended, &size); err != nil {
				return err
			}
			logs, bytes = logs+1, bytes+size
			if logs > keep.Logs || bytes > keep.Bytes || ended < keep.Since.UnixMilli() {
				over = append(over, log)
			}
			return nil
		}, "SELECT log, ended_ms, bytes FROM process_log WHERE ended_ms IS NOT NULL ORDER BY log DESC")
	})
	for err == nil && len(over) > 0 {
		some := over[:min(len(over), sweepRuns)]
		over = over[len(some):]
		err = s.db.update(ctx, func(c *conn) error {
			for _, log := range some {
				if err := c.exec("DELETE FROM process_output WHERE key BETWEEN ? AND ?", eventKey(log, 0), eventKey(log+1, 0)-1); err != nil {
					return err
				}
				if err := c.exec("DELETE FROM process_log WHERE log = +?", log); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s.db.explain("forget old logs of processes in", err)
}
