package rendezvous

import (
	"bytes"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wsd-dev/wsd/relay/frame"
)

// A kind is the body of a frame, as its field number in RelayMessageFrame.
type kind protowire.Number

const (
	kindResume    kind = 7
	kindReset     kind = 8
	kindHandshake kind = 10
)

// A glance is all that a relay looks at.
type glance struct {
	stream  []byte // lies in the message
	kind    kind
	profile frame.Profile
	// blameless is a reset that says that the harness is not at fault.
	blameless bool
}

// Field numbers of RelayMessageFrame.
const (
	fieldStreamID = 2
	fieldBodies   = 5 // to 10
	fieldProfile  = 20 + 1
	fieldReason   = 1 // of RelayReset
)

// blameless is the body of a reset whose reason is frame.ReasonUnavailable.
var blameless = protowire.AppendString(protowire.AppendTag(nil, fieldReason, protowire.BytesType), frame.ReasonUnavailable)

// peek looks at a frame. It goes over the fields and copies nothing; whether the rest is
// valid is for the ends to say. false: no frame, or of no stream that there can be.
func peek(message []byte) (glance, bool) {
	g := glance{profile: frame.Codex}
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return g, false
		}
		message = message[n:]
		if wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, message); n < 0 {
				return g, false
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return g, false
		}
		message = message[n:]
		switch {
		case number == fieldStreamID:
			g.stream = value
		case number >= fieldBodies && number <= protowire.Number(kindHandshake):
			g.kind = kind(number) // of several the last counts, as everywhere
			g.blameless = g.kind == kindReset && bytes.Equal(value, blameless)
		case number == fieldProfile:
			g.profile = frame.Codex
			if string(value) == string(frame.Reliable) {
				g.profile = frame.Reliable
			}
		}
	}
	ok := g.kind != 0 && len(g.stream) <= MaxStreamID && utf8.Valid(g.stream) && len(bytes.TrimSpace(g.stream)) > 0
	return g, ok
}
