package wire

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// Append appends v as JSON. It writes what Unmarshal reads: []byte as base64, nil
// slices as [] and "", nil maps as {}, nil pointers as null.
func Append(dst []byte, v any) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	return encode(dst, reflect.ValueOf(v))
}

var appenderType = reflect.TypeFor[Appender]()

func encode(dst []byte, v reflect.Value) ([]byte, error) {
	if v.Type().Implements(appenderType) && !(v.Kind() == reflect.Pointer && v.IsNil()) {
		return v.Interface().(Appender).AppendWire(dst)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return encode(dst, v.Elem())
	case reflect.String:
		return AppendString(dst, v.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return nil, fmt.Errorf("no JSON for %v", v.Float())
		}
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 64), nil
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return AppendBase64(dst, v.Bytes()), nil
		}
		return encodeSlice(dst, v)
	case reflect.Map:
		return encodeMap(dst, v)
	case reflect.Struct:
		return encodeStruct(dst, v)
	default:
		return nil, fmt.Errorf("no JSON for %v", v.Type())
	}
}

// SizeHint returns about how long the JSON is of what makes it large: the binary data and the
// lists of structs directly in the struct v, or that v points to. Of binary data
// it is that; of an Appender what it says itself with a method WireSize, else 0.
func SizeHint(v any) int {
	switch v := v.(type) {
	case interface{ WireSize() int }:
		return v.WireSize()
	case Appender:
		return 0
	}
	s := reflect.ValueOf(v)
	if s.Kind() == reflect.Pointer {
		s = s.Elem()
	}
	switch {
	case s.Kind() == reflect.Slice && s.Type().Elem().Kind() == reflect.Uint8:
		return base64.StdEncoding.EncodedLen(s.Len())
	case s.Kind() != reflect.Struct:
		return 0
	}
	size, p := 0, planOf(s.Type())
	for _, i := range p.binary {
		size += base64.StdEncoding.EncodedLen(s.Field(i).Len())
	}
	for _, i := range p.lists {
		list := s.Field(i)
		size += list.Len() * (len(`{},`) + planOf(list.Type().Elem()).usual)
	}
	return size
}

func encodeSlice(dst []byte, v reflect.Value) (_ []byte, err error) {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = encode(dst, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// encodeMap writes keys in order, so that equal values have equal texts.
func encodeMap(dst []byte, v reflect.Value) (_ []byte, err error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		switch {
		case a.String() < b.String():
			return -1
		case a.String() > b.String():
			return 1
		default:
			return 0
		}
	})
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendString(dst, key.String()), ':')
		if dst, err = encode(dst, v.MapIndex(key)); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func encodeStruct(dst []byte, v reflect.Value) (_ []byte, err error) {
	p := planOf(v.Type())
	dst = append(dst, '{')
	first := true
	for i := range p.fields {
		f := &p.fields[i]
		value := v.Field(f.index)
		if f.omitEmpty && isEmpty(value) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.key...)
		if dst, err = encode(dst, value); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}
