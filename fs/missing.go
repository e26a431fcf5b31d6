package fs

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsd-dev/wsd/fs/fileuri"
	"github.com/wsd-dev/wsd/fs/watch"
	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// missing is the one fs/watchMissing of a connection.
type missing struct {
	mu      sync.Mutex
	current *missingWatch
}

// missingWatch waits for one of several names to appear, or for one to disappear.
type missingWatch struct {
	sub    *watch.Sub
	cancel context.CancelFunc
	done   chan struct{}
	// names that matter, by the directory they are in: true for one that is there now
	// and is to stay.
	names map[watch.ID]map[string]bool
}

// watchMissing replaces the watch of the connection by one for the paths of p. There
// is none when one of them exists, which a dangling link does, or present does not,
// or the list is empty or too long. When one of them appears, or a directory on the
// way to one, or when present or a directory that was watched disappears, the client
// is told, once.
func (s *Service) watchMissing(ctx context.Context, p *protocol.WatchMissingParams) (*protocol.WatchMissingResult, error) {
	paths := make([]string, len(p.Missing))
	for i, uri := range p.Missing {
		var err error
		if paths[i], err = fileuri.Path(uri); err != nil {
			return nil, err
		}
	}
	present := ""
	if p.Present != nil {
		var err error
		if present, err = fileuri.Path(*p.Present); err != nil {
			return nil, err
		}
	}
	s.missing.close()
	if len(paths) == 0 || len(paths) > protocol.MaxMissingPaths {
		return &protocol.WatchMissingResult{}, nil
	}
	w, err := s.newMissingWatch(paths, present)
	if err != nil {
		if !isGone(err) {
			s.logger.Debug("paths cannot be watched", "err", err)
		}
		return &protocol.WatchMissingResult{}, nil
	}
	ctx2, cancel := context.WithCancel(s.ctx)
	w.cancel = cancel
	answered := make(chan struct{})
	s.wg.Go(func() { // until the paths change or w is closed
		defer close(w.done)
		defer w.sub.Close()
		if !w.wait(ctx2) {
			return
		}
		select {
		case <-answered:
		case <-ctx2.Done():
			return
		}
		// An error is that the client is gone, or that it has set another watch.
		_ = s.notifier.Notify(ctx2, protocol.NotifyFsMissingChanged, &protocol.MissingChangedParams{WatchID: p.WatchID})
	})
	s.missing.set(w)
	rpc.AfterReply(ctx, sync.OnceFunc(func() { close(answered) }))
	return &protocol.WatchMissingResult{Watching: true}, nil
}

var errExists = errors.New("path exists")

func (s *Service) newMissingWatch(paths []string, present string) (*missingWatch, error) {
	sub, err := s.host.watch.Subscribe(protocol.MaxQueuedFileEvents)
	if err != nil {
		return nil, err
	}
	w := &missingWatch{sub: sub, done: make(chan struct{}), names: make(map[watch.ID]map[string]bool)}
	for _, path := range paths {
		if err := w.addMissing(path); err != nil {
			sub.Close()
			return nil, err
		}
	}
	if present != "" && present != "/" {
		err = w.add(filepath.Dir(present), filepath.Base(present), true)
		if err == nil {
			_, err = lstat(present)
		}
		if err != nil {
			sub.Close()
			return nil, err
		}
	}
	return w, nil
}

// addMissing watches the lowest directory on the way to path that exists, for the
// name in it that does not.
func (w *missingWatch) addMissing(path string) error {
	for {
		if path == "/" {
			return errExists
		}
		dir := filepath.Dir(path)
		err := w.add(dir, filepath.Base(path), false)
		if err == nil {
			// It may have appeared just before it was watched.
			if _, err = lstat(path); err == nil {
				return errExists
			}
			if errors.Is(err, unix.ENOENT) {
				return nil
			}
			return err
		}
		if !errors.Is(err, unix.ENOENT) {
			return err
		}
		if _, linkErr := lstat(dir); linkErr == nil { // a link that leads nowhere
			return err
		}
		path = dir
	}
}

func (w *missingWatch) add(dir, name string, stays bool) error {
	id, err := w.sub.Add(dir, true)
	if err != nil {
		return err
	}
	if w.names[id] == nil {
		w.names[id] = make(map[string]bool)
	}
	w.names[id][name] = stays
	return nil
}

// wait returns true once something happened that the client is to be told, and false
// when ctx ends first.
func (w *missingWatch) wait(ctx context.Context) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.sub.Wake():
		}
		events, lost := w.sub.Take()
		if lost {
			return true
		}
		for _, e := range events {
			stays, known := w.names[e.ID][e.Name]
			switch {
			case e.Name == "" && e.Op != watch.Modify, // the directory itself went
				known && stays && e.Op == watch.Remove,
				known && !stays && e.Op == watch.Create:
				return true
			}
		}
	}
}

// set keeps w as the watch of the connection.
func (m *missing) set(w *missingWatch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = w
}

// close ends the watch, and waits until nothing more is sent for it.
func (m *missing) close() {
	m.mu.Lock()
	w := m.current
	m.current = nil
	m.mu.Unlock()
	if w != nil {
		w.cancel()
		<-w.done
	}
}
