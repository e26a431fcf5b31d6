package natsstate

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of a KV bucket's messages.
const (
	headerOperation = "KV-Operation" // of a deletion: DEL or PURGE
	headerReason    = "Nats-Marker-Reason"
	headerRollup    = "Nats-Rollup"
)

// A write is one message for the stream of the bucket.
type write struct {
	subject string
	value   []byte
	remove  time.Duration // if not 0: a deletion, which the servers remember for so long
	expects bool          // the subject's last sequence must be expect, 0 for none
	expect  uint64        // likewise
	id      string        // by which the servers know it when it is sent twice; "" for none
	again   bool          // it was sent before, and had no answer
}

func (w *write) message() *nats.Msg {
	m := nats.NewMsg(w.subject)
	m.Data = w.value
	if w.remove != 0 {
		m.Header.Set(headerOperation, "PURGE")
		m.Header.Set(headerRollup, "sub")
		m.Header.Set(jetstream.MsgTTLHeader, w.remove.String())
	}
	if w.expects {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.expect, 10))
	}
	if w.id != "" {
		m.Header.Set(jetstream.MsgIDHeader, w.id)
	}
	return m
}

// commit sends the write until a majority of the replicas has it, and returns its
// sequence, which is its revision; or errOutrun when the subject's last sequence is
// another one, or may become so. It repeats what gets no answer: the servers know the
// write by its id and store it once.
func (s *State) commit(ctx context.Context, w write) (uint64, error) {
	for p, began := newPause(), time.Now(); ; {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		ack, err := s.js.PublishMsg(attempt, w.message(), jetstream.WithRetryAttempts(0))
		cancel()
		switch {
		case err == nil:
			return ack.Sequence, nil
		case isOutrun(err):
			if w.again {
				if sequence := s.own(ctx, w); sequence != 0 {
					return sequence, nil
				}
			}
			return 0, errOutrun
		case !passing(err):
			return 0, err
		case time.Since(began) >= attemptTimeout:
			s.move()
		}
		w.again = true
		if waitErr := p.wait(ctx); waitErr != nil {
			return 0, errors.Join(waitErr, err)
		}
	}
}

// own returns the sequence of w where it is what its subject has, else 0. A server that has
// the only replica compares expect before it looks at id, and so refuses what it has stored.
func (s *State) own(ctx context.Context, w write) uint64 {
	body, err := json.Marshal(query{Last: []string{w.subject}})
	if err != nil {
		return 0
	}
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	a, err := s.direct(attempt, body)
	if err != nil || len(a.messages) != 1 || a.messages[0].id != w.id {
		return 0
	}
	return a.messages[0].sequence
}
