package harness

import (
	"crypto/rand"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wsd-dev/wsd/proto/relayv1"
	"github.com/wsd-dev/wsd/relay/frame"
)

// newStreamID returns a UUID of version 4.
func newStreamID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// decode returns the frame of the stream called id that message is, nil if it is one
// of another stream, valid or not. What is not valid and does not say whose it is counts
// as the stream's own.
func decode(message []byte, id string) (*relayv1.RelayMessageFrame, error) {
	f, err := frame.Decode(message)
	if err != nil {
		if of, said := streamID(message); said && of != id {
			return nil, nil
		}
		return nil, err
	}
	if f.GetStreamId() != id {
		return nil, nil
	}
	return f, nil
}

// streamID finds the stream id of a frame that is not valid, if it says one.
func streamID(message []byte) (id string, said bool) {
	const streamIDField = 2
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return id, said
		}
		message = message[n:]
		if number == streamIDField && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return id, said
			}
			id, said, message = string(value), true, message[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return id, said
		}
		message = message[n:]
	}
	return id, said
}
