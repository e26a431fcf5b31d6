package frame

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

// Tags, field number and wire type, of what a data frame has.
const (
	tagVersion  = 1<<3 | uint64(protowire.VarintType)
	tagStreamID = 2<<3 | uint64(protowire.BytesType)
	tagAck      = 3<<3 | uint64(protowire.VarintType)
	tagAckBits  = 4<<3 | uint64(protowire.VarintType)
	tagData     = 5<<3 | uint64(protowire.BytesType)
	tagWindow   = 20<<3 | uint64(protowire.VarintType)
	tagEpoch    = 22<<3 | uint64(protowire.VarintType)
	// Those of the RelayData in it.
	tagSeq          = 1<<3 | uint64(protowire.VarintType)
	tagSegmentIndex = 2<<3 | uint64(protowire.VarintType)
	tagSegmentCount = 3<<3 | uint64(protowire.VarintType)
	tagPayload      = 4<<3 | uint64(protowire.BytesType)
)

// decodeData decodes a plain data frame, of which every bulk transfer consists, without
// copying its payload: the generated decoder copies, which costs more than all else that
// is done to a record. For anything out of the ordinary it returns nil, and says nothing
// of whether that is valid. What it returns is what the generated decoder would.
func decodeData(message []byte) *relayv1.RelayMessageFrame {
	f := new(relayv1.RelayMessageFrame)
	for len(message) > 0 {
		tag, number, bytes := next(&message)
		switch tag {
		case tagVersion:
			f.Version = number
		case tagStreamID:
			if !utf8.Valid(bytes) {
				return nil
			}
			f.StreamId = string(bytes)
		case tagAck:
			ack := number // number itself shall not escape
			f.Ack = &ack
		case tagAckBits:
			f.AckBits = number
		case tagWindow:
			window := number
			f.Window = &window
		case tagEpoch:
			f.Epoch = number
		case tagData:
			data := decodeSegment(bytes)
			if data == nil || f.Body != nil { // two would have to be merged
				return nil
			}
			f.Body = &relayv1.RelayMessageFrame_Data{Data: data}
		default:
			return nil
		}
	}
	if f.Body == nil {
		return nil
	}
	return f
}

// decodeSegment is decodeData's part for the RelayData.
func decodeSegment(message []byte) *relayv1.RelayData {
	d := new(relayv1.RelayData)
	for len(message) > 0 {
		tag, number, bytes := next(&message)
		switch tag {
		case tagSeq:
			d.Seq = number
		case tagSegmentIndex:
			d.SegmentIndex = number
		case tagSegmentCount:
			d.SegmentCount = number
		case tagPayload:
			d.Payload = bytes
		default:
			return nil
		}
	}
	return d
}

// next takes a field off message and returns its tag and its value, by wire type a number
// or bytes that lie in message. The tag is 0 if there is no such field.
func next(message *[]byte) (tag uint64, number uint32, bytes []byte) {
	tag, n := protowire.ConsumeVarint(*message)
	if n < 0 {
		return 0, 0, nil
	}
	rest := (*message)[n:]
	switch protowire.Type(tag & 7) {
	case protowire.VarintType:
		var v uint64
		v, n = protowire.ConsumeVarint(rest)
		number = uint32(v) // as protobuf does with what is too large
	case protowire.BytesType:
		bytes, n = protowire.ConsumeBytes(rest)
		bytes = bytes[:len(bytes):len(bytes)] // whoever appends shall not write on
	default:
		return 0, 0, nil
	}
	if n < 0 {
		return 0, 0, nil
	}
	*message = rest[n:]
	return tag, number, bytes
}
