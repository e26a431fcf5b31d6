package fs

import (
	"context"
	"errors"
	"sync"

	"github.com/wsd-dev/wsd/fs/atomicfile"
	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/pattern"
	"github.com/wsd-dev/wsd/fs/watch"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// watches are the fs/watch subscriptions of a connection, by the ids that the client
// chose.
type watches struct {
	budget watch.Budget // of directories, all subscriptions together

	mu     sync.Mutex
	byID   map[string]*subscription
	closed bool
}

// subscription is one fs/watch.
type subscription struct {
	id string
	// answered is closed once the answer to fs/watch is queued: notifications come
	// after it.
	answered chan struct{}
	once     sync.Once

	ctx    context.Context
	cancel context.CancelFunc

	// One of these is set before it is in use.
	tree   *watch.Tree
	helper *helper
	remote string // its id in the helper

	done  chan struct{} // closed when nothing more is sent from tree; nil without one
	inUse bool          // guarded by watches.mu
}

func (s *Service) watch(ctx context.Context, p *protocol.WatchParams) (*protocol.WatchResult, error) {
	exclude, err := compilePatterns("exclude", p.Exclude)
	if err != nil {
		return nil, err
	}
	path, err := fileuri.Path(p.Path)
	if err != nil {
		return nil, err
	}
	helper, release, err := s.helperFor(ctx, p.Sandbox)
	if err != nil {
		return nil, err
	}
	defer release()
	w, err := s.watches.reserve(s.ctx, p.WatchID)
	if err != nil {
		return nil, err
	}
	result := &protocol.WatchResult{}
	if helper == nil {
		w.tree, err = s.host.watch.Watch(ctx, watch.Options{
			Path: path, Recursive: isTrue(p.Recursive), Limit: protocol.MaxQueuedFileEvents, Budget: &s.watches.budget,
			Exclude: func(rel string) bool { return isTemporary(rel) || exclude.Match(rel) },
		})
		if err == nil {
			result.Directories = uint64(w.tree.Directories())
			w.done = make(chan struct{})
			s.wg.Go(func() { s.tell(w) }) // until w's context ends
		}
	} else {
		err = helper.watch(ctx, p, w, result)
	}
	s.watches.settle(w, err)
	if err != nil {
		w.cancel()
		return nil, watchError(err)
	}
	rpc.AfterReply(ctx, w.open)
	return result, nil
}

// watchError gives the limits of watching the code of limits.
func watchError(err error) error {
	switch {
	case errors.Is(err, watch.ErrBudget):
		return refused("at most %d directories may be watched per connection", protocol.MaxWatchedDirectories)
	case errors.Is(err, watch.ErrLimit):
		return protocol.Errorf(protocol.CodeInternal, "%v", err)
	}
	return err
}

// isTemporary reports whether rel is a file on its way into place.
func isTemporary(rel string) bool {
	return atomicfile.IsTemporary(rel[lastSlash(rel)+1:])
}

func lastSlash(s string) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == '/' {
			return i
		}
	}
	return -1
}

// compilePatterns compiles a list that a request has as its member.
func compilePatterns(member string, texts []string) (pattern.Set, error) {
	if len(texts) > protocol.MaxPatterns {
		return nil, refused("%s has more than %d patterns", member, protocol.MaxPatterns)
	}
	set, err := pattern.CompileSet(texts)
	if err != nil {
		return nil, protocol.InvalidParams("%s: %v", member, err)
	}
	return set, nil
}

// tell sends what happens in w's tree, until w's context ends.
func (s *Service) tell(w *subscription) {
	defer close(w.done)
	defer w.tree.Close()
	select {
	case <-w.answered:
	case <-w.ctx.Done():
		return
	}
	for {
		batch, err := w.tree.Next(w.ctx, protocol.MaxChangesPerMessage)
		if err != nil {
			return
		}
		out := &protocol.ChangedParams{WatchID: w.id, Overflow: batch.Overflow, Changes: make([]protocol.PathChange, len(batch.Changes))}
		for i, c := range batch.Changes {
			out.Changes[i] = protocol.PathChange{Path: fileuri.Format(c.Path), Kind: changeKinds[c.Kind]}
		}
		if err := s.notifier.Notify(w.ctx, protocol.NotifyFsChanged, out); err != nil {
			return // the client is gone, and soon the watch
		}
	}
}

var changeKinds = [...]string{
	watch.Created:  protocol.ChangeCreated,
	watch.Modified: protocol.ChangeModified,
	watch.Removed:  protocol.ChangeRemoved,
}

func (s *Service) unwatch(ctx context.Context, p *protocol.UnwatchParams) (*protocol.Empty, error) {
	w := s.watches.take(p.WatchID)
	if w == nil {
		return &protocol.Empty{}, nil
	}
	w.end()
	if w.helper != nil {
		defer w.helper.unpin()
		err := w.helper.call(ctx, protocol.MethodFsUnwatch, &protocol.UnwatchParams{WatchID: w.remote}, nil)
		if err != nil && !errors.Is(err, errHelperEnded) {
			return nil, err
		}
	}
	return &protocol.Empty{}, nil
}

func (t *watches) reserve(ctx context.Context, id string) (*subscription, error) {
	if len(id) > protocol.MaxWatchIDBytes {
		return nil, refused("watch ID must not exceed %d bytes", protocol.MaxWatchIDBytes)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byID[id] != nil:
		return nil, refused("watch `%s` already exists", id)
	case len(t.byID) >= protocol.MaxWatches:
		return nil, refused("at most %d watches may be set per connection", protocol.MaxWatches)
	case t.closed:
		return nil, refused("the connection is ending")
	}
	w := &subscription{id: id, answered: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancel(ctx)
	if t.byID == nil {
		t.byID = make(map[string]*subscription)
		t.budget.Max = protocol.MaxWatchedDirectories
	}
	t.byID[id] = w
	return w, nil
}

// settle makes a reserved subscription usable, or its id free again if err is not nil.
func (t *watches) settle(w *subscription, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		delete(t.byID, w.id)
		return
	}
	w.inUse = true
}

// take removes the subscription id; nil if there is none that is in use.
func (t *watches) take(id string) *subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.byID[id]
	if w == nil || !w.inUse {
		return nil
	}
	delete(t.byID, id)
	return w
}

func (t *watches) closeAll() {
	t.mu.Lock()
	all := t.byID
	t.byID, t.closed = nil, true
	t.mu.Unlock()
	for _, w := range all {
		w.end()
	}
}

func (w *subscription) open() { w.once.Do(func() { close(w.answered) }) }

// end stops the sending and waits for that.
func (w *subscription) end() {
	w.cancel()
	if w.done != nil {
		<-w.done
	}
}
