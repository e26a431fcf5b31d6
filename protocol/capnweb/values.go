package capnweb

import "slices"

// Values without a Go type to go to, as in an argument of type any, are decoded as these:
//
//	null, true, 1, "s"   nil, bool, float64, string
//	undefined            Undefined
//	Array, object        []any, Object
//	Uint8Array and the other containers of bytes    []byte
//	Int16Array and other typed arrays               TypedArray
//	bigint               *big.Int
//	Date                 time.Time, or InvalidDate
//	Error                *Error
//	stub, promise of a call    *Stub
//	ReadableStream       Stream[any]
//	WritableStream       *Writer
//
// Beside these, what encoding/json encodes by its fields can be sent, with the same tags.

// Undefined is JavaScript's undefined. As a member of an object it counts as absent.
type Undefined struct{}

// InvalidDate is a Date that is none.
type InvalidDate struct{}

// An Object is a plain object, its members in the order of the wire.
type Object []Member

// A Member is one name and value of an Object.
type Member struct {
	Name  string
	Value any
}

// Get returns the member called name, Undefined if there is none.
func (o Object) Get(name string) any {
	if i := o.index(name); i >= 0 {
		return o[i].Value
	}
	return Undefined{}
}

func (o Object) index(name string) int {
	return slices.IndexFunc(o, func(m Member) bool { return m.Name == name })
}

// A TypedArray holds the elements of a typed array in little-endian order.
type TypedArray struct {
	Kind string // as JavaScript calls it, like "Uint16Array"
	Data []byte
}

// elementSizes has what may stand behind bytes since 0.12, with the bytes of an element.
var elementSizes = map[string]int{
	"ArrayBuffer": 1, "DataView": 1, "Int8Array": 1, "Uint8Array": 1, "Uint8ClampedArray": 1,
	"Int16Array": 2, "Uint16Array": 2, "Int32Array": 4, "Uint32Array": 4, "Float32Array": 4,
	"BigInt64Array": 8, "BigUint64Array": 8, "Float64Array": 8,
}

// unreachable reports whether name is one that every object of JavaScript has. Such
// members are not sent, not looked up and dropped when they come.
func unreachable(name string) bool {
	switch name {
	case "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
		"toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__",
		"__lookupSetter__":
		return true
	}
	return false
}

// unwanted reports whether receivers drop a member called name.
func unwanted(name string) bool { return name == "toJSON" || unreachable(name) }

// A Marshaler is sent as the value that it gives.
type Marshaler interface {
	MarshalCapnweb() (any, error)
}

// An Unmarshaler takes a decoded value.
type Unmarshaler interface {
	UnmarshalCapnweb(v any) error
}
