package natsstate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// A message is what the stream has for a subject.
type message struct {
	subject  string
	sequence uint64 // 0 when there is nothing
	value    []byte
	id       string // of the write
	deleted  bool
}

// live says whether it is a value.
func (m *message) live() bool { return m.sequence != 0 && !m.deleted }

// A query is the body of a direct get (NATS ADR-31): either the last message of each
// of some subjects, or the messages of a subject with wildcards, by their sequence.
type query struct {
	Last  []string `json:"multi_last,omitempty"`
	Next  string   `json:"next_by_subj,omitempty"`
	Batch int      `json:"batch,omitempty"`
	From  uint64   `json:"seq,omitempty"`
	// Bytes end an answer early.
	Bytes int `json:"max_bytes,omitempty"`
}

// An answer holds the messages, how many more there are, and up to which sequence
// the server that answered has everything (queries by Last).
type answer struct {
	messages []message
	pending  uint64
	upTo     uint64
}

// last returns what the stream has for a key, the mark of a deletion included, as it was
// after last was called.
func (s *State) last(ctx context.Context, bucket rendezvous.Bucket, key string) (message, error) {
	m := s.mark(bucket)
	marked, err := m.write(ctx)
	if err != nil {
		return message{}, err
	}
	subject := s.subject(bucket, key)
	var found message
	err = s.repeat(ctx, query{Last: []string{subject, m.subject}}, func(a answer) bool {
		if i := slices.IndexFunc(a.messages, func(m message) bool { return m.subject == subject }); i >= 0 {
			found = a.messages[i]
		} else {
			found = message{}
		}
		return a.upTo >= marked
	})
	return found, err
}

// outrun returns what the stream has for a key after the deletion w was refused. Where the
// nearest server already shows w, or something later than what w expects, that is proof
// enough, the latter of a rendezvous.ErrConflict, though not of what there is by now. It
// costs no mark: many may want the one authorization.
func (s *State) outrun(ctx context.Context, bucket rendezvous.Bucket, key string, w write) (message, error) {
	body, err := json.Marshal(query{Last: []string{s.subject(bucket, key)}})
	if err != nil {
		return message{}, err
	}
	attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
	a, err := s.direct(attempt, body)
	cancel()
	if err == nil && len(a.messages) == 1 {
		switch m := a.messages[0]; {
		case m.id == w.id:
			return m, nil
		case m.sequence > w.expect:
			return message{}, rendezvous.ErrConflict
		}
	}
	return s.last(ctx, bucket, key)
}

// List returns the entries of a bucket: all that were there throughout the call, with a
// revision they had during it. What is written or deleted meanwhile may be in it or not.
func (s *State) List(ctx context.Context, bucket rendezvous.Bucket) ([]rendezvous.Entry, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	prefix := s.subject(bucket, "")
	found := map[string]message{}
	var from uint64
	// A change moves an entry to the end of the stream. Pages go from the beginning to
	// the end, so none is missed as long as the last page is not older than the others:
	// each has a mark of its own, which a server must have to be believed about the end.
	for more := true; more; {
		m := s.mark(bucket)
		marked, err := m.write(ctx)
		if err != nil {
			return nil, s.explain("list", bucket, "*", err)
		}
		err = s.repeat(ctx, query{Next: prefix + ">", Batch: s.cfg.page, Bytes: pageBytes, From: from}, func(a answer) bool {
			seen := false
			for _, e := range a.messages {
				if e.subject == m.subject {
					seen = seen || e.sequence >= marked
				} else if e.sequence >= found[e.subject].sequence {
					found[e.subject] = e
				}
				from = max(from, e.sequence+1)
			}
			more = a.pending > 0
			return more && len(a.messages) > 0 || seen
		})
		if err != nil {
			return nil, s.explain("list", bucket, "*", err)
		}
	}
	list := make([]rendezvous.Entry, 0, len(found))
	for subject, e := range found {
		if e.live() {
			list = append(list, rendezvous.Entry{Key: strings.TrimPrefix(subject, prefix), Value: e.value, Revision: e.sequence})
		}
	}
	slices.SortFunc(list, func(a, b rendezvous.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// repeat asks until accept takes an answer or ctx ends.
func (s *State) repeat(ctx context.Context, q query, accept func(answer) bool) error {
	body, err := json.Marshal(q)
	if err != nil {
		return err
	}
	for p, began := newPause(), time.Now(); ; {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		a, err := s.direct(attempt, body)
		cancel()
		if err == nil && !accept(a) {
			err = errBehind
		}
		if err == nil || !passing(err) {
			return err
		}
		if time.Since(began) >= attemptTimeout {
			s.move()
		}
		if waitErr := p.wait(ctx); waitErr != nil {
			return errors.Join(waitErr, err)
		}
	}
}

// direct sends one direct get, which any server that has a replica may answer.
func (s *State) direct(ctx context.Context, body []byte) (answer, error) {
	address, messages, done := s.mail.open(s.cfg.page + 8)
	defer done()
	if err := s.nc.PublishRequest("$JS.API.DIRECT.GET.KV_"+s.cfg.Bucket, address, body); err != nil {
		return answer{}, err
	}
	var a answer
	for {
		var msg *nats.Msg
		select {
		case msg = <-messages:
		case <-ctx.Done():
			return answer{}, context.Cause(ctx)
		}
		var err error
		switch status := msg.Header.Get("Status"); status {
		case "":
			var m message
			if m, err = parseMessage(msg); err != nil {
				return answer{}, err
			}
			a.messages = append(a.messages, m)
		case "204": // the end
			a.pending, err = number(msg, "Nats-Num-Pending")
			if err == nil && msg.Header.Get("Nats-UpTo-Sequence") != "" {
				a.upTo, err = number(msg, "Nats-UpTo-Sequence")
			}
			return a, err
		case "404":
			// There is a mark at least: a server without one is behind.
			return answer{}, errBehind
		case "503":
			return answer{}, errNoLeader
		default:
			return answer{}, fmt.Errorf("NATS answers %s %s (version 2.11 or later is needed)", status, msg.Header.Get("Description"))
		}
	}
}

func parseMessage(msg *nats.Msg) (message, error) {
	sequence, err := number(msg, jetstream.SequenceHeader)
	if err != nil {
		return message{}, err
	}
	return message{
		subject:  msg.Header.Get(jetstream.SubjectHeader),
		sequence: sequence,
		value:    msg.Data,
		id:       msg.Header.Get(jetstream.MsgIDHeader),
		deleted:  msg.Header.Get(headerOperation) != "" || msg.Header.Get(headerReason) != "",
	}, nil
}

func number(msg *nats.Msg, header string) (uint64, error) {
	n, err := strconv.ParseUint(msg.Header.Get(header), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("NATS sent no number as %s: %w", header, err)
	}
	return n, nil
}
