package capnweb

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Marshal encodes a value that holds no objects, calls or streams.
func Marshal(v any) ([]byte, error) {
	e, err := encode(v, nil)
	if err != nil {
		return nil, err
	}
	if len(e.caps) > 0 {
		return nil, typeErrorf("cannot send %T without a session", e.caps[0].v)
	}
	return e.text, nil
}

// encoded is a value as text, with gaps for what only a session can write: the numbers
// of the objects, calls and streams in it.
type encoded struct {
	text []byte
	caps []capability
	full []byte // text with room before it, of which frame makes use; nil for none
}

// headRoom is the room that encoders leave for the head of a message.
const headRoom = 64

// A capability is a *Target, *Stub, *Sink, *Writer, Var or *stream in an encoded value.
type capability struct {
	at int // the place in text
	v  any
}

type encoder struct {
	encoded
	mapError func(error) *Error
}

var errDepth = &Error{Name: "Error", Message: "Serialization exceeded maximum allowed depth. (Does the message contain cycles?)"}

// encode makes text of v. It has no effect on what v holds.
func encode(v any, mapError func(error) *Error) (*encoded, error) {
	return encodeInto(nil, v, mapError)
}

// encodeInto does so in the memory of buf.
func encodeInto(buf []byte, v any, mapError func(error) *Error) (*encoded, error) {
	e := newEncoder(buf)
	e.mapError = mapError
	return e.end(e.value(v, 0))
}

var room [headRoom]byte

func newEncoder(buf []byte) *encoder {
	e := &encoder{}
	e.text = append(buf[:0], room[:]...)
	return e
}

// end separates the text from the room before it.
func (e *encoder) end(err error) (*encoded, error) {
	e.full = e.text
	e.text = e.text[headRoom:]
	for i := range e.caps {
		e.caps[i].at -= headRoom
	}
	return &e.encoded, err
}

// encodeArgs makes text of the arguments of a call, which are a list without escape.
func encodeArgs(args []any) (*encoded, error) {
	e := newEncoder(nil)
	e.text = append(e.text, '[')
	for i, v := range args {
		if i > 0 {
			e.text = append(e.text, ',')
		}
		if err := e.value(v, 1); err != nil {
			return e.end(err)
		}
	}
	e.text = append(e.text, ']')
	return e.end(nil)
}

func (e *encoder) cap(v any) error {
	e.caps = append(e.caps, capability{len(e.text), v})
	return nil
}

func (e *encoder) raw(s string) error {
	e.text = append(e.text, s...)
	return nil
}

func (e *encoder) value(v any, depth int) error {
	if depth >= MaxDepth {
		return errDepth
	}
	if len(e.text) > MaxValueBytes {
		return limitErrorf("a value of more than %d bytes cannot be sent", MaxValueBytes)
	}
	switch v := v.(type) {
	case nil:
		return e.raw("null")
	case Undefined:
		return e.raw(`["undefined"]`)
	case bool:
		e.text = strconv.AppendBool(e.text, v)
		return nil
	case string:
		return e.str(v)
	case float64:
		return e.float(v)
	case int:
		return e.int(int64(v))
	case int64:
		return e.int(v)
	case []byte:
		return e.bytes(v, "")
	case []any:
		return e.list(len(v), func(i int) error { return e.value(v[i], depth+1) })
	case Object:
		return e.object(v, depth)
	case TypedArray:
		return e.bytes(v.Data, v.Kind)
	case time.Time:
		return e.raw(`["date",` + strconv.FormatInt(v.UnixMilli(), 10) + `]`)
	case InvalidDate:
		return e.raw(`["date",null]`)
	case *big.Int:
		if v == nil {
			return e.raw("null")
		}
		return e.bigInt(v)
	case *Target, *Stub, *Sink, *Writer, Var, *stream, streamer:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			return e.raw("null")
		}
		return e.capOf(v)
	case *Error:
		if v == nil {
			return e.raw("null")
		}
		return e.error(v, depth)
	case *Undefined:
		return e.raw(`["undefined"]`)
	}
	return e.reflected(reflect.ValueOf(v), depth)
}

// capOf takes a capability. A stream is taken as what is in it.
func (e *encoder) capOf(v any) error {
	if s, ok := v.(streamer); ok {
		st := s.inner()
		if st == nil {
			return e.raw(`["undefined"]`)
		}
		v = st
	}
	return e.cap(v)
}

func (e *encoder) list(n int, item func(int) error) error {
	e.text = append(e.text, "[["...)
	for i := range n {
		if i > 0 {
			e.text = append(e.text, ',')
		}
		if err := item(i); err != nil {
			return err
		}
	}
	e.text = append(e.text, "]]"...)
	return nil
}

func (e *encoder) object(o Object, depth int) error {
	e.text = append(e.text, '{')
	for _, m := range o {
		if unwanted(m.Name) {
			continue
		}
		e.comma()
		e.text = append(appendString(e.text, m.Name), ':')
		if err := e.value(m.Value, depth+1); err != nil {
			return err
		}
	}
	e.text = append(e.text, '}')
	return nil
}

// comma separates members, unless the one to come is the first.
func (e *encoder) comma() {
	if e.text[len(e.text)-1] != '{' {
		e.text = append(e.text, ',')
	}
}

func (e *encoder) float(f float64) error {
	switch {
	case math.IsNaN(f):
		return e.raw(`["nan"]`)
	case math.IsInf(f, 1):
		return e.raw(`["inf"]`)
	case math.IsInf(f, -1):
		return e.raw(`["-inf"]`)
	case f == math.Trunc(f) && math.Abs(f) < 1e21:
		e.text = strconv.AppendFloat(e.text, f+0, 'f', -1, 64) // +0 for -0
	default:
		e.text = strconv.AppendFloat(e.text, f, 'g', -1, 64)
	}
	return nil
}

func (e *encoder) int(n int64) error {
	if n > maxSafeInteger || n < -maxSafeInteger {
		return &Error{Name: "RangeError", Message: "an integer beyond 2^53-1 can be sent as a big.Int only"}
	}
	e.text = strconv.AppendInt(e.text, n, 10)
	return nil
}

func (e *encoder) bigInt(n *big.Int) error {
	text := n.String()
	if len(text) > MaxBigIntDigits {
		return limitErrorf("an integer of more than %d digits cannot be sent", MaxBigIntDigits)
	}
	return e.raw(`["bigint","` + text + `"]`)
}

// bytes writes bytes; kind, which peers below 0.12 do not know, is for typed arrays.
func (e *encoder) bytes(b []byte, kind string) error {
	if len(b)/3*4 > MaxValueBytes {
		return limitErrorf("a value of more than %d bytes cannot be sent", MaxValueBytes)
	}
	e.text = slices.Grow(e.text, len(b)/3*4+32)
	e.text = append(e.text, `["bytes","`...)
	e.text = append(appendBase64(e.text, b), '"')
	if kind != "" {
		if elementSizes[kind] == 0 || len(b)%elementSizes[kind] != 0 {
			return typeErrorf("%d bytes are no %s", len(b), kind)
		}
		e.text = append(appendString(append(e.text, ','), kind), ']')
		return nil
	}
	e.text = append(e.text, ']')
	return nil
}

// error writes an Error. Its stack is not sent.
func (e *encoder) error(v *Error, depth int) error {
	e.text = append(e.text, `["error",`...)
	e.text = appendString(e.text, cmp.Or(v.Name, "Error"))
	e.text = appendString(append(e.text, ','), v.Message)
	if v.Code == "" && len(v.Props) == 0 {
		return e.raw("]")
	}
	props := v.Props
	if v.Code != "" {
		props = append(Object{{"code", v.Code}}, v.Props...)
	}
	e.text = append(e.text, ",null,"...)
	if err := e.object(props, depth); err != nil {
		return err
	}
	return e.raw("]")
}

func (e *encoder) reflected(v reflect.Value, depth int) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map:
		if v.IsNil() {
			return e.raw("null")
		}
	}
	if v.CanInterface() {
		switch x := v.Interface().(type) {
		case Marshaler:
			to, err := x.MarshalCapnweb()
			if err != nil {
				return err
			}
			return e.value(to, depth+1)
		case error:
			to, _ := wireError(x, e.mapError)
			return e.value(to, depth+1)
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		return e.value(v.Bool(), depth)
	case reflect.String:
		return e.str(v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return e.int(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return e.int(int64(min(v.Uint(), maxSafeInteger+1)))
	case reflect.Float32, reflect.Float64:
		return e.float(v.Float())
	case reflect.Pointer, reflect.Interface:
		return e.value(v.Elem().Interface(), depth+1)
	case reflect.Slice, reflect.Array:
		return e.sequence(v, depth)
	case reflect.Map:
		return e.mapping(v, depth)
	case reflect.Struct:
		return e.structure(v, depth)
	default:
		return typeErrorf("Cannot serialize value: %v", v.Type())
	}
}

func (e *encoder) sequence(v reflect.Value, depth int) error {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.Kind() == reflect.Slice {
			return e.bytes(v.Bytes(), "")
		}
		b := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
		return e.bytes(b, "")
	}
	return e.list(v.Len(), func(i int) error { return e.value(v.Index(i).Interface(), depth+1) })
}

// mapping writes a map with string keys, in their order.
func (e *encoder) mapping(v reflect.Value, depth int) error {
	if v.Type().Key().Kind() != reflect.String {
		return typeErrorf("Cannot serialize value: %v", v.Type())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	o := make(Object, len(keys))
	for i, k := range keys {
		o[i] = Member{k.String(), v.MapIndex(k).Interface()}
	}
	return e.object(o, depth)
}

func (e *encoder) structure(v reflect.Value, depth int) error {
	e.text = append(e.text, '{')
	p := planOf(v.Type())
	for i := range p.fields {
		f := &p.fields[i]
		fv := v.FieldByIndex(f.index)
		if f.left(fv) {
			continue
		}
		e.comma()
		e.text = append(e.text, f.key...)
		if err := e.value(fv.Interface(), depth+1); err != nil {
			return err
		}
	}
	e.text = append(e.text, '}')
	return nil
}

func (e *encoder) str(s string) error {
	if len(s) > MaxValueBytes {
		return limitErrorf("a value of more than %d bytes cannot be sent", MaxValueBytes)
	}
	e.text = appendString(e.text, s)
	return nil
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string, with the escapes that JSON needs.
func appendString(dst []byte, s string) []byte {
	dst = append(slices.Grow(dst, len(s)+2), '"')
	start := 0
	for i := 0; i < len(s); {
		switch b := s[i]; {
		case b >= utf8.RuneSelf:
			if r, n := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
			dst = append(append(dst, s[start:i]...), "\ufffd"...)
		case b == '"' || b == '\\':
			dst = append(append(dst, s[start:i]...), '\\', b)
		case b < 0x20:
			dst = append(append(dst, s[start:i]...), '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			i++
			continue
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// encodeError makes text of what peers are told of err. It cannot fail.
func encodeError(err error, mapError func(error) *Error) *encoded {
	v, _ := wireError(err, mapError)
	if enc, err := encode(v, mapError); err == nil {
		return enc
	} else if errors.Is(err, errDepth) {
		return encodeError(errDepth, nil)
	}
	enc, _ := encode(&Error{Message: "internal error"}, nil)
	return enc
}
