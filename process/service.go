package process

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

// closeTime bounds how long Close waits for children that were killed: one may be
// stuck in the kernel.
const closeTime = 10 * time.Second

// A Service runs the processes of one session.
type Service struct {
	cfg      Config
	notifier rpc.Notifier
	environ  func() []string

	lifetime context.Context // ends with Close
	end      context.CancelCauseFunc

	mu      sync.Mutex
	entries map[string]*entry
	closing bool
	starts  sync.WaitGroup // starts under way
	wg      sync.WaitGroup // publishers
	closed  chan struct{}
	err     error // of Close; set before closed is
}

// NewService makes a Service that tells n what happens to its processes. n does not
// keep the parameters of a notification beyond Notify.
func NewService(n rpc.Notifier, cfg Config) *Service {
	cfg = cfg.withDefaults()
	s := &Service{
		cfg: cfg, notifier: n,
		environ: sync.OnceValue(cfg.Environ),
		entries: make(map[string]*entry),
		closed:  make(chan struct{}),
	}
	s.lifetime, s.end = context.WithCancelCause(context.Background())
	cfg.Directory.add(s)
	return s
}

// Close kills what runs and waits until it is gone. Nobody is notified any more.
func (s *Service) Close() error {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if first {
		s.err = s.shutDown()
		close(s.closed)
	}
	<-s.closed
	return s.err
}

func (s *Service) shutDown() error {
	s.cfg.Directory.remove(s)
	s.end(rpc.ErrClosed)
	s.starts.Wait()
	s.mu.Lock()
	entries := s.entries
	s.entries = nil
	for _, e := range entries {
		if e.forget != nil {
			e.forget.Stop()
		}
	}
	s.mu.Unlock()
	for _, e := range entries {
		e.terminate()
	}
	stuck := releaseAll(entries)
	s.wg.Wait()
	if stuck > 0 {
		return fmt.Errorf("close processes: %d do not end although they were killed", stuck)
	}
	if err := s.cfg.Spawner.Close(); err != nil {
		return fmt.Errorf("close spawner: %w", err)
	}
	return nil
}

// releaseAll waits until nothing of the processes is left, and counts those of which
// something is after closeTime.
func releaseAll(entries map[string]*entry) (stuck int) {
	limit := time.NewTimer(closeTime)
	defer limit.Stop()
	over := false
	for _, e := range entries {
		if !over {
			select {
			case <-e.done:
			case <-limit.C:
				over = true
			}
		}
		select {
		case <-e.done:
			e.release()
		default:
			stuck++
		}
	}
	return stuck
}

// reserve takes an id for a start. It returns an entry that has it already, and
// fresh false, if that was made by the same request.
func (s *Service) reserve(id string, digest [sha256.Size]byte) (e *entry, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, false, protocol.Errorf(protocol.CodeInvalidRequest, "the session is ending")
	}
	if e := s.entries[id]; e != nil {
		if e.digest != digest {
			return nil, false, protocol.Errorf(protocol.CodeInvalidRequest, "process %s already exists", id)
		}
		return e, false, nil
	}
	if len(s.entries) >= protocol.MaxProcesses {
		return nil, false, protocol.Errorf(protocol.CodeInvalidRequest,
			"the session has %d processes, as many as are possible; those that have ended count for %v", len(s.entries), s.cfg.Retention)
	}
	e = &entry{id: id, digest: digest, ready: make(chan struct{}), replied: make(chan struct{}), turn: newTurn()}
	s.entries[id] = e
	s.starts.Add(1)
	return e, true, nil
}

// free gives up the id of a start that has failed.
func (s *Service) free(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[e.id] == e {
		delete(s.entries, e.id)
	}
}

// keep has a process that has closed forgotten after the retention time.
func (s *Service) keep(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return // Close gives it up
	}
	e.forget = time.AfterFunc(s.cfg.Retention, func() {
		s.mu.Lock()
		known := s.entries[e.id] == e
		if known {
			delete(s.entries, e.id)
		}
		s.mu.Unlock()
		if known {
			e.release()
		}
	})
}

// find returns the process with that id, waiting for a start under way, and nil if
// there is none. The caller releases it.
func (s *Service) find(ctx context.Context, id string) (*entry, error) {
	s.mu.Lock()
	e := s.entries[id]
	s.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	if err := e.wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, nil // the start has failed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[id] != e {
		return nil, nil
	}
	e.holders.Add(1) // under the lock: the entry's own hold is still there
	return e, nil
}

func unknownProcess(id string) error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "unknown process id %s", id)
}

// infos tells of all processes of the session.
func (s *Service) infos() []protocol.ProcessInfo {
	s.mu.Lock()
	var held []*entry
	for _, e := range s.entries {
		select {
		case <-e.ready:
			if e.err == nil {
				e.holders.Add(1)
				held = append(held, e)
			}
		default: // not started yet
		}
	}
	s.mu.Unlock()
	var infos []protocol.ProcessInfo
	for _, e := range held {
		info, err := e.info(s.cfg.SessionID)
		if err != nil {
			s.cfg.Logger.Error("output log cannot be read", "process", e.id, "err", err)
		} else {
			infos = append(infos, info)
		}
		e.release()
	}
	return infos
}
