package relay

import (
	"sync"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// A sealing makes records of segments and segments of records. On the way out a record
// is written where the frame that carries it is sent from: before each is room for the
// frame's head, which is part of what the state machine keeps. On the way in it is
// opened where it lies.
type sealing struct {
	transport *seal.Transport
	profile   frame.Profile
	room      int // before each record
}

func newSealing(t *seal.Transport, p frame.Profile, id string) sealing {
	return sealing{transport: t, profile: p, room: frame.HeadBytes + len(id)}
}

func (s *sealing) seal(d arq.Data, prefix, piece []byte) ([]byte, error) {
	n := len(prefix) + len(piece)
	buf := s.buffer(s.room + n + seal.Overhead)[:s.room]
	if len(prefix) > 0 {
		piece = append(append(buf, prefix...), piece...)[s.room:]
	}
	return s.transport.Sealer.Seal(buf, uint64(d.Seq), piece, s.additional(d))
}

func (s *sealing) open(d arq.Data) ([]byte, error) {
	return s.transport.Opener.Open(d.Payload[:0], uint64(d.Seq), d.Payload, s.additional(d))
}

func (s *sealing) additional(d arq.Data) []byte {
	return frame.AdditionalData(&relayv1.RelayData{SegmentIndex: d.Index, SegmentCount: d.Count}, s.profile)
}

// Records of the codex profile are sent once, so their buffers can be used again. Those
// of the reliable profile are kept until they are acknowledged, perhaps while one is
// being sent once more.
const pooledRecord = 64 << 10

var records = sync.Pool{New: func() any { return new([pooledRecord]byte) }}

func (s *sealing) buffer(n int) []byte {
	if s.profile == frame.Codex && n > pooledRecord/4 && n <= pooledRecord {
		return records.Get().(*[pooledRecord]byte)[:]
	}
	return make([]byte, n)
}

// sent takes back the buffer of a record that has been sent.
func (s *sealing) sent(buf []byte) {
	if s.profile == frame.Codex && cap(buf) == pooledRecord {
		records.Put((*[pooledRecord]byte)(buf[:pooledRecord]))
	}
}

// framed returns the frame that head and the record in buf make, which share its memory.
func (s *sealing) framed(buf, head []byte) []byte {
	start := s.room - len(head)
	copy(buf[start:], head)
	return buf[start:]
}
