package relay

import (
	"time"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
)

// Direction is which way a frame goes.
type Direction string

// As seen from the end that traces.
const (
	In  Direction = "in"
	Out Direction = "out"
)

// A TraceEvent is a frame that passed, without what it carries.
type TraceEvent struct {
	Time      time.Time `json:"time"`
	Direction Direction `json:"direction"`
	Stream    string    `json:"stream"`
	Kind      string    `json:"kind"`
	// Bytes is the length of the record or handshake message, 0 for other kinds.
	Bytes int `json:"bytes"`
	// Seq is the record's number, or of a resume the next one; Index and Count its place
	// in a message.
	Seq   uint32 `json:"seq"`
	Index uint32 `json:"index"`
	Count uint32 `json:"count"`
	// Ack, Window and Epoch are those of the reliable profile.
	Ack     *uint32 `json:"ack,omitempty"`
	AckBits uint32  `json:"ackBits,omitempty"`
	Window  *uint32 `json:"window,omitempty"`
	Epoch   uint32  `json:"epoch,omitempty"`
	Profile string  `json:"profile,omitempty"`
	// Reason is that of a reset, cut short.
	Reason string `json:"reason,omitempty"`
}

// A Trace is told of each frame that an end sends or receives. It must not wait, and may
// be called by several goroutines.
type Trace func(TraceEvent)

// FrameEvent describes f.
func FrameEvent(dir Direction, f *relayv1.RelayMessageFrame) TraceEvent {
	e := TraceEvent{
		Time: time.Now(), Direction: dir, Stream: f.GetStreamId(), Kind: frame.Kind(f),
		AckBits: f.GetAckBits(), Epoch: f.GetEpoch(), Profile: f.GetProfile(),
	}
	if f.Ack != nil { // f may be used again
		e.Ack = new(f.GetAck())
	}
	if f.Window != nil {
		e.Window = new(f.GetWindow())
	}
	switch body := f.GetBody().(type) {
	case *relayv1.RelayMessageFrame_Data:
		d := body.Data
		e.Bytes, e.Seq, e.Index, e.Count = len(d.GetPayload()), d.GetSeq(), d.GetSegmentIndex(), d.GetSegmentCount()
	case *relayv1.RelayMessageFrame_Handshake:
		e.Bytes = len(body.Handshake.GetPayload())
	case *relayv1.RelayMessageFrame_Resume:
		e.Seq = body.Resume.GetNextSeq()
	case *relayv1.RelayMessageFrame_Reset_:
		e.Reason = Clip(body.Reset_.GetReason())
	}
	return e
}

// trace tells of a frame of the stream; only some frames name their profile. record is
// a data frame's, of which only the length is told.
func (s *Stream) trace(dir Direction, f *relayv1.RelayMessageFrame, record int) {
	if s.cfg.Trace == nil {
		return
	}
	e := FrameEvent(dir, f)
	e.Bytes, e.Profile = record, string(s.cfg.Profile)
	s.cfg.Trace(e)
}
