package wire

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// Unmarshaler decodes itself from checked JSON.
type Unmarshaler interface {
	UnmarshalWire(raw []byte) error
}

// Appender encodes itself as JSON.
type Appender interface {
	AppendWire(dst []byte) ([]byte, error)
}

// presence says what a member may be.
type presence int

const (
	required presence = iota // present and not null
	optional                 // absent or not null
	nullable                 // absent, null or a value
)

// field is one member of a struct.
type field struct {
	name      string
	key       []byte // `"name":`, as encoded
	index     int
	presence  presence
	omitEmpty bool
}

// plan is what is known of a struct type.
type plan struct {
	fields []field
	binary []int // indices of the fields that hold bytes
	lists  []int // indices of the fields that hold structs
	usual  int   // about the bytes of one without what is optional
}

// usualValue is about the length of a name, number or boolean.
const usualValue = 8

var plans sync.Map // reflect.Type to *plan

// planOf reads the tags of t once. Tags that make no sense are a fault of this
// program, so it panics.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			panic(fmt.Sprintf("wire: %v.%s has no json name", t, f.Name))
		}
		out := field{name: name, key: append(AppendString(nil, name), ':'), index: i, omitEmpty: options == "omitempty"}
		switch tag := f.Tag.Get("wire"); tag {
		case "":
		case "optional":
			out.presence = optional
		case "nullable":
			out.presence = nullable
		default:
			panic(fmt.Sprintf("wire: %v.%s has the unknown tag %q", t, f.Name, tag))
		}
		p.fields = append(p.fields, out)
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Uint8 {
			p.binary = append(p.binary, i)
		}
		if f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct && !f.Type.Elem().Implements(appenderType) {
			p.lists = append(p.lists, i)
		}
		if out.presence == required {
			p.usual += len(out.key) + len(`,`) + usualValue
		}
	}
	stored, _ := plans.LoadOrStore(t, p)
	return stored.(*plan)
}
