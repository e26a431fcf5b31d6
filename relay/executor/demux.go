package executor

import (
	"context"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/protocol/handoff"
	"github.com/wsd-dev/wsd/relay"
	"github.com/wsd-dev/wsd/relay/frame"
)

// take gives a valid frame to its stream, or reacts as noise-relay.md, section 6, says.
// It never waits: one stream must not hold up the others.
func (s *socket) take(ctx context.Context, f *relayv1.RelayMessageFrame, turn *handoff.Turn) {
	e, stream := s.x.table.get(f.GetStreamId())
	if stream == nil {
		s.x.traceFrame(relay.In, f)
	}
	switch body := f.GetBody().(type) {
	case *relayv1.RelayMessageFrame_Handshake:
		switch {
		case stream != nil:
			// The stream stays as it is.
			s.reset(e.id, frame.ReasonProtocolError)
		case e != nil:
			s.outOfTurn(e)
		default:
			s.handshake(ctx, f, body.Handshake.GetPayload())
		}
	case *relayv1.RelayMessageFrame_Data:
		s.data(e, stream, f, body.Data, turn)
	case *relayv1.RelayMessageFrame_Reset_:
		switch {
		case stream != nil:
			stream.Handle(f, turn)
		case e != nil:
			s.x.table.drop(s, e, errReset, false)
		}
	case *relayv1.RelayMessageFrame_Resume:
		s.resume(e, stream, f, turn)
	default: // ack, heartbeat
		if stream != nil && e.profile == frame.Reliable {
			stream.Handle(f, turn)
		}
	}
}

// data takes a segment. One that no message of the stream's profile has is dropped.
func (s *socket) data(e *entry, stream *relay.Stream, f *relayv1.RelayMessageFrame, d *relayv1.RelayData, turn *handoff.Turn) {
	profile := frame.Reliable // of which every segment of the other one is, too
	if e != nil {
		profile = e.profile
	}
	if err := frame.CheckSegment(d, profile); err != nil {
		s.invalid.Add(1)
		s.log.Debug("invalid segment dropped", "stream", f.GetStreamId(), "err", err)
		return
	}
	switch {
	case stream != nil:
		stream.Handle(f, turn)
	case e != nil:
		s.outOfTurn(e)
	default:
		s.reset(f.GetStreamId(), frame.ReasonProtocolError)
	}
}

// resume goes to the reliable stream that it is for. The first resume of a stream comes
// before its handshake and says nothing to us; a later one for a stream that is not
// there is answered, so that the harness begins anew (relay-reliable.md, section 8).
func (s *socket) resume(e *entry, stream *relay.Stream, f *relayv1.RelayMessageFrame, turn *handoff.Turn) {
	switch {
	case stream != nil && e.profile == frame.Reliable:
		stream.Handle(f, turn)
	case e == nil && frame.ProfileOf(f) == frame.Reliable && f.GetEpoch() > 0:
		s.reset(f.GetStreamId(), frame.ReasonUnknownStream)
	}
}

// outOfTurn ends a handshake whose harness did not wait for the answer. What the
// registry says of it later is ignored.
func (s *socket) outOfTurn(e *entry) {
	if s.x.table.drop(s, e, errTurn, true) {
		s.log.Info("handshake failed", "stream", e.id, "err", errTurn)
		s.reset(e.id, frame.ReasonProtocolError)
	}
}
