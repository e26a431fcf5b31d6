package frame

import (
	"encoding/binary"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

// A Profile is how the two ends of a stream use its frames. Its text is what frames and
// registries say.
type Profile string

// The profiles there are.
const (
	// Codex is what codex 0.171.0 does: one record a message segment, no acks. Frames
	// of it leave the profile field empty.
	Codex Profile = "codex"
	// Reliable numbers, acknowledges and resends, and outlives sockets.
	Reliable Profile = "reliable-1"
)

// ProfileOf is the profile that f, a resume or a handshake, asks for or grants. One that
// is not known is Codex: whoever asks for it gets an answer that does not grant it.
func ProfileOf(f *relayv1.RelayMessageFrame) Profile {
	if f.GetProfile() == string(Reliable) {
		return Reliable
	}
	return Codex
}

// Field is what the profile field of a frame says for p.
func (p Profile) Field() string {
	if p == Codex {
		return ""
	}
	return string(p)
}

// AdditionalData is what of d, besides its payload, is authenticated with the record in a
// stream with profile p: nothing in the codex profile; in the reliable one the place in
// the message, segment_index and segment_count, each as 4 bytes big-endian. Without it
// somebody in between could cut messages and join them. seq is the nonce already.
func AdditionalData(d *relayv1.RelayData, p Profile) []byte {
	if p == Codex {
		return nil
	}
	b := make([]byte, 0, 8)
	b = binary.BigEndian.AppendUint32(b, d.GetSegmentIndex())
	return binary.BigEndian.AppendUint32(b, d.GetSegmentCount())
}
