package executor

import (
	"context"
	"sync"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// A slowWriter keeps the write of the first handshake from returning, after the frame
// has left.
type slowWriter struct {
	relay.Carrier
	once             sync.Once
	arrived, proceed chan struct{}
}

func (s *slowWriter) wrap(c relay.Carrier) relay.Carrier {
	s.Carrier = c
	return s
}

func (s *slowWriter) Write(ctx context.Context, msg []byte) error {
	err := s.Carrier.Write(ctx, msg)
	if f, e := frame.Decode(msg); e == nil && frame.Kind(f) == "handshake" {
		s.once.Do(func() {
			close(s.arrived)
			<-s.proceed
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		})
	}
	return err
}

// A probed carrier answers probes as it is told.
type probed struct {
	relay.Carrier
	answer func(context.Context) error
}

func (p probed) Probe(ctx context.Context) error { return p.answer(ctx) }

// A stuck carrier does not write.
type stuck struct{ relay.Carrier }

func (stuck) Write(ctx context.Context, _ []byte) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func heartbeatFrame(id string) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: 1, StreamId: id,
		Body: &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}},
	}
}

func ackFrame(id string) *relayv1.RelayMessageFrame {
	return &relayv1.RelayMessageFrame{
		Version: 1, StreamId: id,
		Body: &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}},
	}
}
