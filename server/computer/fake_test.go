package computer

import (
	"context"
	"errors"
	"io"
	iofs "io/fs"
	"slices"
	"sync"

	"github.com/wsd-dev/wsd/fs/changes"
	"github.com/wsd-dev/wsd/fs/lost"
	"github.com/wsd-dev/wsd/fs/tree"
	"github.com/wsd-dev/wsd/process/shell"
	"github.com/wsd-dev/wsd/protocol"
)

// list is a stream of what is there, which says how it was closed.
type list[T any] struct {
	mu     sync.Mutex
	items  []T
	fail   error // after the items, in the place of io.EOF
	closed []error
	ended  chan struct{} // closed with the stream
}

func listOf[T any](items ...T) *list[T] {
	return &list[T]{items: items, ended: make(chan struct{})}
}

func (l *list[T]) Next(context.Context) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.items) > 0 {
		first := l.items[0]
		l.items = l.items[1:]
		return first, nil
	}
	var none T
	if l.fail != nil {
		return none, l.fail
	}
	return none, io.EOF
}

func (l *list[T]) Close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = append(l.closed, err); len(l.closed) == 1 {
		close(l.ended)
	}
}

func (l *list[T]) left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.items)
}

// collect reads a stream to its end.
func collect[T any](ctx context.Context, s changes.Stream[T]) ([]T, error) {
	var out []T
	for {
		item, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, item)
	}
}

// A fakePeer keeps objects by hash and the entries that it was given. It answers what
// its fields say.
type fakePeer struct {
	mu      sync.Mutex
	objects map[tree.Hash][]byte
	entries []tree.Entry
	pushes  []changes.PushInput
	settled int
	queries []changes.FetchQuery
	offers  *list[tree.Entry] // of the next FetchChanges
	pack    *list[[]byte]
	applied []byte
	at      changes.Watermarks
	err     error // of every call, unless nil
}

func (p *fakePeer) Watermarks(_ context.Context, settle bool) (changes.Watermarks, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if settle {
		p.settled++
	}
	return p.at, p.err
}

// asked counts the queries.
func (p *fakePeer) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queries)
}

func (p *fakePeer) HasObjects(_ context.Context, hashes []tree.Hash) ([]tree.Hash, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(hashes), func(h tree.Hash) bool { return p.objects[h] == nil }), p.err
}

func (p *fakePeer) FetchObjects(_ context.Context, hashes []tree.Hash) (changes.Stream[tree.Data], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := listOf[tree.Data]()
	for _, h := range hashes {
		if p.objects[h] == nil {
			return nil, &tree.MissingError{Hash: h}
		}
		out.items = append(out.items, tree.Data{Hash: h, Bytes: p.objects[h]})
	}
	return out, p.err
}

func (p *fakePeer) PushObjects(ctx context.Context, objects changes.Stream[tree.Data]) error {
	defer objects.Close(nil)
	for {
		d, err := objects.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if tree.Sum(d.Bytes) != d.Hash {
			return &iofs.PathError{Op: "store", Path: d.Hash.String(), Err: tree.ErrInvalid}
		}
		p.mu.Lock()
		p.objects[d.Hash] = d.Bytes
		p.mu.Unlock()
	}
}

func (p *fakePeer) Push(ctx context.Context, in changes.PushInput, entries changes.Stream[tree.Entry]) (changes.PushResult, error) {
	defer entries.Close(nil)
	all, err := collect(ctx, entries)
	if err != nil {
		return changes.PushResult{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.entries, p.pushes = append(p.entries, all...), append(p.pushes, in)
	cursor := tree.At(in.SenderRev)
	if in.Cursor != nil {
		cursor = *in.Cursor
	}
	return changes.PushResult{Rev: 40 + int64(len(p.entries)), Applied: len(all), AppliedPushCursor: cursor}, p.err
}

func (p *fakePeer) FetchChanges(_ context.Context, q changes.FetchQuery) (*changes.Fetch, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries = append(p.queries, q)
	return &changes.Fetch{Current: tree.At(12), AppliedPush: tree.AtPath(3, "/x"), Entries: p.offers}, p.err
}

func (p *fakePeer) ReadEntry(_ context.Context, path string) (*tree.Entry, error) {
	if err := tree.CheckPath(path); err != nil {
		return nil, &iofs.PathError{Op: "read", Path: path, Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.Path == path {
			return &e, nil
		}
	}
	return nil, p.err
}

// Lost is not on the wire of a computer.
func (p *fakePeer) Lost(context.Context, int64, int) ([]lost.Version, bool, error) {
	return nil, false, errors.ErrUnsupported
}

func (p *fakePeer) Await(context.Context, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}

func (p *fakePeer) FetchChangePack(_ context.Context, q changes.PackQuery) (*changes.Pack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries = append(p.queries, q.FetchQuery)
	return &changes.Pack{
		Cursor: tree.AtPath(9, q.Generation), Drained: q.MaxEntries > 1, Entries: int(q.MaxBytes),
		AppliedPush: tree.At(4), Pieces: p.pack,
	}, p.err
}

func (p *fakePeer) ApplyChangePack(ctx context.Context, generation string, pieces changes.Stream[[]byte]) (changes.PackResult, error) {
	defer pieces.Close(nil)
	all, err := collect(ctx, pieces)
	if err != nil {
		return changes.PackResult{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied = slices.Concat(all...)
	return changes.PackResult{AppliedPushCursor: tree.AtPath(5, generation), Applied: len(all), Entries: 7}, p.err
}

// fakeRuns is one run at a time for each id, which ends when it is told to. Each can be
// followed by one.
type fakeRuns struct {
	mu       sync.Mutex
	requests []shell.Request
	runs     map[string]*fakeRun
	log      []string      // what was called, in order
	starting chan struct{} // if set, Exec waits for it
}

type fakeRun struct {
	mu       sync.Mutex
	id       string
	events   []shell.Event
	grown    chan struct{} // closed and made anew with each event
	follower *fakeEvents
}

func newRuns() *fakeRuns { return &fakeRuns{runs: map[string]*fakeRun{}} }

func (f *fakeRuns) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, what)
}

func (f *fakeRuns) run(id string) *fakeRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[id]
}

func (f *fakeRuns) Exec(ctx context.Context, r shell.Request) (string, shell.Events, error) {
	if f.starting != nil {
		select {
		case <-f.starting:
		case <-ctx.Done():
			return "", nil, context.Cause(ctx)
		}
	}
	f.mu.Lock()
	f.requests = append(f.requests, r)
	if r.ID == "" {
		r.ID = "made"
	}
	f.log = append(f.log, "exec "+r.ID)
	run := &fakeRun{id: r.ID, grown: make(chan struct{})}
	f.runs[r.ID] = run
	f.mu.Unlock()
	return r.ID, run.follow(0), nil
}

func (f *fakeRuns) GetExec(_ context.Context, id string, after shell.After) (shell.Events, error) {
	f.note("get " + id)
	run := f.run(id)
	if run == nil {
		return nil, &protocol.NamedError{Code: "ENOENT", Message: "no exec record for id " + id}
	}
	if after.Tail {
		after.Seq = uint64(run.count())
	}
	e := run.follow(after.Seq)
	if e == nil {
		return nil, &protocol.NamedError{Code: "EEXEC_BUSY", Message: "exec " + id + " already has a live subscriber"}
	}
	return e, nil
}

func (f *fakeRuns) KillExec(_ context.Context, id, signal string) error {
	f.note("kill " + id + " " + signal)
	run := f.run(id)
	if run == nil {
		return &protocol.NamedError{Code: "ENOENT", Message: "no exec record for id " + id}
	}
	run.add(shell.Event{Name: shell.Exit, Code: 143})
	return nil
}

func (f *fakeRuns) DisposeExec(_ context.Context, id string) error {
	f.note("dispose " + id)
	return nil
}

// follow is nil where somebody follows already.
func (r *fakeRun) follow(seq uint64) shell.Events {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.follower != nil {
		return nil
	}
	r.follower = &fakeEvents{r, seq}
	return r.follower
}

func (r *fakeRun) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

func (r *fakeRun) followed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.follower != nil
}

func (r *fakeRun) add(e shell.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.ID, e.Seq = r.id, uint64(len(r.events)+1)
	r.events = append(r.events, e)
	close(r.grown)
	r.grown = make(chan struct{})
}

type fakeEvents struct {
	run *fakeRun
	at  uint64
}

func (e *fakeEvents) Next(ctx context.Context) (shell.Event, error) {
	for {
		e.run.mu.Lock()
		events, grown := e.run.events, e.run.grown
		e.run.mu.Unlock()
		if n := uint64(len(events)); n > 0 && e.at >= n && events[n-1].Name == shell.Exit {
			return shell.Event{}, io.EOF
		}
		if e.at < uint64(len(events)) {
			e.at++
			return events[e.at-1], nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return shell.Event{}, context.Cause(ctx)
		}
	}
}

func (e *fakeEvents) Close() {
	e.run.mu.Lock()
	defer e.run.mu.Unlock()
	if e.run.follower == e {
		e.run.follower = nil
	}
}
