// Package frame says which relay frames are valid, and reads and writes them. A frame is
// one binary WebSocket message: the protobuf message RelayMessageFrame of
// proto/wsd/relay/v1/relay.proto.
//
// What can be said of a frame alone is checked here, on reading and on writing. What
// depends on the stream that it belongs to (order, window, turn) is not, save for
// CheckSegment, which wants to know the stream's profile. An invalid frame is dropped by
// an executor and by a relay; a harness gives up its connection for one of its own stream.
//
// Everything is safe for concurrent use. Limits: MaxBytes, MaxStreamIDBytes, MaxSegments.
package frame
