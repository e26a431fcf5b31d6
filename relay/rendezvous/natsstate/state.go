package natsstate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

var _ rendezvous.State = (*State)(nil)

// A State is a rendezvous.State in a NATS cluster. Use [Open].
type State struct {
	cfg  Config
	life context.Context // ends with Close
	end  context.CancelFunc

	nc     *nats.Conn
	js     jetstream.JetStream
	mail   *mailbox
	closed chan struct{} // the connection has ended

	marks sync.Map       // rendezvous.Bucket to *mark
	tasks sync.WaitGroup // commits of marks

	mu    sync.Mutex
	moved time.Time // when the connection was last moved to another server
}

// Open connects and makes the KV bucket where there is none. While servers are starting
// it waits for them, for as long as Config.OpenTimeout says.
func Open(ctx context.Context, cfg Config) (*State, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open the relay's state in NATS: %w", err)
	}
	s := &State{cfg: cfg, closed: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.OpenTimeout, fmt.Errorf("gave up after %v", cfg.OpenTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, s.end)
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("open the relay's state in NATS at %v: %w", cfg.Servers, err)
	}
	if !stop() {
		s.Close()
		return nil, fmt.Errorf("open the relay's state in NATS at %v: %w", cfg.Servers, context.Cause(ctx))
	}
	cfg.Logger.Info("the relay's state is in NATS", "server", s.nc.ConnectedUrlRedacted(), "bucket", cfg.Bucket)
	return s, nil
}

func (s *State) open(ctx context.Context) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	var err error
	if s.js, err = jetstream.New(s.nc); err != nil {
		return err
	}
	if s.mail, err = newMailbox(s.nc); err != nil {
		return err
	}
	return s.prepareBucket(ctx)
}

// Close ends the connection and waits for what is under way. It may be called again.
func (s *State) Close() error {
	s.end()
	if s.nc != nil {
		s.nc.Close()
		<-s.closed
	}
	s.tasks.Wait()
	return nil
}

// Get returns an entry, or rendezvous.ErrNotFound.
func (s *State) Get(ctx context.Context, bucket rendezvous.Bucket, key string) (rendezvous.Entry, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	m, err := s.last(ctx, bucket, key)
	if err != nil {
		return rendezvous.Entry{}, s.explain("read", bucket, key, err)
	}
	if !m.live() {
		return rendezvous.Entry{}, fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrNotFound)
	}
	return rendezvous.Entry{Key: key, Value: m.value, Revision: m.sequence}, nil
}

// Put writes an entry and returns its new revision. revision is the one that the entry
// must have, 0 when there must be none, or rendezvous.AnyRevision; otherwise
// rendezvous.ErrConflict. After any other error the entry may have been written.
func (s *State) Put(ctx context.Context, bucket rendezvous.Bucket, key string, value []byte, revision uint64) (uint64, error) {
	if len(value) > maxValue {
		return 0, fmt.Errorf("write %s/%s: a value of %d bytes is larger than %d", bucket, key, len(value), maxValue)
	}
	ctx, cancel := s.call(ctx)
	defer cancel()
	w := write{subject: s.subject(bucket, key), value: value, id: nuid.Next()}
	if revision == rendezvous.AnyRevision {
		given, err := s.commit(ctx, w)
		return given, s.explain("write", bucket, key, err)
	}
	w.expect, w.expects = revision, true
	for p := newPause(); ; {
		given, err := s.commit(ctx, w)
		if !errors.Is(err, errOutrun) {
			return given, s.explain("write", bucket, key, err)
		}
		// Something else was written, or is being written and may yet come to nothing.
		m, err := s.last(ctx, bucket, key)
		if err != nil {
			return 0, s.explain("write", bucket, key, err)
		}
		switch {
		case m.id == w.id: // its answer was lost
			return m.sequence, nil
		case revision == 0 && !m.live():
			w.expect = m.sequence // the mark of a deletion, or nothing
		case revision == 0 || m.sequence != revision:
			return 0, fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrConflict)
		}
		if err := p.wait(ctx); err != nil {
			return 0, s.explain("write", bucket, key, err)
		}
	}
}

// Delete removes an entry that has the revision, or whatever it has with
// rendezvous.AnyRevision. Of several that delete one revision a single one succeeds; the
// others get rendezvous.ErrConflict or rendezvous.ErrNotFound. After any other error the
// entry may have been removed.
func (s *State) Delete(ctx context.Context, bucket rendezvous.Bucket, key string, revision uint64) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	w := write{subject: s.subject(bucket, key), id: nuid.Next(), remove: s.cfg.markerLife, expects: true}
	for p := newPause(); ; {
		if w.expect = revision; revision == rendezvous.AnyRevision {
			m, err := s.last(ctx, bucket, key)
			if err != nil {
				return s.explain("delete", bucket, key, err)
			}
			switch {
			case m.id == w.id: // done, and its answer was lost
				return nil
			case !m.live():
				return fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrNotFound)
			}
			w.expect = m.sequence
		}
		_, err := s.commit(ctx, w)
		if !errors.Is(err, errOutrun) {
			return s.explain("delete", bucket, key, err)
		}
		if revision != rendezvous.AnyRevision {
			m, err := s.outrun(ctx, bucket, key, w)
			switch {
			case err != nil:
				return s.explain("delete", bucket, key, err)
			case m.id == w.id:
				return nil
			case !m.live():
				return fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrNotFound)
			case m.sequence != revision:
				return fmt.Errorf("%s/%s: %w", bucket, key, rendezvous.ErrConflict)
			}
		}
		if err := p.wait(ctx); err != nil {
			return s.explain("delete", bucket, key, err)
		}
	}
}

// call bounds a call's time.
func (s *State) call(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errNoAnswer)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// subject is where the values of a key are, in the form of a KV bucket.
func (s *State) subject(bucket rendezvous.Bucket, key string) string {
	return "$KV." + s.cfg.Bucket + "." + string(bucket) + "." + key
}
