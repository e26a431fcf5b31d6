package capnweb

import "strings"

// A resolver gives the numbers in expressions a meaning. Its methods are called under the
// lock of its session.
type resolver interface {
	// subject is the object or call that the number of an import or pipeline stands for.
	subject(id int64) (any, error)
	// imported is an object of the peer's, or with promise a call's result to come.
	imported(id int64, promise bool) (any, error)
	// readable is the readable end of a pipe.
	readable(id int64) (*stream, error)
	// invoke starts what an expression says; args is nil for reading a property.
	invoke(subject any, path []any, args *evaluated) *promise
	// remap starts a map.
	remap(subject any, path []any, captures []any, program []byte) *promise
	// stub makes a Stub of an object or call.
	stub(subject any) *Stub
}

// evaluated is the value of an expression, and what has to happen before it can be used.
type evaluated struct {
	v       any
	owned   []any // *Stub and *stream: released by whoever ends up with v
	deps    []dependency
	soft    error // the value cannot be had, which is no fault of the protocol
	bytes   int   // of the text, and of the results that went into it
	charged int   // of those, what callBytes has until the value is complete
}

// A dependency is a place in a value for the result of a call.
type dependency struct {
	on  *promise
	set func(any)
}

// An evaluator reads one value of checked JSON. It copies what it returns.
type evaluator struct {
	cursor
	res   resolver // nil where values alone are expected
	owned []any
	deps  []dependency
	soft  error
	// local is set for text of ours, whose gaps are filled with ["import",i].
	local []capability
	take  func(v any) (any, error) // what becomes of a capability of local
}

func (ev *evaluator) result(v any) *evaluated {
	return &evaluated{v: v, owned: ev.owned, deps: ev.deps, soft: ev.soft, bytes: len(ev.text)}
}

// value reads the value at hand.
func (ev *evaluator) value() (any, error) {
	v, dep, err := ev.place(0)
	if dep != nil {
		return nil, protocolErrorf("TypeError", "a call where a value is expected")
	}
	return v, err
}

// place reads a value, or the call whose result it will be.
func (ev *evaluator) place(depth int) (v any, dep *promise, err error) {
	if depth >= MaxDepth {
		return nil, nil, protocolErrorf("TypeError", "Deserialization exceeded maximum allowed message depth of %d.", MaxDepth)
	}
	switch ev.peek() {
	case 'n':
		ev.pos += len("null")
		return nil, nil, nil
	case 't':
		ev.pos += len("true")
		return true, nil, nil
	case 'f':
		ev.pos += len("false")
		return false, nil, nil
	case '"':
		return text(ev.str()), nil, nil
	case '{':
		v, err = ev.object(depth)
		return v, nil, err
	case '[':
		return ev.array(depth)
	default:
		return ev.number(), nil, nil
	}
}

// text makes a string, as valid UTF-8, of what a cursor returned.
func text(b []byte) string { return strings.ToValidUTF8(string(b), "\ufffd") }

// awaited lists the calls that items of one list or object wait for.
type awaited []struct {
	at int
	on *promise
}

func (w *awaited) add(at int, on *promise) {
	if on != nil {
		*w = append(*w, struct {
			at int
			on *promise
		}{at, on})
	}
}

func (ev *evaluator) object(depth int) (any, error) {
	ev.pos++
	o := Object{}
	var names map[string]int // of a large object
	var late awaited
	for !ev.accept('}') {
		ev.accept(',')
		name := text(ev.str())
		ev.accept(':')
		v, dep, err := ev.place(depth + 1)
		if err != nil {
			return nil, err
		}
		if unwanted(name) {
			continue // what it holds is released with the rest
		}
		at := o.find(name, names)
		if at < 0 {
			at = len(o)
			o = append(o, Member{Name: name})
			names = indexNames(names, o)
		}
		o[at].Value = v
		late.add(at, dep)
	}
	for _, l := range late {
		ev.deps = append(ev.deps, dependency{l.on, func(v any) { o[l.at].Value = v }})
	}
	return o, nil
}

// find is the place of a name, -1 for none.
func (o Object) find(name string, names map[string]int) int {
	if names == nil {
		return o.index(name)
	}
	if at, ok := names[name]; ok {
		return at
	}
	return -1
}

// indexNames keeps an index of the names in o, once there are more than a few.
func indexNames(names map[string]int, o Object) map[string]int {
	switch {
	case names != nil:
		names[o[len(o)-1].Name] = len(o) - 1
	case len(o) > 16:
		names = make(map[string]int, 2*len(o))
		for i := range o {
			names[o[i].Name] = i
		}
	}
	return names
}

// list reads the items of an array up to its bracket.
func (ev *evaluator) list(depth int) ([]any, error) {
	ev.pos++
	out := []any{}
	var late awaited
	for ev.item() {
		v, dep, err := ev.place(depth)
		if err != nil {
			return nil, err
		}
		late.add(len(out), dep)
		out = append(out, v)
	}
	for _, l := range late {
		ev.deps = append(ev.deps, dependency{l.on, func(v any) { out[l.at] = v }})
	}
	return out, nil
}

// array reads an escaped array, or a special value.
func (ev *evaluator) array(depth int) (any, *promise, error) {
	start := ev.pos
	ev.pos++
	switch ev.peek() {
	case '[':
		list, err := ev.list(depth + 1)
		if err != nil {
			return nil, nil, err
		}
		if !ev.accept(']') {
			return nil, nil, ev.unknown(start)
		}
		return list, nil, nil
	case '"':
		v, dep, ok, err := ev.special(string(ev.str()), depth)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			return nil, nil, ev.unknown(start)
		}
		for !ev.accept(']') { // what is not known is passed over
			ev.accept(',')
			ev.skip()
		}
		return v, dep, nil
	default:
		return nil, nil, ev.unknown(start)
	}
}

func (ev *evaluator) unknown(start int) error {
	ev.pos = start
	return protocolErrorf("TypeError", "unknown special value: %s", quoteFor(ev.skip()))
}

// more moves to the next item of a special value, if it has one.
func (ev *evaluator) more() bool { return ev.accept(',') }
