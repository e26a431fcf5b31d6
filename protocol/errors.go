package protocol

import (
	"bytes"
	"fmt"

	"github.com/wsd-dev/wsd/protocol/wire"
)

// Code is the code of a JSON-RPC error on the exec-server wire.
type Code int64

const (
	// CodeInvalidRequest: unparsable messages, handshake order, unknown or duplicate
	// ids, file permissions, refused options, exceeded limits.
	CodeInvalidRequest Code = -32600
	// CodeMethodNotFound: the method is not served.
	CodeMethodNotFound Code = -32601
	// CodeInvalidParams: the parameters do not decode or contradict each other.
	CodeInvalidParams Code = -32602
	// CodeInternal: spawn failures and every other failure of the system.
	CodeInternal Code = -32603
	// CodeNotFound: no such file, or an unknown file handle.
	CodeNotFound Code = -32004
	// CodeSessionAttached: the session to resume has a live connection.
	CodeSessionAttached Code = -32010
	// CodePreconditionFailed: the file is not what ifMatch or ifNoneMatch asked for
	// (additive). The data is a PreconditionData.
	CodePreconditionFailed Code = -32011
	// CodeBusy: the server's memory budget has nothing left for a request as large as
	// this one. It may be sent again later (additive).
	CodeBusy Code = -32013
	// CodeNamed: sync/* and shell/* failed in a way that has a name (additive). The data
	// is a NamedData.
	CodeNamed Code = -32012
)

// Error is a JSON-RPC error as it stands on the wire. Services return one where
// the code or the data matters to the client; any other error becomes
// CodeInternal.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Data is nil when the error carries none; the member is then absent.
	Data any `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// InvalidParams makes an Error with CodeInvalidParams and a formatted message.
func InvalidParams(format string, args ...any) *Error {
	return Errorf(CodeInvalidParams, format, args...)
}

// Errorf makes an Error with code and a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Kinds of process/start failures, as found in SpawnErrorData.
const (
	KindSpawnNotFound         = "spawnNotFound"
	KindSpawnPermissionDenied = "spawnPermissionDenied"
	KindSpawnFailed           = "spawnFailed"
	KindSandboxUnavailable    = "sandboxUnavailable"
)

// SpawnErrorData is the data of a process/start error.
type SpawnErrorData struct {
	Kind string `json:"kind"`
}

// InvalidStart is InvalidParams with the kind of a failed process/start, for what is refused before
// anything is tried.
func InvalidStart(kind, format string, args ...any) *Error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf(format, args...), Data: SpawnErrorData{Kind: kind}}
}

// PreconditionData is the data of a CodePreconditionFailed error.
type PreconditionData struct {
	Kind string `json:"kind"` // always "preconditionFailed"
	// CurrentHash is the hash of the file as it is now, nil when there is none.
	CurrentHash *string `json:"currentHash" wire:"nullable"`
}

// NamedData is the data of a CodeNamed error.
type NamedData struct {
	Code string `json:"code"` // ENOENT, EUNKNOWN_HASH, EEXEC_BUSY and so on
	Path string `json:"path,omitempty" wire:"optional"`
}

// NamedError is a failure of sync/* or shell/*, and why a stream ended early or is given up. Both
// wires tell it.
type NamedError struct {
	Code    string `json:"code,omitempty" wire:"optional"` // as in NamedData, "" for none
	Message string `json:"message"`
	Path    string `json:"path,omitempty" wire:"optional"`
}

// NamedErrorf makes a NamedError with a code and a formatted message.
func NamedErrorf(code, format string, args ...any) *NamedError {
	return &NamedError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error is the message.
func (e *NamedError) Error() string { return e.Message }

// Is reports whether target is a NamedError with the same code.
func (e *NamedError) Is(target error) bool {
	t, ok := target.(*NamedError) //nolint:errorlint // a target is not unwrapped
	return ok && t.Code == e.Code
}

// Answer is the error with which a request is answered.
func (e *NamedError) Answer() *Error {
	return &Error{Code: CodeNamed, Message: e.Message, Data: NamedData{Code: e.Code, Path: e.Path}}
}

// RawData is the data of an error that arrived, still JSON.
type RawData []byte

// WireSize is the length of the data.
func (d RawData) WireSize() int { return len(d) }

// AppendWire writes the data as it came.
func (d RawData) AppendWire(dst []byte) ([]byte, error) { return append(dst, d...), nil }

// UnmarshalWire decodes an error that arrived; its Data, if any, is a RawData.
func (e *Error) UnmarshalWire(raw []byte) error {
	var members struct {
		Code    int64   `json:"code"`
		Message string  `json:"message"`
		Data    RawData `json:"data" wire:"nullable"`
	}
	if err := wire.Unmarshal(raw, &members); err != nil {
		return err
	}
	*e = Error{Code: Code(members.Code), Message: members.Message}
	if members.Data != nil {
		e.Data = members.Data
	}
	return nil
}

// UnmarshalWire keeps raw as it is.
func (d *RawData) UnmarshalWire(raw []byte) error {
	*d = bytes.Clone(raw)
	return nil
}
