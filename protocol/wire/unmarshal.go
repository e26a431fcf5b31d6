package wire

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// Unmarshal decodes raw, a part of a checked message, into the struct, slice, map,
// scalar or Unmarshaler that v points to. Nothing in v points into raw afterwards. An empty
// []byte that has room is used for its member. Unknown members are ignored, names are
// case-sensitive, arrays never stand for structs. Errors are worded as the peers' decoders
// word them.
func Unmarshal(raw []byte, v any) error {
	return decode(raw, reflect.ValueOf(v).Elem())
}

var unmarshalerType = reflect.TypeFor[Unmarshaler]()

func decode(raw []byte, v reflect.Value) error {
	if v.CanAddr() && reflect.PointerTo(v.Type()).Implements(unmarshalerType) {
		return v.Addr().Interface().(Unmarshaler).UnmarshalWire(raw)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if bytes.Equal(raw, null) {
			return mismatch(raw, describe(v.Type().Elem()))
		}
		v.Set(reflect.New(v.Type().Elem()))
		return decode(raw, v.Elem())
	case reflect.String:
		if raw[0] != '"' {
			return mismatch(raw, "a string")
		}
		v.SetString(string(unquote(raw)))
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return mismatch(raw, "a boolean")
		}
		v.SetBool(raw[0] == 't')
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(string(raw), 10, v.Type().Bits())
		if err != nil {
			return mismatch(raw, v.Type().String())
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := strconv.ParseUint(string(raw), 10, v.Type().Bits())
		if err != nil {
			return mismatch(raw, "u"+strconv.Itoa(v.Type().Bits()))
		}
		v.SetUint(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || math.IsInf(n, 0) {
			return mismatch(raw, "f64")
		}
		v.SetFloat(n)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			var room []byte
			if v.Len() == 0 {
				room = v.Bytes()
			}
			data, err := UnmarshalBytes(room, raw)
			if err != nil {
				return err
			}
			v.SetBytes(data)
			return nil
		}
		return decodeSlice(raw, v)
	case reflect.Map:
		return decodeMap(raw, v)
	case reflect.Struct:
		return decodeStruct(raw, v)
	default:
		panic(fmt.Sprintf("wire: cannot decode into %v", v.Type()))
	}
	return nil
}

// UnmarshalBytes decodes raw, a string of base64 in a checked message, as DecodeBase64 does.
func UnmarshalBytes(dst, raw []byte) ([]byte, error) {
	if raw[0] != '"' {
		return nil, mismatch(raw, "a string")
	}
	// A backslash is no symbol of base64: looking for escapes first is a pass over the
	// whole that nearly always finds none.
	data, err := DecodeBase64(dst, raw[1:len(raw)-1])
	if err != nil {
		return DecodeBase64(dst, unquote(raw))
	}
	return data, nil
}

func decodeSlice(raw []byte, v reflect.Value) error {
	if raw[0] != '[' {
		return mismatch(raw, "a sequence")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	for i := skipSpace(raw, 1); raw[i] != ']'; {
		end := skip(raw, i)
		item := reflect.New(v.Type().Elem()).Elem()
		if err := decode(raw[i:end], item); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
		i = next(raw, end)
	}
	return nil
}

func decodeMap(raw []byte, v reflect.Value) error {
	if raw[0] != '{' {
		return mismatch(raw, "a map")
	}
	v.Set(reflect.MakeMap(v.Type()))
	return members(raw, func(key, value []byte) error {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := decode(value, item); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(string(key)).Convert(v.Type().Key()), item)
		return nil
	})
}

func decodeStruct(raw []byte, v reflect.Value) error {
	p := planOf(v.Type())
	if raw[0] != '{' {
		return mismatch(raw, "struct "+v.Type().Name())
	}
	var seen uint64
	err := members(raw, func(key, value []byte) error {
		for i := range p.fields {
			f := &p.fields[i]
			if f.name != string(key) {
				continue
			}
			seen |= 1 << i
			if f.presence == nullable && bytes.Equal(value, null) {
				return nil
			}
			return decode(value, v.Field(f.index))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range p.fields {
		if p.fields[i].presence == required && seen&(1<<i) == 0 {
			return fmt.Errorf("missing field `%s`", p.fields[i].name)
		}
	}
	return nil
}

// members calls fn for each member of the checked object raw.
func members(raw []byte, fn func(key, value []byte) error) error {
	for i := skipSpace(raw, 1); raw[i] != '}'; {
		end := skipString(raw, i)
		key := unquote(raw[i:end])
		i = skipSpace(raw, skipSpace(raw, end)+1)
		end = skip(raw, i)
		if err := fn(key, raw[i:end]); err != nil {
			return err
		}
		i = next(raw, end)
	}
	return nil
}

// next moves from the end of an item to the next item or the closing bracket.
func next(raw []byte, end int) int {
	end = skipSpace(raw, end)
	if raw[end] == ',' {
		return skipSpace(raw, end+1)
	}
	return end
}

func mismatch(raw []byte, expected string) error {
	var got string
	switch c := raw[0]; {
	case c == '{':
		got = "map"
	case c == '[':
		got = "sequence"
	case c == '"':
		got = "string " + excerpt(raw)
	case c == 'n':
		got = "null"
	case c == 't' || c == 'f':
		got = "boolean `" + string(raw) + "`"
	default:
		got = "number `" + excerpt(raw) + "`"
	}
	return fmt.Errorf("invalid type: %s, expected %s", got, expected)
}

// excerpt keeps a client's own text in an error short.
func excerpt(raw []byte) string {
	if len(raw) <= 64 {
		return string(raw)
	}
	return string(bytes.ToValidUTF8(raw[:64], nil)) + "…"
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Struct:
		return "struct " + t.Name()
	default:
		return t.String()
	}
}
