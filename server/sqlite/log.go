package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wsd-dev/wsd/fs/sqlitefile"
	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

var _ eventlog.Store = logStore{}

// A logStore is the log of commands in a database.
type logStore struct{ db *DB }

// Log is the store of the file's log of commands.
func (db *DB) Log() eventlog.Store { return logStore{db} }

// seqBits is how many bits of an event's key are its number.
const seqBits = 32

func eventKey(log int64, seq uint64) int64 { return log<<seqBits | int64(seq) }

// Kinds of log_event.
const (
	kindOutput = iota // of a terminal, or stdout
	kindStderr
	kindExit
)

var putEvents = newBulk(4, "INSERT INTO log_event (key, at_ms, kind, value)", "")

func (s logStore) Write(ctx context.Context, changes []eventlog.Change) error {
	grows := false
	for i := range changes {
		grows = grows || len(changes[i].Events) > 0
	}
	numbers := make([]int64, len(changes))
	var err error
	if grows {
		err = s.db.mayGrow()
	}
	if err == nil {
		err = s.db.update(ctx, func(c *conn) error {
			for i := range changes {
				change := changes[i]
				if change.Log == 0 {
					last, err := highest(c, "log", "last_log")
					if err != nil {
						return err
					}
					change.Log = last + 1
				}
				numbers[i] = change.Log
				if err := s.write(c, &change); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return full(s.db.explain("write the log of a command to", err))
	}
	for i, n := range numbers {
		changes[i].Log = n
	}
	return nil
}

// highest is the highest value that a column of log has had, of deleted rows too.
func highest(c *conn, column, deleted string) (n int64, err error) {
	// The index of ends has no NULL: it is used when none is asked for.
	err = c.row("SELECT max(v, coalesce((SELECT max("+column+") FROM log WHERE "+column+" IS NOT NULL), 0)) FROM meta WHERE k = ?", deleted).Scan(&n)
	return n, err
}

func nextEnd(c *conn) (int64, error) {
	n, err := highest(c, "ends", "last_end")
	return n + 1, err
}

// full marks an error that says that there is no room.
func full(err error) error {
	if errors.Is(err, sqlitefile.ErrFull) {
		return fmt.Errorf("%w: %w", eventlog.ErrFull, err)
	}
	return err
}

func (s logStore) write(c *conn, change *eventlog.Change) error {
	if change.Forget {
		if change.Hide {
			return hideLog(c, change)
		}
		return forgetLog(c, change.Log)
	}
	rows, exit, last, err := eventRows(change)
	switch {
	case err != nil:
	case change.Info != nil:
		err = s.begin(c, change, exit, last)
	case change.Ended:
		err = endLog(c, change, exit, last)
	case change.Evicted || exit != nil:
		err = c.exec("UPDATE log SET evicted = max(evicted, ?), exit = coalesce(?, exit) WHERE log = +?", change.Evicted, exit, change.Log)
	}
	if err == nil {
		err = putEvents.put(c, rows)
	}
	if err == nil && change.First > 1 {
		err = dropEvents(c, eventKey(change.Log, 0), eventKey(change.Log, change.First))
	}
	return err
}

// eventRows returns the values of putEvents for the events of a change, the exit among them
// for the log, or nil, and the number of the last event.
func eventRows(change *eventlog.Change) (rows []any, exit any, last uint64, err error) {
	rows = make([]any, 0, 4*len(change.Events))
	for i := range change.Events {
		e := &change.Events[i]
		if last = max(last, e.Seq); last >= 1<<seqBits {
			return nil, nil, 0, fmt.Errorf("event %d of a log has too high a number", last)
		}
		kind, value := kindOutput, e.Data
		switch {
		case e.Kind == eventlog.KindClosed:
			continue
		case e.Kind == eventlog.KindExited:
			text, err := json.Marshal(e.Exit)
			if err != nil {
				return nil, nil, 0, err
			}
			exit, kind, value = string(text), kindExit, exitValue(e.Exit.Code)
		case e.Stream == protocol.StreamStderr:
			kind = kindStderr
		}
		rows = append(rows, eventKey(change.Log, e.Seq), change.At.UnixMilli(), kind, value)
	}
	return rows, exit, last, nil
}

// begin begins a log, and ends it if the change is all of it.
func (s logStore) begin(c *conn, change *eventlog.Change, exit any, last uint64) error {
	info := change.Info
	if info.Origin == eventlog.OriginRun {
		if err := replaceRuns(c, info.ID, change.Hide); err != nil {
			return err
		}
	}
	argv, err := json.Marshal(info.Argv)
	if err != nil {
		return err
	}
	end := []any{nil, nil, int64(0), int64(0), int64(0)}
	if change.Ended {
		next, err := nextEnd(c)
		if err != nil {
			return err
		}
		end = []any{change.At.UnixMilli(), next, int64(last), change.Bytes, change.Printed}
	}
	return c.exec(`INSERT INTO log (log, owner, origin, id, session, client, peer, pid, argv, cwd, tty, sandbox, started_ms, evicted, exit, ended_ms, ends, last, bytes, printed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append([]any{
			change.Log, int64(s.db.lock.place), int64(info.Origin), info.ID, info.SessionID, info.Client, info.Peer, info.PID, string(argv), info.Cwd, info.TTY,
			info.Sandbox, info.Started.UnixMilli(), change.Evicted, exit,
		}, end...)...)
}

// replaceRuns has the runs that had an id give way to a new one.
func replaceRuns(c *conn, id string, hide bool) error {
	if hide {
		return c.exec("UPDATE log SET hidden = 1 WHERE id = ? AND origin = ? AND NOT hidden", id, int64(eventlog.OriginRun))
	}
	var old []int64
	err := c.each(func(row scanner) error {
		var log int64
		err := row.Scan(&log)
		old = append(old, log)
		return err
	}, "SELECT log FROM log WHERE id = ? AND origin = ?", id, int64(eventlog.OriginRun))
	for _, log := range old {
		err = errors.Join(err, forgetLog(c, log))
	}
	return err
}

// hideLog leaves of a log what it was.
func hideLog(c *conn, change *eventlog.Change) error {
	if err := dropEvents(c, eventKey(change.Log, 0), eventKey(change.Log+1, 0)); err != nil {
		return err
	}
	_, exit, _, err := eventRows(change)
	if err != nil {
		return err
	}
	next, err := nextEnd(c)
	if err != nil {
		return err
	}
	return c.exec(`UPDATE log SET hidden = 1, bytes = 0, exit = coalesce(exit, ?, '{"code":-1}'), ended_ms = coalesce(ended_ms, ?), ends = coalesce(ends, ?), printed = max(printed, ?)
		WHERE log = +?`, exit, change.At.UnixMilli(), next, change.Printed, change.Log)
}

func endLog(c *conn, change *eventlog.Change, exit any, last uint64) error {
	next, err := nextEnd(c)
	if err != nil {
		return err
	}
	return c.exec("UPDATE log SET evicted = max(evicted, ?), exit = coalesce(?, exit), ended_ms = ?, ends = ?, last = max(last, ?), bytes = ?, printed = ? WHERE log = +?",
		change.Evicted, exit, change.At.UnixMilli(), next, int64(last), change.Bytes, change.Printed, change.Log)
}

func forgetLog(c *conn, log int64) error {
	if err := dropEvents(c, eventKey(log, 0), eventKey(log+1, 0)); err != nil {
		return err
	}
	if err := c.exec("UPDATE meta SET v = ? WHERE k = 'last_log' AND v < ?", log, log); err != nil {
		return err
	}
	if err := c.exec("UPDATE meta SET v = max(v, coalesce((SELECT ends FROM log WHERE log = +?), 0)) WHERE k = 'last_end'", log); err != nil {
		return err
	}
	return c.exec("DELETE FROM log WHERE log = +?", log)
}

// dropEvents removes the events with keys from one to below another.
func dropEvents(c *conn, from, to int64) error {
	return c.exec("DELETE FROM log_event WHERE key BETWEEN ? AND ?", from, to-1)
}

func exitValue(code int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(int32(code))) }

func scanRecord(row scanner) (eventlog.Record, error) {
	var r eventlog.Record
	var argv, exit string
	var origin, started, ended, last int64
	err := row.Scan(&r.Log, &origin, &r.ID, &r.SessionID, &r.Client, &r.Peer, &r.PID, &argv, &r.Cwd, &r.TTY, &r.Sandbox, &started, &r.Evicted, &exit, &ended, &r.End, &last, &r.Bytes, &r.Printed)
	if err != nil {
		return r, err
	}
	r.Origin, r.Started, r.Last = eventlog.Origin(origin), time.UnixMilli(started), uint64(last)
	if r.Ended = ended > 0; r.Ended {
		r.At = time.UnixMilli(ended)
	}
	if exit != "" {
		err = json.Unmarshal([]byte(exit), &r.Exit)
	}
	return r, errors.Join(err, json.Unmarshal([]byte(argv), &r.Argv))
}

// value is what p points to, and the zero value if that is nothing.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (s logStore) List(ctx context.Context, q eventlog.Query) (list []eventlog.Record, err error) {
	where, args := []string{"hidden <= ?"}, []any{0}
	if q.Hidden {
		args[0] = 1
	}
	order := "log DESC"
	if q.EndAfter != nil {
		order = "ends"
	}
	fits := func(used bool, text string, arg any) {
		if used {
			where, args = append(where, text), append(args, arg)
		}
	}
	fits(q.Origin != 0, "origin = ?", int64(q.Origin))
	fits(q.Log != nil, "log = ?", value(q.Log))
	fits(q.Before != nil, "log < ?", value(q.Before))
	fits(q.ID != nil, "id = ?", value(q.ID))
	fits(q.Client != nil, "client = ?", value(q.Client))
	fits(q.EndAfter != nil, "ends > ?", value(q.EndAfter))
	fits(q.Ended || !q.Since.IsZero(), "ended_ms >= ?", max(q.Since.UnixMilli(), 0))
	fits(!q.Started.IsZero(), "started_ms >= ?", q.Started.UnixMilli())
	fits(q.Live, "coalesce(ended_ms, 0) = ?", 0)
	fits(q.Failed, "ended_ms IS NOT NULL AND coalesce(json_extract(exit, '$.code'), json_extract(exit, '$.Code'), -1) != ?", 0)
	text := `SELECT log, origin, id, session, client, peer, pid, argv, cwd, tty, sandbox, started_ms, evicted, coalesce(exit, ''), coalesce(ended_ms, 0), coalesce(ends, 0), last, bytes, printed
		FROM log WHERE ` + strings.Join(where, " AND ") + " ORDER BY " + order
	err = s.db.view(ctx, func(c *conn) error {
		list = nil
		err := c.each(func(row scanner) error {
			if len(list) == q.Limit {
				return errEnough
			}
			r, err := scanRecord(row)
			if err == nil && strings.Contains(r.CommandLine(), q.Text) {
				list = append(list, r)
			}
			return err
		}, text, args...)
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	return list, s.db.explain("look for a command in", err)
}

func (s logStore) LastEnd(ctx context.Context) (n int64, err error) {
	err = s.db.view(ctx, func(c *conn) error {
		n, err = highest(c, "ends", "last_end")
		return err
	})
	return n, s.db.explain("look for the last end in", err)
}

func (s logStore) Read(ctx context.Context, log int64, after uint64, maxBytes, maxEvents int) (events []eventlog.Event, err error) {
	if after >= 1<<seqBits {
		return nil, nil
	}
	err = s.db.view(ctx, func(c *conn) error {
		events = nil
		var tty bool
		taken := -1 // nothing yet
		err := c.each(func(row scanner) error {
			var key int64
			var kind int
			var value []byte
			if err := row.Scan(&key, &kind, &value, &tty); err != nil {
				return err
			}
			e := eventlog.Event{Seq: uint64(key & (1<<seqBits - 1)), Kind: eventlog.KindOutput, Stream: protocol.StreamStdout}
			switch {
			case kind == kindExit:
				if len(value) != 4 {
					return fmt.Errorf("the exit of log %d has %d bytes", log, len(value))
				}
				e = eventlog.Event{Seq: e.Seq, Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: int(int32(binary.LittleEndian.Uint32(value)))}}
				events = append(events, e)
				return nil
			case kind == kindStderr:
				e.Stream = protocol.StreamStderr
			case tty:
				e.Stream = protocol.StreamPTY
			}
			if maxBytes >= 0 && taken >= 0 && taken+len(value) > maxBytes {
				return errEnough
			}
			taken = max(taken, 0) + len(value)
			e.Data = value
			events = append(events, e)
			return nil
		}, "SELECT key, kind, value, tty FROM log_event JOIN log ON log.log = ? WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
			log, eventKey(log, after), eventKey(log+1, 0), int64(maxEvents))
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	})
	return events, s.db.explain("read the log of a command from", err)
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

func (s logStore) Recover(ctx context.Context, at time.Time) (ended []int64, err error) {
	var releases []func()
	err = s.db.update(ctx, func(c *conn) error {
		type live struct {
			log    int64
			origin eventlog.Origin
		}
		left := map[int][]live{} // by owner
		err := c.each(func(row scanner) error {
			var l live
			var origin, owner int64
			err := row.Scan(&l.log, &origin, &owner)
			l.origin = eventlog.Origin(origin)
			left[int(owner)] = append(left[int(owner)], l)
			return err
		}, "SELECT log, origin, owner FROM log WHERE ended_ms IS NULL ORDER BY log")
		for owner, logs := range left {
			gone := owner == s.db.lock.place && !s.db.recovered.Load()
			if owner != s.db.lock.place && err == nil {
				var release func()
				if gone, release, err = holdIfFree(s.db.path, owner); release != nil {
					releases = append(releases, release)
				}
			}
			for i := 0; i < len(logs) && gone && err == nil; i++ {
				err = s.endLost(c, logs[i].log, logs[i].origin, at)
				ended = append(ended, logs[i].log)
			}
		}
		return err
	})
	for _, release := range releases {
		release()
	}
	if err != nil {
		return nil, full(s.db.explain("recover the commands of", err))
	}
	s.db.recovered.Store(true)
	slices.Sort(ended)
	return ended, nil
}

// endLost ends a log that was live when its server died.
func (s logStore) endLost(c *conn, log int64, origin eventlog.Origin, at time.Time) error {
	var last, bytes int64
	err := c.row("SELECT coalesce(max(key), 0), coalesce(sum(iif(kind = ?, 0, length(value))), 0) FROM log_event WHERE key BETWEEN ? AND ?",
		kindExit, eventKey(log, 0), eventKey(log+1, 0)-1).Scan(&last, &bytes)
	if err != nil {
		return err
	}
	change := eventlog.Change{Log: log, At: at, Ended: true, Bytes: bytes, Printed: bytes}
	seq := uint64(last & (1<<seqBits - 1))
	if origin != eventlog.OriginRun {
		return endLog(c, &change, nil, seq)
	}
	change.Events = []eventlog.Event{{Seq: seq + 1, Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: -1}}}
	return s.write(c, &change)
}

// sweepLogs is how many logs are forgotten in one transaction.
const sweepLogs = 200

func (s logStore) Sweep(ctx context.Context, keep eventlog.Keep) error {
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
			if ended < keep.Since.UnixMilli() || logs > keep.Logs || bytes > keep.Bytes {
				over = append(over, log)
			}
			return nil
		}, "SELECT log, ended_ms, bytes FROM log WHERE ended_ms IS NOT NULL ORDER BY ended_ms DESC, log DESC")
	})
	for err == nil && len(over) > 0 {
		some := over[:min(len(over), sweepLogs)]
		over = over[len(some):]
		err = s.db.update(ctx, func(c *conn) error {
			for _, log := range some {
				if err := forgetLog(c, log); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s.db.explain("forget old commands in", err)
}
