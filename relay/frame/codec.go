package frame

import (
	"google.golang.org/protobuf/proto"

	"github.com/wsd-dev/wsd/proto/relayv1"
)

// Append appends f to dst as it goes over the wire, and returns the longer slice. What
// Check refuses, or is longer than MaxBytes, is not written.
func Append(dst []byte, f *relayv1.RelayMessageFrame) ([]byte, error) {
	if err := Check(f); err != nil {
		return dst, err
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(dst, f)
	if err != nil { // a string that is not UTF-8
		return dst, invalid("encode: %w", err)
	}
	if n := len(out) - len(dst); n > MaxBytes {
		return dst, invalid("%d bytes", n)
	}
	return out, nil
}

// Decode reads the frame that a binary WebSocket message is, and checks it. Unknown fields
// are ignored, and not kept. The payload of a data frame may lie in message: who decodes
// must not change message while the frame is used.
func Decode(message []byte) (*relayv1.RelayMessageFrame, error) {
	if len(message) > MaxBytes {
		return nil, invalid("%d bytes", len(message))
	}
	f := decodeData(message)
	if f == nil {
		f = new(relayv1.RelayMessageFrame)
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, f); err != nil {
			return nil, invalid("decode: %w", err)
		}
	}
	if err := Check(f); err != nil {
		return nil, err
	}
	return f, nil
}
