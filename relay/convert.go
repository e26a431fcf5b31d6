package relay

import (
	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
)

// An outgoing frame is used again for the next one: it belongs to who sends.
type outgoing struct {
	frame       relayv1.RelayMessageFrame
	data        relayv1.RelayMessageFrame_Data
	ack, window uint32
}

// fill makes what goes over the wire of what the state machine wants sent. A record is
// not part of it.
func (o *outgoing) fill(f arq.Frame, cfg *StreamConfig) *relayv1.RelayMessageFrame {
	m := &o.frame
	m.Version, m.StreamId, m.Profile = frame.Version, cfg.ID, ""
	m.Ack, m.AckBits, m.Window, m.Epoch = nil, 0, nil, 0
	switch f.Kind {
	case arq.KindData:
		if o.data.Data == nil {
			o.data.Data = new(relayv1.RelayData)
		}
		d := o.data.Data
		d.Seq, d.SegmentIndex, d.SegmentCount = f.Data.Seq, f.Data.Index, f.Data.Count
		m.Body = &o.data
	case arq.KindAck:
		m.Body = &relayv1.RelayMessageFrame_AckFrame{AckFrame: &relayv1.RelayAck{}}
	case arq.KindResume:
		m.Body = &relayv1.RelayMessageFrame_Resume{Resume: &relayv1.RelayResume{NextSeq: f.NextSeq}}
	case arq.KindReset:
		m.Body = &relayv1.RelayMessageFrame_Reset_{Reset_: &relayv1.RelayReset{Reason: f.Reason}}
	case arq.KindHeartbeat:
		m.Body = &relayv1.RelayMessageFrame_Heartbeat{Heartbeat: &relayv1.RelayHeartbeat{}}
	}
	if cfg.Profile != frame.Reliable {
		return m
	}
	if f.Kind == arq.KindResume {
		m.Profile = cfg.Profile.Field()
	}
	m.AckBits, m.Epoch = f.Ack.Bits, f.Epoch
	if o.ack = f.Ack.Ack; f.Ack.HasAck {
		m.Ack = &o.ack
	}
	if o.window = f.Ack.Window; f.Ack.HasWindow {
		m.Window = &o.window
	}
	return m
}

// incoming makes of a frame what the state machine takes; false for one that says
// nothing to a stream that is past its handshake.
func incoming(in *relayv1.RelayMessageFrame, profile frame.Profile) (arq.Frame, bool) {
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
		f.Kind, f.Reason = arq.KindReset, Clip(body.Reset_.GetReason())
	case *relayv1.RelayMessageFrame_Heartbeat:
		f.Kind = arq.KindHeartbeat
	default:
		return f, false
	}
	if profile != frame.Reliable {
		return f, true
	}
	f.Epoch = in.GetEpoch()
	f.Ack = arq.Ack{
		HasAck: in.Ack != nil, Ack: in.GetAck(), Bits: in.GetAckBits(),
		HasWindow: in.Window != nil, Window: in.GetWindow(),
	}
	return f, true
}
