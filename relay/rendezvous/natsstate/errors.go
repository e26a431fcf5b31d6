package natsstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wsd-dev/wsd/relay/rendezvous"
)

// ErrUnavailable says that no server answered in time, or that those that did have no
// majority of the cluster. Whether a write was done is not known.
var ErrUnavailable = errors.New("NATS is not available")

var (
	// errNoAnswer is why a call's context ends.
	errNoAnswer = fmt.Errorf("%w: no answer in time", ErrUnavailable)
	// errOutrun: another write of the same key was there first, or is about to be.
	errOutrun = errors.New("another write came first")
	// errBehind: a server that has not yet seen what a majority has.
	errBehind = errors.New("the server is behind its cluster")
	// errNoLeader: nobody is there to answer a read.
	errNoLeader = errors.New("no server has the bucket at the moment")
)

// Codes of JetStream's API that have no name in its client.
const (
	codeInsufficientResources = 10023 // no server has room
	codeNoSuitablePeers       = 10005 // too few servers
	codeDuplicateInProcess    = 10158 // the first of two equal writes is not done yet
)

func isOutrun(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// passing says whether an error may be gone at the next attempt.
func passing(err error) bool {
	for _, is := range []error{
		context.DeadlineExceeded, errBehind, errNoLeader,
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
		nats.ErrConnectionReconnecting, nats.ErrStaleConnection, jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	// 503: an election is going on, or the servers are starting.
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.Code == 503 || e.ErrorCode == codeDuplicateInProcess)
}

// explain says what was being done. Nil stays nil; the end of the caller's own context
// shows as that.
func (s *State) explain(doing string, bucket rendezvous.Bucket, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case s.life.Err() != nil:
		err = fmt.Errorf("%w: it is closed", ErrUnavailable)
	case passing(err) && !errors.Is(err, ErrUnavailable):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%s %s/%s: %w", doing, bucket, key, err)
}

// A pause waits between attempts, each time longer.
type pause struct{ next time.Duration }

func newPause() *pause { return &pause{retryWait} }

// wait returns why ctx has ended when it ends first.
func (p *pause) wait(ctx context.Context) error {
	t := time.NewTimer(p.next)
	defer t.Stop()
	p.next = min(2*p.next, retryWaitMax)
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// move leaves a server that does not get anything done for another one of its cluster,
// now and then: it may be cut off from the others while we can reach them.
func (s *State) move() {
	s.mu.Lock()
	late := time.Since(s.moved) >= moveInterval
	if late {
		s.moved = time.Now()
	}
	s.mu.Unlock()
	if !late || s.life.Err() != nil || len(s.nc.Servers()) < 2 {
		return
	}
	s.cfg.Logger.Warn("NATS gets nothing done; another server is tried", "server", s.nc.ConnectedUrlRedacted())
	if err := s.nc.ForceReconnect(); err != nil {
		s.cfg.Logger.Debug("move to another NATS server", "err", err)
	}
}
