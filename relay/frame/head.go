package frame

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

// HeadBytes is how long the head of a data frame is at most, without its stream id.
const HeadBytes = 64

// AppendHead appends to dst all of the data frame f that goes before its payload, and
// returns the longer slice: followed by payload bytes of payload, it is a frame. Who has
// room before a record can so send it without copying it. f's own payload is not looked
// at, nor is there a traceparent. Fields go in the order of their numbers, but for those
// that would come after the payload.
func AppendHead(dst []byte, f *relayv1.RelayMessageFrame, payload int) ([]byte, error) {
	d := f.GetData()
	switch id := f.GetStreamId(); {
	case d == nil:
		return dst, invalid("head of a frame without data")
	case payload <= 0:
		return dst, invalid("empty data")
	case len(id) > MaxStreamIDBytes:
		return dst, invalid("stream id of %d bytes", len(id))
	case payload+len(id)+HeadBytes > MaxBytes:
		return dst, invalid("%d bytes of payload", payload)
	}
	dst = appendNumber(dst, tagVersion, f.GetVersion())
	dst = protowire.AppendVarint(dst, tagStreamID)
	dst = protowire.AppendString(dst, f.GetStreamId())
	if f.Ack != nil { // 0 is not absent
		dst = protowire.AppendVarint(dst, tagAck)
		dst = protowire.AppendVarint(dst, uint64(f.GetAck()))
	}
	dst = appendNumber(dst, tagAckBits, f.GetAckBits())
	if f.Window != nil {
		dst = protowire.AppendVarint(dst, tagWindow)
		dst = protowire.AppendVarint(dst, uint64(f.GetWindow()))
	}
	dst = appendNumber(dst, tagEpoch, f.GetEpoch())
	size := sizeNumber(tagSeq, d.GetSeq()) + sizeNumber(tagSegmentIndex, d.GetSegmentIndex()) +
		sizeNumber(tagSegmentCount, d.GetSegmentCount()) + protowire.SizeVarint(tagPayload) + protowire.SizeBytes(payload)
	dst = protowire.AppendVarint(dst, tagData)
	dst = protowire.AppendVarint(dst, uint64(size))
	dst = appendNumber(dst, tagSeq, d.GetSeq())
	dst = appendNumber(dst, tagSegmentIndex, d.GetSegmentIndex())
	dst = appendNumber(dst, tagSegmentCount, d.GetSegmentCount())
	dst = protowire.AppendVarint(dst, tagPayload)
	return protowire.AppendVarint(dst, uint64(payload)), nil
}

// appendNumber appends a field, unless it is absent, which 0 is.
func appendNumber(dst []byte, tag uint64, n uint32) []byte {
	if n == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendVarint(dst, tag), uint64(n))
}

func sizeNumber(tag uint64, n uint32) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeVarint(tag) + protowire.SizeVarint(uint64(n))
}
