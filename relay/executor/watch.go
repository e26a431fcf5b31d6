package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wsd-dev/wsd/relay"
)

// A prober is a Carrier that can ask the other end for a sign of life.
type prober interface {
	Probe(ctx context.Context) error
}

var errSlept = errors.New("this process or machine slept")

// watch probes carrier whenever the process was stopped or the machine slept, which
// shows in a timer that is late. It returns an error when the connection is of no use
// any more, and nil when ctx has ended.
func watch(ctx context.Context, every, gap time.Duration, carrier relay.Carrier) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := time.Now() // a tick says when it was due
		if slept(last, now, every+gap) {
			if err := probe(ctx, carrier); err != nil {
				return err
			}
			now = time.Now()
		}
		last = now
	}
}

// slept reports whether more than limit has passed. A machine that sleeps stops the
// monotonic clock, so the wall clock is asked too; that it was set costs one probe, and
// nothing else depends on it.
func slept(last, now time.Time, limit time.Duration) bool {
	return now.Sub(last) > limit || now.Round(0).Sub(last.Round(0)).Abs() > limit
}

// probe asks whether somebody is there. What cannot be asked is replaced.
func probe(ctx context.Context, carrier relay.Carrier) error {
	p, ok := carrier.(prober)
	if !ok {
		return errSlept
	}
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	if err := p.Probe(ctx); err != nil {
		return fmt.Errorf("%w, and the relay does not answer: %w", errSlept, err)
	}
	return nil
}
