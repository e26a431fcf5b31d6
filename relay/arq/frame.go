package arq

// Kind is what a frame has for a body.
type Kind uint8

// The bodies that pass between two streams. A handshake is over before there is a
// stream, and never comes here.
const (
	// KindAck has nothing but the fields of every frame.
	KindAck Kind = iota + 1
	KindData
	// KindResume comes first over a new socket; once more over the same socket it
	// asks for an ack.
	KindResume
	KindReset
	KindHeartbeat
)

func (k Kind) String() string {
	switch k {
	case KindAck:
		return "ack"
	case KindData:
		return "data"
	case KindResume:
		return "resume"
	case KindReset:
		return "reset"
	case KindHeartbeat:
		return "heartbeat"
	default:
		return "unknown"
	}
}

// A Frame is what a stream sends and receives, without version, stream id and profile.
type Frame struct {
	Kind Kind
	// Data is set for KindData.
	Data Data
	// NextSeq is set for KindResume: the number of the sender's next new segment.
	NextSeq uint32
	// Reason is set for KindReset. Whoever is in between may have written it.
	Reason string

	// Ack and Epoch are on every frame of the reliable profile, on none of codex.
	Ack   Ack
	Epoch uint32
}

// Data is one segment: one record, and its place in a message.
type Data struct {
	// Seq counts the segments of a direction from 0 and is the record's nonce.
	Seq uint32
	// Index counts the segments of a message from 0, Count is how many it has.
	Index, Count uint32
	// Payload is the record. Never empty.
	Payload []byte
}

// Ack says what the sender of a frame has received and will take.
type Ack struct {
	// Ack is the highest contiguous segment received, if HasAck; else there is none.
	HasAck bool
	Ack    uint32
	// Bits has bit i set if segment Ack+1+i has come, i without HasAck.
	Bits uint32
	// Window, if HasWindow: segments with numbers below it are welcome.
	HasWindow bool
	Window    uint32
}

// Greeting is the Ack of a stream that has received nothing: what the frames of the
// reliable profile carry before there is a stream.
func Greeting() Ack { return Ack{HasWindow: true, Window: MaxSegments} }

// next is the number of the first segment that is missing.
func (a Ack) next() uint64 {
	if !a.HasAck {
		return 0
	}
	return uint64(a.Ack) + 1
}
