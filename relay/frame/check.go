package frame

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

const (
	// Version is what every frame says.
	Version = 1
	// MaxBytes bounds a frame. Codex drops a connection for a longer message.
	MaxBytes = 262_144
	// MaxStreamIDBytes bounds the stream id, which every stream keeps. Codex takes any;
	// it sends 36 bytes.
	MaxStreamIDBytes = 1024
	// MaxSegments bounds the segments of a message of the reliable profile: 64 MiB in
	// pieces of 61,440 bytes.
	MaxSegments = 1093
)

// Reasons of resets. They are for people: nothing may depend on them.
const (
	// ReasonProtocolError is what codex 0.171.0 says in every case.
	ReasonProtocolError = "noise_relay_protocol_error"
	// ReasonUnknownStream answers a resume of a stream that is not known, or no more.
	ReasonUnknownStream = "unknown_stream"
	// ReasonUnavailable says that the executor lets nobody in that it does not know, for
	// reasons of its own: the harness is not at fault. A relay does not charge it.
	ReasonUnavailable = "executor_unavailable"
)

// ErrInvalid is what every error of this package is.
var ErrInvalid = errors.New("invalid relay frame")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Check says whether f is valid, whatever its profile.
func Check(f *relayv1.RelayMessageFrame) error {
	if f.GetVersion() != Version {
		return invalid("version %d", f.GetVersion())
	}
	if n := len(f.GetStreamId()); n > MaxStreamIDBytes {
		return invalid("stream id of %d bytes", n)
	}
	if strings.TrimSpace(f.GetStreamId()) == "" {
		return invalid("blank stream id")
	}
	empty := false
	switch b := f.GetBody().(type) {
	case *relayv1.RelayMessageFrame_Data:
		empty = len(b.Data.GetPayload()) == 0
	case *relayv1.RelayMessageFrame_Handshake:
		empty = len(b.Handshake.GetPayload()) == 0
	case *relayv1.RelayMessageFrame_Reset_:
		empty = b.Reset_.GetReason() == ""
	case *relayv1.RelayMessageFrame_AckFrame:
		empty = b.AckFrame == nil
	case *relayv1.RelayMessageFrame_Resume:
		empty = b.Resume == nil
	case *relayv1.RelayMessageFrame_Heartbeat:
		empty = b.Heartbeat == nil
	default:
		return invalid("no body that is known")
	}
	if empty {
		return invalid("empty %s", Kind(f))
	}
	return nil
}

// CheckSegment says whether d may be a segment of a stream with profile p: alone in its
// message in the codex profile; in the reliable one, at a place that a message of at most
// MaxSegments has.
func CheckSegment(d *relayv1.RelayData, p Profile) error {
	index, count := d.GetSegmentIndex(), d.GetSegmentCount()
	if p == Codex {
		if index != 0 || count != 1 {
			return invalid("segment %d of %d, want 0 of 1", index, count)
		}
		return nil
	}
	if count < 1 || count > MaxSegments || index >= count {
		return invalid("segment %d of %d", index, count)
	}
	// The message starts at seq-index and ends before seq would wrap.
	if start := int64(d.GetSeq()) - int64(index); start < 0 || start+int64(count)-1 > math.MaxUint32 {
		return invalid("segment %d of %d with seq %d", index, count, d.GetSeq())
	}
	return nil
}

// Kind names the body of f: data, ack, resume, reset, heartbeat, handshake, or none.
func Kind(f *relayv1.RelayMessageFrame) string {
	switch f.GetBody().(type) {
	case *relayv1.RelayMessageFrame_Data:
		return "data"
	case *relayv1.RelayMessageFrame_AckFrame:
		return "ack"
	case *relayv1.RelayMessageFrame_Resume:
		return "resume"
	case *relayv1.RelayMessageFrame_Reset_:
		return "reset"
	case *relayv1.RelayMessageFrame_Heartbeat:
		return "heartbeat"
	case *relayv1.RelayMessageFrame_Handshake:
		return "handshake"
	default:
		return "none"
	}
}
