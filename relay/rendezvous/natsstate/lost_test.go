package natsstate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wsd-dev/wsd/relay/rendezvous"
	"github.com/wsd-dev/wsd/relay/rendezvous/natsstate/natstest"
)

// A losing JetStream loses the answer to the first write of a subject. The first read after
// the second write fails.
type losing struct {
	jetstream.JetStream
	subject string
	writes  atomic.Int32
	reads   atomic.Bool // the next one fails
}

func (l *losing) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if msg.Subject != l.subject {
		return l.JetStream.PublishMsg(ctx, msg, opts...)
	}
	switch l.writes.Add(1) {
	case 1:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if _, err := l.JetStream.PublishMsg(ctx, msg, opts...); err != nil {
			return nil, err
		}
		return nil, nats.ErrTimeout
	case 2:
		l.reads.Store(true)
	}
	return l.JetStream.PublishMsg(ctx, msg, opts...)
}

// lose makes s lose the answers to the next writes of a key.
func lose(t *testing.T, s *State, bucket rendezvous.Bucket, key string) *losing {
	t.Helper()
	l := &losing{JetStream: s.js, subject: s.subject(bucket, key)}
	mail := &mailbox{prefix: s.nc.NewInbox() + ".", waiting: map[string]chan *nats.Msg{}}
	_, err := s.nc.Subscribe(mail.prefix+"*", func(m *nats.Msg) {
		if l.reads.CompareAndSwap(true, false) {
			m = &nats.Msg{Subject: m.Subject, Header: nats.Header{"Status": {"503"}}}
		}
		mail.deliver(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.js, s.mail = l, mail
	return l
}

// A write whose answer is lost is no write of another's, although it cannot be read at once
// either.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, 1)
	const bucket, key = rendezvous.BucketAuthorizations, "k"
	for name, test := range map[string]struct {
		made bool // before
		call func(ctx context.Context, s *State, revision uint64) error
		gone bool // afterwards
	}{
		"new": {false, func(ctx context.Context, s *State, _ uint64) error {
			_, err := s.Put(ctx, bucket, key, []byte("new"), 0)
			return err
		}, false},
		"changed": {true, func(ctx context.Context, s *State, revision uint64) error {
			_, err := s.Put(ctx, bucket, key, []byte("new"), revision)
			return err
		}, false},
		"deleted": {true, func(ctx context.Context, s *State, revision uint64) error {
			return s.Delete(ctx, bucket, key, revision)
		}, true},
		"deleted at any revision": {true, func(ctx context.Context, s *State, _ uint64) error {
			return s.Delete(ctx, bucket, key, rendezvous.AnyRevision)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c, fresh())
			var revision uint64
			if test.made {
				var err error
				if revision, err = s.Put(t.Context(), bucket, key, []byte("old"), 0); err != nil {
					t.Fatal(err)
				}
			}
			l := lose(t, s, bucket, key)
			if err := test.call(t.Context(), s, revision); err != nil {
				t.Errorf("the call: %v", err)
			}
			if l.writes.Load() < 2 || l.reads.Load() {
				t.Errorf("%d writes; a read is still to fail: %v", l.writes.Load(), l.reads.Load())
			}
			e, err := s.Get(t.Context(), bucket, key)
			if test.gone != errors.Is(err, rendezvous.ErrNotFound) || !test.gone && string(e.Value) != "new" {
				t.Errorf("afterwards: %q, %v", e.Value, err)
			}
		})
	}
}
