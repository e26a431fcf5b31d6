package capnweb

import (
	"math"
	"math/big"
	"time"
)

// special reads what follows the name of a special value. ok is false if that makes no
// sense.
func (ev *evaluator) special(name string, depth int) (v any, dep *promise, ok bool, err error) {
	switch name {
	case "undefined":
		return Undefined{}, nil, ev.peek() == ']', nil
	case "inf":
		return math.Inf(1), nil, true, nil
	case "-inf":
		return math.Inf(-1), nil, true, nil
	case "nan":
		return math.NaN(), nil, true, nil
	case "bigint":
		v, ok, err = ev.bigInt()
	case "date":
		v, ok = ev.date()
	case "bytes":
		v, ok, err = ev.bytes()
	case "error":
		v, ok, err = ev.error(depth)
	case "import", "pipeline":
		return ev.reference(name == "pipeline", depth)
	case "remap":
		return ev.remap()
	case "export", "promise":
		return ev.exported(name == "promise")
	case "writable":
		v, ok, err = ev.writable()
	case "readable":
		v, ok, err = ev.readable()
	case "headers", "request", "response", "url", "blob":
		v, ok, err = ev.web(name, depth)
	}
	return v, nil, ok, err
}

func (ev *evaluator) bigInt() (any, bool, error) {
	if !ev.more() || ev.peek() != '"' {
		return nil, false, nil
	}
	digits := ev.str()
	if len(digits) > MaxBigIntDigits {
		return nil, false, protocolErrorf("TypeError", "Deserialized bigint exceeds maximum length of %d digits.", MaxBigIntDigits)
	}
	n, ok := new(big.Int).SetString(string(digits), 10)
	return n, ok, nil
}

// maxDate is the largest distance of a Date from 1970, in milliseconds.
const maxDate = 8.64e15

func (ev *evaluator) date() (any, bool) {
	if !ev.more() {
		return nil, false
	}
	switch b := ev.peek(); {
	case b == 'n':
		return InvalidDate{}, true
	case b == '-' || '0' <= b && b <= '9':
		ms := ev.number()
		if math.Abs(ms) > maxDate {
			return InvalidDate{}, true
		}
		return time.UnixMilli(int64(ms)).UTC(), true
	}
	return nil, false
}

func (ev *evaluator) bytes() (any, bool, error) {
	if !ev.more() || ev.peek() != '"' {
		return nil, false, nil
	}
	data, ok := decodeBase64(ev.str())
	if !ok {
		return nil, false, protocolErrorf("TypeError", "malformed base64")
	}
	if !ev.more() {
		return data, true, nil
	}
	if ev.peek() != '"' {
		return nil, false, protocolErrorf("TypeError", "Unknown bytes type marker")
	}
	kind := text(ev.str())
	size := elementSizes[kind]
	switch {
	case size == 0:
		return nil, false, protocolErrorf("TypeError", "Unknown bytes type marker: %s", quoteFor([]byte(kind)))
	case len(data)%size != 0:
		return nil, false, protocolErrorf("TypeError", "Invalid byte length %d for %s; expected a multiple of %d", len(data), kind, size)
	case size == 1:
		return data, true, nil
	}
	return TypedArray{kind, data}, true, nil
}

func (ev *evaluator) error(depth int) (any, bool, error) {
	e := &Error{}
	for _, part := range []*string{&e.Name, &e.Message} {
		if !ev.more() || ev.peek() != '"' {
			return nil, false, nil
		}
		*part = text(ev.str())
	}
	if ev.more() { // the stack
		if ev.peek() == '"' {
			e.Stack = text(ev.str())
		} else {
			ev.skip()
		}
		if ev.more() {
			if ev.peek() != '{' {
				return nil, false, nil
			}
			props, err := ev.object(depth)
			if err != nil {
				return nil, false, err
			}
			e.setProps(props.(Object))
		}
	}
	return e, true, nil
}

func (e *Error) setProps(props Object) {
	for _, m := range props {
		switch code, isText := m.Value.(string); {
		case m.Name == "name", m.Name == "message", m.Name == "stack":
		case m.Name == "code" && isText && code != "":
			e.Code = code
		default:
			e.Props = append(e.Props, m)
		}
	}
}

// web reads the types of the web platform, which have no counterpart here. The value that
// holds one cannot be had; what is in it is released.
func (ev *evaluator) web(name string, depth int) (any, bool, error) {
	if ev.soft == nil {
		ev.soft = typeErrorf("a %s cannot be received", name)
	}
	var err error
	switch name {
	case "response": // ["response", body, init]
		if !ev.more() {
			return nil, false, nil
		}
		_, _, err = ev.place(depth + 1)
	case "blob": // ["blob", type, content]
		if !ev.more() || ev.peek() != '"' {
			return nil, false, nil
		}
		ev.str()
		if !ev.more() {
			return nil, false, nil
		}
		_, _, err = ev.place(depth + 1)
	case "request": // ["request", url, {"body": body, ...}]
		if !ev.more() || ev.peek() != '"' {
			return nil, false, nil
		}
		ev.str()
		if !ev.more() || ev.peek() != '{' {
			return nil, false, nil
		}
		err = ev.requestInit(depth)
	}
	return Undefined{}, err == nil, err
}

// requestInit reads the options of a request, of which body and signal are expressions.
func (ev *evaluator) requestInit(depth int) error {
	ev.pos++
	for !ev.accept('}') {
		ev.accept(',')
		name := string(ev.str())
		ev.accept(':')
		if name != "body" && name != "signal" {
			ev.skip()
			continue
		}
		if _, _, err := ev.place(depth + 1); err != nil {
			return err
		}
	}
	return nil
}
