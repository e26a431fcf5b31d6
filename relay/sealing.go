package relay

import (
	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/arq"
	"github.com/wsd-dev/wsd/relay/frame"
	"github.com/wsd-dev/wsd/relay/seal"
)

// sealing makes records of segments and back, with one copy on the way out and none on
// the way in.
type sealing struct {
	transport *seal.Transport
	profile   frame.Profile
}

func (s sealing) seal(d arq.Data, prefix, piece []byte) ([]byte, error) {
	n := len(prefix) + len(piece)
	buf := make([]byte, 0, n+seal.Overhead)
	buf = append(append(buf, prefix...), piece...)
	return s.transport.Sealer.Seal(buf[:0], uint64(d.Seq), buf[:n], s.additional(d))
}

func (s sealing) open(d arq.Data) ([]byte, error) {
	return s.transport.Opener.Open(d.Payload[:0], uint64(d.Seq), d.Payload, s.additional(d))
}

func (s sealing) additional(d arq.Data) []byte {
	return frame.AdditionalData(&relayv1.RelayData{SegmentIndex: d.Index, SegmentCount: d.Count}, s.profile)
}
