package capnweb

import (
	"reflect"
	"strings"
	"sync"
)

// A field is one member that a struct is sent as.
type field struct {
	name               string
	key                []byte // `"name":`
	index              []int
	omitEmpty, omitNil bool
}

// A plan is what is known of a struct type. Tags are those of encoding/json.
type plan struct {
	fields []field
	byName map[string]int
}

var plans sync.Map // reflect.Type to *plan

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{byName: map[string]int{}}
	p.add(t, nil)
	stored, _ := plans.LoadOrStore(t, p)
	return stored.(*plan)
}

// add lists the fields of t. Those of embedded structs come after its own and give way
// to them.
func (p *plan) add(t reflect.Type, at []int) {
	var embedded []reflect.StructField
	for f := range fieldsOf(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" && options == "" {
			continue
		}
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			embedded = append(embedded, f)
			continue
		}
		name := f.Name
		if tag != "" {
			name = tag
		}
		if _, taken := p.byName[name]; taken || !f.IsExported() || unwanted(name) {
			continue
		}
		options = "," + options + ","
		p.byName[name] = len(p.fields)
		p.fields = append(p.fields, field{
			name: name, key: append(appendString(nil, name), ':'), index: append(append([]int{}, at...), f.Index...),
			omitEmpty: strings.Contains(options, ",omitempty,"), omitNil: strings.Contains(options, ",omitzero,"),
		})
	}
	for _, f := range embedded {
		p.add(f.Type, append(append([]int{}, at...), f.Index...))
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// left reports whether the field is left out when it holds v.
func (f *field) left(v reflect.Value) bool {
	return f.omitNil && v.IsZero() || f.omitEmpty && isEmpty(v)
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}
