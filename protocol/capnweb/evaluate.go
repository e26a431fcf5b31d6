package capnweb

import (
	"math"
	"math/big"
	"strings"
	"time"
)

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

// id reads a number that stands in a table.
func (ev *evaluator) id() (int64, bool) {
	if b := ev.peek(); b != '-' && (b < '0' || b > '9') {
		return 0, false
	}
	return integer(ev.number())
}

// path reads a list of names and numbers.
func (ev *evaluator) path() ([]any, bool) {
	if ev.peek() != '[' {
		return nil, false
	}
	ev.pos++
	path := []any{}
	for ev.item() {
		switch b := ev.peek(); {
		case b == '"':
			path = append(path, text(ev.str()))
		case b == '-' || '0' <= b && b <= '9':
			path = append(path, ev.number())
		default:
			return nil, false
		}
	}
	return path, true
}

// reference reads what follows ["import" or ["pipeline": a number, perhaps a path, perhaps
// arguments.
func (ev *evaluator) reference(wait bool, depth int) (any, *promise, bool, error) {
	if !ev.more() {
		return nil, nil, false, nil
	}
	id, ok := ev.id()
	if !ok {
		return nil, nil, false, nil
	}
	if ev.local != nil {
		v, err := ev.take(ev.local[id].v)
		return v, nil, err == nil, err
	}
	if ev.res == nil {
		return nil, nil, false, errNoSession
	}
	subject, err := ev.res.subject(id)
	if err != nil {
		return nil, nil, false, err
	}
	if !ev.more() {
		if p, isPromise := subject.(*promise); isPromise && wait {
			return nil, p, true, nil
		}
		return ev.own(ev.res.stub(subject)), nil, true, nil
	}
	path, ok := ev.path()
	if !ok {
		return nil, nil, false, nil
	}
	var args *evaluated
	if ev.more() {
		if ev.peek() != '[' {
			return nil, nil, false, nil
		}
		inner := evaluator{cursor: ev.cursor, res: ev.res}
		from := inner.pos
		list, err := inner.list(depth + 1)
		if err != nil {
			ev.owned = append(ev.owned, inner.owned...)
			return nil, nil, false, err
		}
		ev.pos = inner.pos
		args = inner.result(list)
		args.bytes = ev.pos - from
	}
	if ev.peek() != ']' {
		if args != nil {
			ev.owned = append(ev.owned, args.owned...)
		}
		return nil, nil, false, nil
	}
	p := ev.res.invoke(subject, path, args)
	if wait {
		return nil, p, true, nil
	}
	return ev.own(ev.res.stub(p)), nil, true, nil
}

func (ev *evaluator) own(s *Stub) *Stub {
	ev.owned = append(ev.owned, s)
	return s
}

var errNoSession = typeErrorf("objects, calls and streams cannot be received without a session")

// exported reads what follows ["export" or ["promise".
func (ev *evaluator) exported(wait bool) (any, *promise, bool, error) {
	if !ev.more() {
		return nil, nil, false, nil
	}
	id, ok := ev.id()
	if !ok {
		return nil, nil, false, nil
	}
	if ev.res == nil {
		return nil, nil, false, errNoSession
	}
	subject, err := ev.res.imported(id, wait)
	if err != nil {
		return nil, nil, false, err
	}
	s := ev.own(ev.res.stub(subject))
	if wait {
		return nil, subject.(*promise), true, nil
	}
	return s, nil, true, nil
}

func (ev *evaluator) writable() (any, bool, error) {
	v, _, ok, err := ev.exported(false)
	if !ok || err != nil {
		return nil, ok, err
	}
	ev.owned = ev.owned[:len(ev.owned)-1]
	w := newWriter(v.(*Stub))
	ev.owned = append(ev.owned, w)
	return w, true, nil
}

func (ev *evaluator) readable() (any, bool, error) {
	if !ev.more() {
		return nil, false, nil
	}
	id, ok := ev.id()
	if !ok {
		return nil, false, nil
	}
	if ev.res == nil {
		return nil, false, errNoSession
	}
	st, err := ev.res.readable(id)
	if err != nil {
		return nil, false, err
	}
	st.hold()
	ev.owned = append(ev.owned, st)
	return Stream[any]{st}, true, nil
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

// remap reads what follows ["remap": a number, a path, captures and instructions. The
// instructions are read when there is something to apply them to.
func (ev *evaluator) remap() (any, *promise, bool, error) {
	if !ev.more() {
		return nil, nil, false, nil
	}
	id, ok := ev.id()
	if !ok || !ev.more() {
		return nil, nil, false, nil
	}
	path, ok := ev.path()
	if !ok || !ev.more() || ev.peek() != '[' {
		return nil, nil, false, nil
	}
	if ev.res == nil {
		return nil, nil, false, errNoSession
	}
	subject, err := ev.res.subject(id)
	if err != nil {
		return nil, nil, false, err
	}
	ev.pos++
	captures := []any{}
	for ev.item() {
		c, err := ev.capture()
		if err != nil {
			return nil, nil, false, err
		}
		captures = append(captures, c)
	}
	if !ev.more() || ev.peek() != '[' {
		return nil, nil, false, nil
	}
	program := append([]byte(nil), ev.skip()...)
	if ev.peek() != ']' {
		return nil, nil, false, nil
	}
	return nil, ev.res.remap(subject, path, captures, program), true, nil
}

// capture reads ["import",id] or ["export",id].
func (ev *evaluator) capture() (any, error) {
	start := ev.pos
	if ev.peek() == '[' {
		ev.pos++
		if ev.peek() == '"' {
			kind := string(ev.str())
			if ev.more() {
				if id, ok := ev.id(); ok && ev.accept(']') {
					switch kind {
					case "import":
						return ev.res.subject(id)
					case "export":
						v, err := ev.res.imported(id, false)
						if err == nil {
							ev.own(ev.res.stub(v))
						}
						return v, err
					}
				}
			}
		}
	}
	ev.pos = start
	return nil, protocolErrorf("TypeError", "unknown map capture: %s", quoteFor(ev.skip()))
}
