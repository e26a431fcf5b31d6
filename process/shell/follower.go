package shell

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/wsd-dev/wsd/process/eventlog"
	"github.com/wsd-dev/wsd/protocol"
)

// errClosed is returned by Next after Close.
var errClosed = errors.New("follow a run: closed")

// A follower is the Events of a run. Between its goroutine and others, next is guarded by
// the mutex of a run that is live.
type follower struct {
	shell  *Shell
	id     string
	run    *run          // nil if it had ended before
	key    int64         // of the log
	shared bool          // follows beside others, and what is not kept is left out
	reader *list.Element // its place among the run's readers; nil if it is none

	next   uint64 // number of the next event to give
	joined uint64 // of the newest that was committed when it joined
	last   uint64 // of the exit, if run is nil
	left   bool   // the log has no exit, and last is not known: see followLeft

	page   []eventlog.Event // read from the log and not given
	held   atomic.Int64     // bytes of the Shell's pages that the page may have
	given  given            // of the tail, and may be worked on
	once   sync.Once        // closes closed
	closed chan struct{}
}

// given is how much a follower was given since it last asked for more.
type given struct{ bytes, events int }

// follow makes f the run's follower. It returns errEnded if the run has ended: the log has
// all of it.
func (r *run) follow(f *follower, after After) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.isDropped():
		return noRecord(r.id)
	case r.ended:
		return errEnded
	case r.evicted && !after.Tail && !f.shared:
		return truncated(r.id)
	case r.follower != nil && !f.shared:
		return protocol.NamedErrorf(CodeBusy, "exec %s already has a live subscriber", r.id)
	}
	f.run, f.joined = r, r.committed
	f.next = after.Seq + 1
	if after.Tail {
		f.next = r.committed + 1
	}
	if r.follower != nil {
		f.reader = r.readers.PushBack(f)
	} else {
		r.follower = f
	}
	return nil
}

// left is called with mu held when f follows no more. When it has held the command up, the
// reader that has been there for longest does so from now on.
func (r *run) left(f *follower) {
	switch {
	case f.reader != nil:
		r.readers.Remove(f.reader)
		f.reader = nil
	case r.follower == f:
		r.follower = nil
		r.dropTail()
		if first := r.readers.Front(); first != nil {
			r.promote(first.Value.(*follower))
		}
	}
}

// promote has a reader hold the command up from now on. It is called with mu held, while
// nobody else does.
func (r *run) promote(f *follower) {
	r.readers.Remove(f.reader)
	f.reader, f.joined = nil, r.committed
	r.follower = f
}

// relieve is called with mu held by a reader that has had all there is. If the command is
// held up by a follower that shares the run and does not read, the two change places: of
// those that share a run, one that reads is held up by none that does not.
func (r *run) relieve(f *follower) {
	slow := r.follower
	if slow == nil || !slow.shared || r.room == nil || len(r.tail) == 0 || r.tail[len(r.tail)-1].Seq < r.last {
		return
	}
	r.follower = nil
	slow.release()
	r.dropTail()
	slow.reader = r.readers.PushBack(slow)
	r.promote(f)
}

var errEnded = errors.New("the run has ended")

func truncated(id string) error {
	return protocol.NamedErrorf(CodeTruncated, "the log of exec %s has become too long and is not kept", id)
}

// Next implements Events.
func (f *follower) Next(ctx context.Context) (Event, error) {
	for {
		select {
		case <-f.closed:
			f.releasePage() // which was read when Close was called
			return Event{}, errClosed
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		default:
		}
		e, news, err := f.take()
		switch {
		case err != nil:
			return Event{}, err
		case e.Seq > 0:
			return f.event(&e), nil
		case news == nil:
			if err := f.turn(ctx); err != nil {
				return Event{}, err
			}
			continue
		}
		select {
		case <-news:
		case <-f.closed:
		case <-ctx.Done():
		}
	}
}

// event is what a client gets of an event.
func (f *follower) event(e *eventlog.Event) Event {
	if e.Kind == eventlog.KindExited {
		return Event{ID: f.id, Seq: e.Seq, Name: Exit, Code: e.Exit.Code}
	}
	return Event{ID: f.id, Seq: e.Seq, Name: e.Stream, Data: e.Data}
}

// take takes the next event of those that are at hand. Without one, news is closed when there
// may be one, and nil if the log has it.
func (f *follower) take() (e eventlog.Event, news <-chan struct{}, err error) {
	r := f.run
	if r == nil {
		switch {
		case len(f.page) > 0:
			return f.turned(), nil, nil
		case f.next > f.last:
			return eventlog.Event{}, nil, io.EOF
		}
		return eventlog.Event{}, nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case f.reader != nil:
		return f.takeAsReader()
	case r.follower != f:
		return eventlog.Event{}, nil, errClosed
	}
	for len(r.tail) > 0 && r.tail[0].Seq < f.next { // of a client that has seen them, it says
		f.pop()
	}
	f.release()
	switch {
	case r.isDropped():
		err = r.dropReason()
	case len(f.page) > 0:
		e = f.turned()
		if f.next > f.joined && r.due {
			r.mark() // to remove what was still needed
		}
	case len(r.tail) > 0 && r.tail[0].Seq == f.next:
		e = f.pop()
		f.next++
	case f.next <= r.committed:
	case r.ended:
		err = io.EOF
	default:
		news = r.awaitNews()
	}
	return e, news, err
}

// takeAsReader is take for one that reads the log only. It is called with the run's mutex
// held.
func (f *follower) takeAsReader() (e eventlog.Event, news <-chan struct{}, err error) {
	r := f.run
	switch {
	case r.isDropped():
		err = r.dropReason()
	case len(f.page) > 0:
		e = f.turned()
	case f.next <= r.committed:
	case r.ended:
		err = io.EOF
	default:
		r.relieve(f)
		news = r.awaitNews()
	}
	return e, news, err
}

// dropReason is called with mu held, of a run that was dropped.
func (r *run) dropReason() error {
	if r.failure != nil {
		return r.failure
	}
	return io.EOF
}

// turned takes the next event of the page.
func (f *follower) turned() eventlog.Event {
	e := f.page[0]
	f.page[0] = eventlog.Event{}
	if f.page = f.page[1:]; len(f.page) == 0 {
		f.page = nil
		f.releasePage()
	}
	f.next = e.Seq + 1
	return e
}

// pop takes the first event of the tail, which is in the window until release is called.
// Both are called with the run's mutex held.
func (f *follower) pop() eventlog.Event {
	r := f.run
	e := r.tail[0]
	f.given.events++
	f.given.bytes += len(e.Data)
	r.tail[0] = eventlog.Event{}
	if r.tail = r.tail[1:]; len(r.tail) == 0 {
		r.tail = nil
	}
	return e
}

// release is called when what was given is not worked on any more.
func (f *follower) release() {
	f.run.took(f.given.bytes, f.given.events)
	f.given = given{}
}

// Ready reports whether Next has an event at hand. It is for the goroutine that calls Next.
func (f *follower) Ready() bool {
	if len(f.page) > 0 {
		return true
	}
	r := f.run
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return f.reader == nil && len(r.tail) > 0 && r.tail[0].Seq == f.next
}

// turn reads the next page of the log.
func (f *follower) turn(ctx context.Context) error {
	page, err := f.shell.store().Read(ctx, f.key, f.next-1, f.reservePage(), maxPageEvents)
	if err != nil {
		f.releasePage()
		return fmt.Errorf("read the log of exec %s: %w", f.id, err)
	}
	if r := f.run; r != nil {
		r.mu.Lock()
		for len(page) > 0 && page[len(page)-1].Seq > r.committed { // they are not committed yet, or nobody was told
			page = page[:len(page)-1]
		}
		r.mu.Unlock()
	}
	if n := len(page); f.left && (n == 0 || page[n-1].Kind == eventlog.KindExited) { // the run may have its end by now
		if n == 0 {
			page = []eventlog.Event{exited(-1)}
			page[0].Seq = f.next
		}
		f.last, f.left = page[len(page)-1].Seq, false
	}
	switch {
	case len(page) == 0:
		return io.EOF // it was forgotten meanwhile
	case page[0].Seq == f.next:
	case page[0].Seq > f.next && f.shared:
		f.skipTo(page[0].Seq)
	case page[0].Seq > f.next && f.hasLost(): // lifted, and its log has become too long
		return truncated(f.id)
	default:
		return fmt.Errorf("read the log of exec %s: event %d follows %d", f.id, page[0].Seq, f.next-1)
	}
	f.page = page
	return nil
}

// reservePage returns how much the next page may have. Without room among the pages of all
// followers that is one byte, which stands for a single event.
func (f *follower) reservePage() int {
	pages := &f.shell.pages
	if pages.Add(pageBytes) > maxPageBytes {
		pages.Add(-pageBytes)
		return 1
	}
	f.held.Add(pageBytes)
	return pageBytes
}

func (f *follower) releasePage() { f.shell.pages.Add(-f.held.Swap(0)) }

// skipTo goes on with an event since those before it are not kept.
func (f *follower) skipTo(seq uint64) {
	if r := f.run; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	f.next = seq
}

// hasLost reports whether the log of a live run has become too long.
func (f *follower) hasLost() bool {
	r := f.run
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.evicted
}

// Close implements Events.
func (f *follower) Close() {
	f.once.Do(func() { close(f.closed) })
	f.releasePage()
	if r := f.run; r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		f.release()
		r.left(f)
	}
}
