package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// ID is the id of a request: a string or a signed 64-bit integer. The zero ID is
// that of a notification. IDs compare with ==; 1 and "1" differ.
type ID struct {
	text     string
	num      int64
	isString bool
	isSet    bool
}

// IntID makes an integer id.
func IntID(n int64) ID { return ID{num: n, isSet: true} }

// StringID makes a string id.
func StringID(s string) ID { return ID{text: s, isString: true, isSet: true} }

// IsSet is false for a notification.
func (id ID) IsSet() bool { return id.isSet }

// Int returns the id as an integer, and whether it is one.
func (id ID) Int() (int64, bool) { return id.num, id.isSet && !id.isString }

// Append appends the id as JSON.
func (id ID) Append(dst []byte) []byte {
	if id.isString {
		return AppendString(dst, id.text)
	}
	return strconv.AppendInt(dst, id.num, 10)
}

func (id ID) String() string { return string(id.Append(nil)) }

// Kind tells the shapes of a message apart.
type Kind int

const (
	// Request has a method and an id.
	Request Kind = iota
	// Notification has a method and no id.
	Notification
	// Response has an id and a result or an error.
	Response
)

// Envelope is a message, taken apart. Its slices point into the message.
type Envelope struct {
	Kind   Kind
	ID     ID
	Method string
	Params []byte // nil when absent
	Result []byte // of a Response that succeeded
	Error  []byte // of a Response that failed
	// Trace is the W3C trace context of a request or notification.
	Trace TraceContext
	// Version2 is true when the sender wrote "jsonrpc":"2.0".
	Version2 bool
}

// TraceContext is the optional trace member of a request.
type TraceContext struct {
	Traceparent string `json:"traceparent,omitempty" wire:"nullable"`
	Tracestate  string `json:"tracestate,omitempty" wire:"nullable"`
}

// ShapeError is a message that is good JSON and no JSON-RPC message. ID is set when
// the message has a valid id that an answer can carry.
type ShapeError struct {
	Reason string
	ID     ID
}

func (e *ShapeError) Error() string { return e.Reason }

// ParseEnvelope checks the whole of msg and takes it apart. It returns a
// *SyntaxError or a *ShapeError for what is no JSON-RPC message.
func ParseEnvelope(msg []byte, limits Limits) (Envelope, error) {
	start := skipSpace(msg, 0)
	if start == len(msg) {
		return Envelope{}, &SyntaxError{Reason: "empty message"}
	}
	var members struct{ id, method, params, result, failure, trace, jsonrpc []byte }
	s := scanner{src: msg, limits: limits}
	s.onMember = func(key, value []byte) {
		switch string(key) {
		case "id":
			members.id = value
		case "method":
			members.method = value
		case "params":
			members.params = value
		case "result":
			members.result = value
		case "error":
			members.failure = value
		case "trace":
			members.trace = value
		case "jsonrpc":
			members.jsonrpc = value
		}
	}
	if err := s.document(); err != nil {
		return Envelope{}, err
	}
	if msg[start] != '{' {
		return Envelope{}, &ShapeError{Reason: "expected a JSON-RPC object"}
	}

	env := Envelope{Version2: string(members.jsonrpc) == `"2.0"`}
	if members.id != nil {
		id, err := parseID(members.id)
		if err != nil {
			return Envelope{}, &ShapeError{Reason: err.Error()}
		}
		env.ID = id
	}
	if members.method == nil {
		return env.response(members.result, members.failure)
	}
	if members.method[0] != '"' {
		return Envelope{}, &ShapeError{Reason: "method must be a string", ID: env.ID}
	}
	env.Kind = Notification
	if env.ID.IsSet() {
		env.Kind = Request
	}
	env.Method = string(unquote(members.method))
	env.Params = members.params
	if members.trace != nil && !bytes.Equal(members.trace, null) {
		if err := Unmarshal(members.trace, &env.Trace); err != nil {
			if env.Kind == Request {
				return Envelope{}, &ShapeError{Reason: "trace: " + err.Error(), ID: env.ID}
			}
			env.Trace = TraceContext{} // of a notification: ignored
		}
	}
	return env, nil
}

func (env Envelope) response(result, failure []byte) (Envelope, error) {
	env.Kind = Response
	switch {
	case !env.ID.IsSet():
		return Envelope{}, &ShapeError{Reason: "neither a request, a notification nor a response: method and id are missing"}
	case failure != nil && failure[0] == '{':
		env.Error = failure
	case failure != nil && !bytes.Equal(failure, null):
		return Envelope{}, &ShapeError{Reason: "error must be an object", ID: env.ID}
	case result != nil:
		env.Result = result
	default:
		return Envelope{}, &ShapeError{Reason: "neither a request nor a response: method, result and error are missing", ID: env.ID}
	}
	return env, nil
}

var errID = errors.New("id must be a string or a signed 64-bit integer")

func parseID(raw []byte) (ID, error) {
	if raw[0] == '"' {
		return StringID(string(unquote(raw))), nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || string(raw) == "-0" {
		return ID{}, errID
	}
	return IntID(n), nil
}

var null = []byte("null")

// IsEmptyParams reports whether raw is what a method without parameters may be
// sent: nothing, null or {}.
func IsEmptyParams(raw []byte) bool {
	if raw == nil || bytes.Equal(raw, null) {
		return true
	}
	return raw[0] == '{' && raw[skipSpace(raw, 1)] == '}'
}

// AppendRequest appends a request, or a notification when id is not set. Params of
// nil are left out.
func AppendRequest(dst []byte, id ID, method string, params any, version2 bool) ([]byte, error) {
	dst = appendHead(dst, version2)
	if id.IsSet() {
		dst = append(dst, `"id":`...)
		dst = id.Append(dst)
		dst = append(dst, ',')
	}
	dst = append(dst, `"method":`...)
	dst = AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		var err error
		if dst, err = Append(dst, params); err != nil {
			return nil, fmt.Errorf("encode params of %s: %w", method, err)
		}
	}
	return append(dst, '}'), nil
}

// AppendResult appends a successful response.
func AppendResult(dst []byte, id ID, result any, version2 bool) ([]byte, error) {
	dst = appendHead(dst, version2)
	dst = append(dst, `"id":`...)
	dst = id.Append(dst)
	dst = append(dst, `,"result":`...)
	dst, err := Append(dst, result)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return append(dst, '}'), nil
}

// AppendError appends a failed response; failure is encoded as it stands.
func AppendError(dst []byte, id ID, failure any, version2 bool) ([]byte, error) {
	dst = appendHead(dst, version2)
	dst = append(dst, `"error":`...)
	dst, err := Append(dst, failure)
	if err != nil {
		return nil, fmt.Errorf("encode error: %w", err)
	}
	dst = append(dst, `,"id":`...)
	dst = id.Append(dst)
	return append(dst, '}'), nil
}

func appendHead(dst []byte, version2 bool) []byte {
	if version2 {
		return append(dst, `{"jsonrpc":"2.0",`...)
	}
	return append(dst, '{')
}
