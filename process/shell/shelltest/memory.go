package shelltest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/process/shell"
)

// Memory is a shell.Store in memory, which tests can have fail. The zero value is ready.
type Memory struct {
	mu   sync.Mutex
	last int64
	runs map[string]*memoryRun

	// Before, if set, is called before each change, outside of locks; its error is the
	// change's.
	Before func(op string) error
}

type memoryRun struct {
	shell.Record
	events []shell.Event
}

var _ shell.Store = (*Memory)(nil)

func (m *Memory) before(op string) error {
	if m.Before == nil {
		return nil
	}
	return m.Before(op)
}

// Begin implements shell.Store.
func (m *Memory) Begin(_ context.Context, id string, about shell.About, at time.Time) (int64, error) {
	if err := m.before("begin"); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = make(map[string]*memoryRun)
	}
	m.last++
	m.runs[id] = &memoryRun{Record: shell.Record{Run: m.last, ID: id, About: about, Started: time.UnixMilli(at.UnixMilli())}}
	return m.last, nil
}

func (m *Memory) find(run int64) *memoryRun {
	for _, r := range m.runs {
		if r.Run == run {
			return r
		}
	}
	return nil
}

// Append implements shell.Store.
func (m *Memory) Append(_ context.Context, run int64, b *shell.Batch) error {
	if err := m.before("append"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(run)
	if r == nil {
		return nil
	}
	for _, e := range b.Events {
		e.ID, e.Data = "", bytes.Clone(e.Data)
		r.events = append(r.events, e)
	}
	r.Evicted = r.Evicted || b.Evicted
	r.events = slices.DeleteFunc(r.events, func(e shell.Event) bool { return e.Seq < b.First })
	if b.End != nil {
		r.Ended, r.At, r.End = true, time.UnixMilli(b.At.UnixMilli()), *b.End
	}
	return nil
}

// Find implements shell.Store.
func (m *Memory) Find(_ context.Context, id string) (shell.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs[id]; r != nil {
		return r.Record, nil
	}
	return shell.Record{}, shell.ErrNoRun
}

// Ended implements shell.Store.
func (m *Memory) Ended(_ context.Context, since time.Time, n int) ([]shell.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ended []shell.Record
	for _, r := range m.runs {
		if r.Ended && !r.At.Before(time.UnixMilli(since.UnixMilli())) {
			ended = append(ended, r.Record)
		}
	}
	slices.SortFunc(ended, func(a, b shell.Record) int { return cmp.Compare(b.Run, a.Run) })
	return ended[:min(n, len(ended))], nil
}

// Read implements shell.Store.
func (m *Memory) Read(_ context.Context, run int64, after uint64, maxBytes int) ([]shell.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(run)
	if r == nil {
		return nil, nil
	}
	var events []shell.Event
	for _, e := range r.events {
		if e.Seq <= after {
			continue
		}
		if maxBytes -= len(e.Data); maxBytes < 0 && len(events) > 0 || len(events) == shell.MaxPageEvents {
			break
		}
		e.Data = bytes.Clone(e.Data)
		events = append(events, e)
	}
	return events, nil
}

// Forget implements shell.Store.
func (m *Memory) Forget(_ context.Context, run int64) error {
	if err := m.before("forget"); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.find(run); r != nil {
		delete(m.runs, r.ID)
	}
	return nil
}

// Recover implements shell.Store.
func (m *Memory) Recover(_ context.Context, at time.Time) (n int, err error) {
	if err := m.before("recover"); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.runs {
		if r.Ended {
			continue
		}
		n++
		end := shell.End{Code: -1, Last: 1}
		for _, e := range r.events {
			end.Last, end.Bytes = e.Seq+1, end.Bytes+int64(len(e.Data))
		}
		r.events = append(r.events, shell.Event{Seq: end.Last, Name: shell.Exit, Code: -1})
		r.Ended, r.At, r.End = true, time.UnixMilli(at.UnixMilli()), end
	}
	return n, nil
}

// Sweep implements shell.Store.
func (m *Memory) Sweep(_ context.Context, keep shell.Keep) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ended []*memoryRun
	for _, r := range m.runs {
		if r.Ended {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *memoryRun) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Run, a.Run)) })
	for i, r := range ended {
		keep.Bytes -= r.End.Bytes
		if i >= keep.Runs || keep.Bytes < 0 || r.At.Before(time.UnixMilli(keep.Since.UnixMilli())) {
			delete(m.runs, r.ID)
		}
	}
	return nil
}
