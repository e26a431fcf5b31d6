package seal

import "encoding/binary"

// A Label begins a Prologue and says which profile the stream has.
type Label string

// The labels there are.
const (
	// LabelCodex is for the codex profile.
	LabelCodex Label = "codex-exec-server-relay-noise/v1"
	// LabelReliable is for the reliable profile. With a label of its own neither end can
	// be brought to talk the other profile than the one it was asked for.
	LabelReliable Label = "wsd-relay-noise/reliable-1"
	// LabelProof is for message 1 alone, by which a registry finds out whether an executor
	// holds the keys that it registers. No stream has it.
	LabelProof Label = "wsd-relay-noise/proof-1"
)

// A Prologue is what both ends must agree on before the handshake. Where they differ in
// anything, message 1 does not authenticate.
type Prologue struct {
	Label Label
	// EnvironmentID and RegistrationID are those of the registry's answers.
	EnvironmentID  string
	RegistrationID string
	// StreamID is that of the frames.
	StreamID string
}

// Bytes returns each part in order, with its length before it as 8 bytes big-endian.
func (p Prologue) Bytes() []byte {
	parts := [...]string{string(p.Label), p.EnvironmentID, p.RegistrationID, p.StreamID}
	var b []byte
	for _, part := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// check returns what is wrong with p, or "".
func (p Prologue) check() string {
	switch p.Label {
	case LabelCodex, LabelReliable, LabelProof:
		return ""
	}
	return "prologue without a known label"
}
