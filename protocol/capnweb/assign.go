package capnweb

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"time"
)

// Unmarshal decodes a value that holds no objects, calls or streams into what dst points
// to.
func Unmarshal(text []byte, dst any) error {
	if err := check(text); err != nil {
		return err
	}
	ev := evaluator{cursor: cursor{text: text}}
	v, err := ev.value()
	if err == nil {
		err = ev.soft
	}
	if err != nil {
		return err
	}
	return assign(v, dst)
}

// assign converts a decoded value to what dst points to.
func assign(v, dst any) error {
	if d, ok := dst.(*any); ok {
		claimAll(v)
		*d = v
		return nil
	}
	r := reflect.ValueOf(dst)
	if r.Kind() != reflect.Pointer || r.IsNil() {
		return fmt.Errorf("capnweb: %T is no pointer to decode into", dst)
	}
	return assignTo(v, r.Elem())
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case Undefined:
		return "undefined"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []byte, TypedArray:
		return "bytes"
	case []any:
		return "an array"
	case Object:
		return "an object"
	case *big.Int:
		return "a bigint"
	case time.Time, InvalidDate:
		return "a date"
	case *Error:
		return "an error"
	case *Stub:
		return "a stub"
	case Stream[any]:
		return "a stream"
	default:
		return fmt.Sprintf("%T", v)
	}
}

// A misfit is a value that does not fit its place.
type misfit struct {
	path string
	what string
}

func (m *misfit) Error() string {
	if m.path == "" {
		return m.what
	}
	return m.path + ": " + m.what
}

func misfitf(format string, args ...any) error { return &misfit{what: fmt.Sprintf(format, args...)} }

// within says where in a value err happened.
func within(place string, err error) error {
	m, ok := errors.AsType[*misfit](err)
	if !ok {
		return fmt.Errorf("%s: %w", place, err)
	}
	if m.path != "" && m.path[0] != '[' {
		place += "."
	}
	return &misfit{place + m.path, m.what}
}

func assignTo(v any, dst reflect.Value) error {
	if dst.CanAddr() {
		switch d := dst.Addr().Interface().(type) {
		case Unmarshaler:
			return d.UnmarshalCapnweb(v)
		case streamSetter:
			return assignStream(v, d)
		}
	}
	switch v.(type) {
	case Undefined:
		if dst.Type() == reflect.TypeFor[Undefined]() || dst.Kind() != reflect.Interface {
			return nil
		}
	case nil:
		switch dst.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
			dst.SetZero()
		}
		return nil
	case InvalidDate:
		if dst.Type() == reflect.TypeFor[time.Time]() {
			dst.SetZero()
			return nil
		}
	}
	if r := reflect.ValueOf(v); r.Type().AssignableTo(dst.Type()) {
		claimAll(v)
		dst.Set(r)
		return nil
	}
	if dst.Kind() == reflect.Pointer {
		if dst.IsNil() {
			dst.Set(reflect.New(dst.Type().Elem()))
		}
		return assignTo(v, dst.Elem())
	}
	switch v := v.(type) {
	case bool:
		if dst.Kind() == reflect.Bool {
			dst.SetBool(v)
			return nil
		}
	case string:
		if dst.Kind() == reflect.String {
			dst.SetString(v)
			return nil
		}
	case float64:
		return assignNumber(v, dst)
	case *big.Int:
		return assignBig(v, dst)
	case []byte:
		return assignBytes(v, dst)
	case TypedArray:
		return assignTyped(v, dst)
	case []any:
		return assignList(v, dst)
	case Object:
		return assignObject(v, dst)
	}
	return misfitf("%s where %v is wanted", kindOf(v), dst.Type())
}

func assignStream(v any, d streamSetter) error {
	switch s := v.(type) {
	case Undefined:
		return nil
	case Stream[any]:
		s.st.claimed = true
		d.set(s.st)
		return nil
	}
	return misfitf("%s where a stream is wanted", kindOf(v))
}

func assignNumber(v float64, dst reflect.Value) error {
	switch {
	case dst.CanFloat():
		dst.SetFloat(v)
		return nil
	case dst.CanInt():
		if n, ok := integer(v); ok && !dst.OverflowInt(n) {
			dst.SetInt(n)
			return nil
		}
	case dst.CanUint():
		if n, ok := integer(v); ok && n >= 0 && !dst.OverflowUint(uint64(n)) {
			dst.SetUint(uint64(n))
			return nil
		}
	default:
		return misfitf("a number where %v is wanted", dst.Type())
	}
	return misfitf("%v is not in the range of %v", v, dst.Type())
}

func assignBig(v *big.Int, dst reflect.Value) error {
	switch {
	case dst.CanInt() && v.IsInt64() && !dst.OverflowInt(v.Int64()):
		dst.SetInt(v.Int64())
	case dst.CanUint() && v.IsUint64() && !dst.OverflowUint(v.Uint64()):
		dst.SetUint(v.Uint64())
	case dst.Type() == reflect.TypeFor[big.Int]():
		dst.Addr().Interface().(*big.Int).Set(v)
	default:
		return misfitf("a bigint that does not fit %v", dst.Type())
	}
	return nil
}

func assignBytes(v []byte, dst reflect.Value) error {
	switch {
	case dst.Kind() == reflect.Slice && dst.Type().Elem().Kind() == reflect.Uint8:
		dst.SetBytes(v)
	case dst.Kind() == reflect.Array && dst.Type().Elem().Kind() == reflect.Uint8:
		if len(v) != dst.Len() {
			return misfitf("%d bytes where %d are wanted", len(v), dst.Len())
		}
		reflect.Copy(dst, reflect.ValueOf(v))
	default:
		return misfitf("bytes where %v is wanted", dst.Type())
	}
	return nil
}

// assignTyped takes the elements of a typed array that belong to dst's, or its bytes.
func assignTyped(v TypedArray, dst reflect.Value) error {
	if dst.Kind() == reflect.Slice && dst.Type().Elem().Kind() == reflect.Uint8 {
		return assignBytes(v.Data, dst)
	}
	elem, ok := typedElems[v.Kind]
	if !ok || dst.Kind() != reflect.Slice || dst.Type().Elem().Kind() != elem {
		return misfitf("%s where %v is wanted", v.Kind, dst.Type())
	}
	return decodeElems(v, dst)
}

func assignList(v []any, dst reflect.Value) error {
	switch dst.Kind() {
	case reflect.Slice:
		out := reflect.MakeSlice(dst.Type(), len(v), len(v))
		for i := range v {
			if err := assignTo(v[i], out.Index(i)); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
		dst.Set(out)
		return nil
	case reflect.Array:
		if len(v) != dst.Len() {
			return misfitf("%d items where %d are wanted", len(v), dst.Len())
		}
		for i := range v {
			if err := assignTo(v[i], dst.Index(i)); err != nil {
				return within(fmt.Sprintf("[%d]", i), err)
			}
		}
		return nil
	default:
		return misfitf("an array where %v is wanted", dst.Type())
	}
}

func assignObject(v Object, dst reflect.Value) error {
	switch {
	case dst.Kind() == reflect.Struct && dst.Type() != reflect.TypeFor[time.Time]() && dst.Type() != reflect.TypeFor[Undefined]():
		p := planOf(dst.Type())
		for i := range v {
			at, ok := p.byName[v[i].Name]
			if !ok {
				continue
			}
			if err := assignTo(v[i].Value, dst.FieldByIndex(p.fields[at].index)); err != nil {
				return within(v[i].Name, err)
			}
		}
		return nil
	case dst.Kind() == reflect.Map && dst.Type().Key().Kind() == reflect.String:
		out := reflect.MakeMapWithSize(dst.Type(), len(v))
		for i := range v {
			item := reflect.New(dst.Type().Elem()).Elem()
			if err := assignTo(v[i].Value, item); err != nil {
				return within(v[i].Name, err)
			}
			out.SetMapIndex(reflect.ValueOf(v[i].Name).Convert(dst.Type().Key()), item)
		}
		dst.Set(out)
		return nil
	default:
		return misfitf("an object where %v is wanted", dst.Type())
	}
}
