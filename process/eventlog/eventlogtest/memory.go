package eventlogtest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/process/eventlog"
)

// Memory is an eventlog.Store in memory, which tests can have fail. The zero value is ready.
type Memory struct {
	mu   sync.Mutex
	last int64
	end  int64        // the highest Record.End
	logs []*memoryLog // in the order of their numbers

	// Before, if set, is called before each change, outside of locks; its error is the
	// change's. op is "begin", "append", "forget" or "recover".
	Before func(op string) error
}

type memoryLog struct {
	eventlog.Record
	events []eventlog.Event
	hidden bool
}

var _ eventlog.Store = (*Memory)(nil)

func (m *Memory) before(op string) error {
	if m.Before == nil {
		return nil
	}
	return m.Before(op)
}

// Write implements eventlog.Store.
func (m *Memory) Write(_ context.Context, changes []eventlog.Change) error {
	for i := range changes {
		op := "append"
		switch c := &changes[i]; {
		case c.Forget:
			op = "forget"
		case c.Info != nil:
			op = "begin"
		}
		if err := m.before(op); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range changes {
		if c := &changes[i]; c.Log == 0 {
			c.Log = m.last + 1
		}
		m.write(&changes[i])
	}
	return nil
}

func (m *Memory) write(c *eventlog.Change) {
	if c.Forget {
		if l := m.find(c.Log); l != nil && c.Hide {
			l.hidden, l.events, l.Bytes = true, nil, 0
			if l.Ended {
				return
			}
			m.end++
			l.Ended, l.End, l.At, l.Exit, l.Printed = true, m.end, milliseconds(c.At), &eventlog.Exit{Code: -1}, c.Printed
			for _, e := range c.Events {
				l.Exit = e.Exit
			}
			return
		}
		m.remove(func(l *memoryLog) bool { return l.Log == c.Log })
		return
	}
	if info := c.Info; info != nil {
		if info.Origin == eventlog.OriginRun {
			m.remove(func(l *memoryLog) bool {
				same := l.Origin == info.Origin && l.ID == info.ID
				l.hidden = l.hidden || same
				return same && !c.Hide
			})
		}
		m.last = max(m.last, c.Log)
		m.logs = append(m.logs, &memoryLog{Record: eventlog.Record{Log: c.Log, Info: *info}})
		m.logs[len(m.logs)-1].Started = milliseconds(info.Started)
		slices.SortFunc(m.logs, func(a, b *memoryLog) int { return cmp.Compare(a.Log, b.Log) })
	}
	l := m.find(c.Log)
	last := uint64(0)
	for _, e := range c.Events {
		last = max(last, e.Seq)
		switch e.Kind {
		case eventlog.KindClosed:
			continue
		case eventlog.KindExited:
			l.Exit, e.Exit = e.Exit, &eventlog.Exit{Code: e.Exit.Code}
		case eventlog.KindOutput:
		}
		l.events = append(l.events, eventlog.Event{Seq: e.Seq, Kind: e.Kind, Stream: e.Stream, Data: bytes.Clone(e.Data), Exit: e.Exit})
	}
	slices.SortFunc(l.events, func(a, b eventlog.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	l.events = slices.DeleteFunc(l.events, func(e eventlog.Event) bool { return e.Seq < c.First })
	l.Evicted = l.Evicted || c.Evicted
	if c.Ended {
		m.end++
		l.Ended, l.End, l.At, l.Last, l.Bytes, l.Printed = true, m.end, milliseconds(c.At), last, c.Bytes, c.Printed
	}
}

func milliseconds(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()) }

func (m *Memory) remove(which func(*memoryLog) bool) { m.logs = slices.DeleteFunc(m.logs, which) }

func (m *Memory) find(log int64) *memoryLog {
	for _, l := range m.logs {
		if l.Log == log {
			return l
		}
	}
	return nil
}

// List implements eventlog.Store.
func (m *Memory) List(_ context.Context, q eventlog.Query) (list []eventlog.Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	logs := slices.Clone(m.logs)
	if slices.Reverse(logs); q.EndAfter != nil {
		slices.SortFunc(logs, func(a, b *memoryLog) int { return cmp.Compare(a.End, b.End) })
	}
	for _, l := range logs {
		if l.hidden && !q.Hidden || !fits(&l.Record, &q) {
			continue
		}
		if list = append(list, l.Record); len(list) == q.Limit {
			break
		}
	}
	return list, nil
}

func fits(r *eventlog.Record, q *eventlog.Query) bool {
	return (q.Origin == 0 || r.Origin == q.Origin) && (q.Log == nil || r.Log == *q.Log) && (q.Before == nil || r.Log < *q.Before) &&
		(q.ID == nil || r.ID == *q.ID) && (q.Client == nil || r.Client == *q.Client) && strings.Contains(r.CommandLine(), q.Text) &&
		(q.EndAfter == nil || r.End > *q.EndAfter) &&
		(!q.Ended || r.Ended) && (!q.Live || !r.Ended) && (!q.Failed || r.Ended && (r.Exit == nil || r.Exit.Code != 0)) &&
		(q.Since.IsZero() || r.Ended && !r.At.Before(milliseconds(q.Since))) && !r.Started.Before(q.Started)
}

// Read implements eventlog.Store.
func (m *Memory) Read(_ context.Context, log int64, after uint64, maxBytes, maxEvents int) (events []eventlog.Event, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.find(log)
	if l == nil {
		return nil, nil
	}
	taken, first := 0, true
	for _, e := range l.events {
		if e.Seq <= after {
			continue
		}
		if e.Kind == eventlog.KindOutput {
			if taken += len(e.Data); maxBytes >= 0 && taken > maxBytes && !first {
				break
			}
			first = false
		}
		e.Data = bytes.Clone(e.Data)
		if events = append(events, e); len(events) == maxEvents {
			break
		}
	}
	return events, nil
}

// LastEnd implements eventlog.Store.
func (m *Memory) LastEnd(context.Context) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end, nil
}

// Recover implements eventlog.Store.
func (m *Memory) Recover(_ context.Context, at time.Time) (ended []int64, err error) {
	if err := m.before("recover"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.logs {
		if l.Ended {
			continue
		}
		ended = append(ended, l.Log)
		c := eventlog.Change{Log: l.Log, At: at, Ended: true, Bytes: int64(eventlog.Size(l.events))}
		c.Printed = c.Bytes
		if n := len(l.events); n > 0 {
			l.Last = l.events[n-1].Seq
		}
		seq := l.Last
		if l.Origin == eventlog.OriginRun {
			seq++
			c.Events = []eventlog.Event{{Seq: seq, Kind: eventlog.KindExited, Exit: &eventlog.Exit{Code: -1}}}
		}
		m.write(&c)
		l.Last = seq
	}
	return ended, nil
}

// Sweep implements eventlog.Store.
func (m *Memory) Sweep(_ context.Context, keep eventlog.Keep) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ended []*memoryLog
	for _, l := range m.logs {
		if l.Ended {
			ended = append(ended, l)
		}
	}
	slices.SortFunc(ended, func(a, b *memoryLog) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Log, a.Log)) })
	over := make(map[*memoryLog]bool)
	for i, l := range ended {
		keep.Bytes -= l.Bytes
		over[l] = i >= keep.Logs || keep.Bytes < 0 || l.At.Before(milliseconds(keep.Since))
	}
	m.remove(func(l *memoryLog) bool { return over[l] })
	return nil
}
