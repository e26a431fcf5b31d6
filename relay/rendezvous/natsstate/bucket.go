package natsstate

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// prepareBucket finds the stream of the bucket or makes it. Several nodes may do so at
// once. While the servers are not ready for it (they elect a leader, or too few of them
// are there to hold the replicas) it tries again until ctx ends.
func (s *State) prepareBucket(ctx context.Context) error {
	var short error // the last of its kind
	for p := newPause(); ; {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := s.tryBucket(attempt)
		cancel()
		if isShort(err) {
			short = fmt.Errorf("%w (too few servers of the cluster are there for %d replicas; set replicas= if it has fewer)", err, s.replicas())
		} else if err == nil || !passing(err) && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return err
		}
		if waitErr := p.wait(ctx); waitErr != nil {
			return errors.Join(waitErr, cmp.Or(short, err))
		}
	}
}

// isShort says whether a stream could not be placed for want of servers or room.
func isShort(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (e.ErrorCode == codeInsufficientResources || e.ErrorCode == codeNoSuitablePeers)
}

// replicas are those of a new bucket.
func (s *State) replicas() int {
	switch {
	case s.cfg.Replicas != 0:
		return s.cfg.Replicas
	case s.nc.ConnectedClusterName() == "":
		return 1
	default:
		return DefaultReplicas
	}
}

func (s *State) tryBucket(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, "KV_"+s.cfg.Bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = s.js.CreateStream(ctx, s.streamConfig(s.replicas()))
		return err
	}
	if err != nil {
		return err
	}
	has := stream.CachedInfo().Config
	want := s.streamConfig(has.Replicas)
	if has.MaxMsgsPerSubject != 1 || !has.AllowDirect || !has.AllowMsgTTL || !has.AllowRollup || has.MaxAge != 0 ||
		len(has.Subjects) != 1 || has.Subjects[0] != want.Subjects[0] {
		return fmt.Errorf("the bucket %s is there and is not a relay's; choose another with bucket=", s.cfg.Bucket)
	}
	if s.cfg.Replicas == 0 || s.cfg.Replicas == has.Replicas {
		return nil
	}
	has.Replicas = s.cfg.Replicas
	_, err = s.js.UpdateStream(ctx, has)
	return err
}

// streamConfig is that of a KV bucket (NATS ADR-8) with one value a key, which expires
// only where it is the mark of a deletion. Any replica may answer reads; which of them to
// believe is for mark.
func (s *State) streamConfig(replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              "KV_" + s.cfg.Bucket,
		Description:       "state of wsd relays",
		Subjects:          []string{"$KV." + s.cfg.Bucket + ".>"},
		MaxMsgsPerSubject: 1,
		MaxMsgSize:        maxValue + maxHeader,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxConsumers:      -1,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		Duplicates:        dedupe,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true,
		AllowDirect:       true,
		AllowMsgTTL:       true,
		DenyDelete:        true,
	}
}
