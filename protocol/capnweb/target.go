package capnweb

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
)

// A Target is an object that peers can call: methods and properties by name. It is set
// up first and then used by any number of sessions at once.
type Target struct {
	methods map[string]*Target // each with call set
	values  map[string]any
	call    *Method // what calling the object itself does; nil if it cannot be called
	dispose func()
	holders atomic.Int64
	proxied *Stub // of another session; nil for our own objects
}

// A Method is what a Target does when it is called.
type Method struct {
	// Run serves one call. Its context ends with the session, not when the peer loses
	// interest in the answer. What it returns is sent as the answer; the session takes
	// over the stubs and streams in it.
	Run func(ctx context.Context, call *Call) (any, error)
	// InOrder holds up the calls that came later, until Run returns or calls Call.Go.
	// Calls of other methods run beside each other.
	InOrder bool
	// Streams says that answers hold streams, which an HTTP batch cannot carry: such calls
	// are rejected there without being run. Func0, Func1 and Func2 see it by the type.
	Streams bool
}

// NewTarget returns an object without methods.
func NewTarget() *Target {
	return &Target{methods: map[string]*Target{}, values: map[string]any{}}
}

// NewFunc returns a function: an object that is called itself.
func NewFunc(m Method) *Target {
	t := NewTarget()
	t.call = &m
	return t
}

// Handle adds a method. Names that every object of JavaScript has cannot be reached.
func (t *Target) Handle(name string, m Method) {
	if m.Run == nil || unreachable(name) {
		panic("capnweb: method " + name + " cannot be")
	}
	t.methods[name] = NewFunc(m)
}

// Set adds a property: another Target, or a value.
func (t *Target) Set(name string, v any) {
	if unreachable(name) {
		panic("capnweb: property " + name + " cannot be")
	}
	t.values[name] = v
}

// OnDispose sets what is called each time the last session that held the object has let
// it go. It runs in a goroutine of that session.
func (t *Target) OnDispose(f func()) { t.dispose = f }

// property looks name up.
func (t *Target) property(name string) any {
	if m, ok := t.methods[name]; ok {
		return m
	}
	if v, ok := t.values[name]; ok {
		return v
	}
	return Undefined{}
}

func (t *Target) retain() { t.holders.Add(1) }

// release reports whether the object is to be disposed.
func (t *Target) release() bool { return t.holders.Add(-1) == 0 && t.dispose != nil }

// A Call is one call of a Method. It is not to be used after Run has returned.
type Call struct {
	// Args are the decoded arguments. Stubs and streams in them are released and cancelled
	// when Run returns, unless they were kept with Stub.Dup and Stream.Keep, or returned.
	Args []any

	session *Session
	method  string // the path, for the log
	goOn    sync.Once
	inOrder bool
}

// Session is the session that the call came by.
func (c *Call) Session() *Session { return c.session }

// Go lets the calls that came later start, where the method runs InOrder.
func (c *Call) Go() {
	c.goOn.Do(func() {
		if c.inOrder {
			c.session.lock()
			c.session.lane.held = false
			c.session.pump()
			c.session.unlock()
		}
	})
}

// Bind decodes the arguments into what dst point to. Arguments that are not there leave
// theirs alone; further ones are ignored, as JavaScript does.
func (c *Call) Bind(dst ...any) error {
	for i, d := range dst {
		if i >= len(c.Args) {
			break
		}
		if err := assign(c.Args[i], d); err != nil {
			return &Error{Name: "TypeError", Code: CodeInvalid, Message: fmt.Sprintf("argument %d: %v", i+1, err)}
		}
	}
	return nil
}

// Func0 makes a Method of a function without arguments.
func Func0[R any](f func(context.Context) (R, error)) Method {
	return method[R](func(ctx context.Context, _ *Call) (any, error) { return f(ctx) })
}

// Func1 makes a Method of a function with one argument, decoded like encoding/json would.
func Func1[A, R any](f func(context.Context, A) (R, error)) Method {
	return method[R](func(ctx context.Context, c *Call) (any, error) {
		var a A
		if err := c.Bind(&a); err != nil {
			return nil, err
		}
		return f(ctx, a)
	})
}

// Func2 makes a Method of a function with two arguments.
func Func2[A, B, R any](f func(context.Context, A, B) (R, error)) Method {
	return method[R](func(ctx context.Context, c *Call) (any, error) {
		var a A
		var b B
		if err := c.Bind(&a, &b); err != nil {
			return nil, err
		}
		return f(ctx, a, b)
	})
}

func method[R any](run func(context.Context, *Call) (any, error)) Method {
	return Method{Run: run, Streams: hasStreams(reflect.TypeFor[R](), nil)}
}

// InOrder returns m with the property of that name.
func InOrder(m Method) Method {
	m.InOrder = true
	return m
}

var streamerType = reflect.TypeFor[streamer]()

// hasStreams reports whether values of t can be seen to hold streams.
func hasStreams(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t.Implements(streamerType) {
		return true
	}
	if seen[t] {
		return false
	}
	if seen == nil {
		seen = map[reflect.Type]bool{}
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasStreams(t.Elem(), seen)
	case reflect.Struct:
		for f := range fieldsOf(t) {
			if f.IsExported() && hasStreams(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
