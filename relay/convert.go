package relay

import (
	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
)

// outgoing makes what goes over the wire of what the state machine wants sent.
func (s *Stream) outgoing(f arq.Frame) *relayv1.RelayMessageFrame {
	out := &relayv1.RelayMessageFrame{Version: frame.Version, StreamId: s.cfg.ID}
	switch f.Kind {
	case arq.KindData:
		out.Body = &relayv1.RelayMessageFrame_Data{Data: &relayv1.RelayData{
			Seq: f.Data.Seq, SegmentIndex: f.Data.Index, SegmentCount: f.Data.Count, Payload: f.Data.Payload,
		}}
	case arq.KindAck:
		out.Body = &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}}
	case arq.KindResume:
		out.Body = &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{NextSeq: f.NextSeq}}
	case arq.KindReset:
		out.Body = &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: f.Reason}}
	case arq.KindHeartbeat:
		out.Body = &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}
	}
	if s.cfg.Profile != frame.Reliable {
		return out
	}
	if f.Kind == arq.KindResume {
		out.Profile = s.cfg.Profile.Field()
	}
	out.Epoch = f.Epoch
	if a := f.Ack; a.HasAck {
		out.Ack = &a.Ack
	}
	out.AckBits = f.Ack.Bits
	if a := f.Ack; a.HasWindow {
		out.Window = &a.Window
	}
	return out
}

// incoming makes of a frame what the state machine takes; false for one that says
// nothing to a stream that is past its handshake.
func (s *Stream) incoming(in *relayv1.RelayMessageFrame) (arq.Frame, bool) {
	var f arq.Frame
	switch body := in.GetBody().(type) {
	case *relayv1.RelayMessageFrame_Data:
		d := body.Data
		f.Kind = arq.KindData
		f.Data = arq.Data{Seq: d.GetSeq(), Index: d.GetSegmentIndex(), Count: d.GetSegmentCount(), Payload: d.GetPayload()}
	case *relayv1.RelayMessageFrame_AckFrame:
		f.Kind = arq.KindAck
	case *relayv1.RelayMessageFrame_Resume:
		f.Kind, f.NextSeq = arq.KindResume, body.Resume.GetNextSeq()
	case *relayv1.RelayMessageFrame_Reset_:
		f.Kind, f.Reason = arq.KindReset, clip(body.Reset_.GetReason())
	case *relayv1.RelayMessageFrame_Heartbeat:
		f.Kind = arq.KindHeartbeat
	default:
		return f, false
	}
	if s.cfg.Profile != frame.Reliable {
		return f, true
	}
	f.Epoch = in.GetEpoch()
	f.Ack = arq.Ack{
		HasAck: in.Ack != nil, Ack: in.GetAck(), Bits: in.GetAckBits(),
		HasWindow: in.Window != nil, Window: in.GetWindow(),
	}
	return f, true
}
