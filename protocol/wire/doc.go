// Package wire turns JSON into the structs of package protocol and back, as
// strictly as the peers of the exec-server wire do.
//
// A message is looked at once by ParseEnvelope, which checks all of it: syntax,
// UTF-8, no key twice in an object, nesting and number of values within limits.
// What it returns points into the message. Unmarshal then decodes a part of a
// checked message without checking it again, and tells absent, null and present
// apart, which encoding/json does not; Append encodes. Binary data is base64 both
// ways, at the speed of github.com/segmentio/asm where the processor allows.
//
// All functions are safe for concurrent use.
package wire
