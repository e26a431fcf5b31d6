package protocol

import (
	"bytes"
	"errors"
)

// Bytes is binary data, base64 on the wire, where a pointer or omitempty is
// needed; elsewhere a plain []byte serves.
type Bytes []byte

// Opaque is a JSON object that this server knows the name of and nothing else.
type Opaque struct {
	raw []byte
}

// UnmarshalWire keeps raw as it is.
func (o *Opaque) UnmarshalWire(raw []byte) error {
	if raw[0] != '{' {
		return errors.New("invalid type: expected a map")
	}
	o.raw = bytes.Clone(raw)
	return nil
}

// AppendWire writes what was read.
func (o *Opaque) AppendWire(dst []byte) ([]byte, error) { return append(dst, o.raw...), nil }
