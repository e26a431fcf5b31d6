package rpc

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/bufpool"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// A Service serves methods for as long as a session or a connection lives.
type Service interface {
	// Close ends what the service runs, and waits for it.
	Close() error
}

// A Table lists the methods of a server: for each its name, how its parameters are
// decoded, in which order its requests run, and what serves them. It is filled with
// Handle before use and not changed after; one Table serves all connections.
type Table struct {
	methods       map[string]*Method
	notifications map[string]*notification
	unreadable    []unreadable
	slots         map[reflect.Type]int
}

// NewTable returns an empty Table.
func NewTable() *Table {
	return &Table{methods: make(map[string]*Method), notifications: make(map[string]*notification), slots: make(map[reflect.Type]int)}
}

// Method is an entry of a Table.
type Method struct {
	Name string
	// Family is what errors about the handshake call it, such as "filesystem".
	Family string

	slot   int
	decode func(raw []byte) (any, error)
	arrive func(service, params any) error // nil for nothing
	order  func(params any) Order
	serve  func(ctx context.Context, service, params any) (any, error)
	served func(params any) // takes back the memory of their payload; nil if there is none
}

// Names returns the names of all methods, sorted. Notifications are not among them.
func (t *Table) Names() []string { return slices.Sorted(maps.Keys(t.methods)) }

// Spec describes a method whose parameters are a P.
type Spec[P any] struct {
	Name   string
	Family string
	// Order says how requests wait for each other; nil means Concurrent.
	Order func(params *P) Order
	// ParamsError, if set, makes the error for parameters that do not decode. It is
	// CodeInvalidParams with the decoder's text otherwise.
	ParamsError func(err error) error
	// Payload, if set, is the member of params that takes most of their memory. It must be
	// required. Nothing may refer to it once the request has been served: its memory is used
	// again.
	Payload func(params *P) *[]byte
}

// Handle adds a method that is served by fn on the S bound in the connection's
// Scope. A P of protocol.Empty is a method without parameters. A method added twice
// is a fault of this program, so it panics.
func Handle[S, P, R any](t *Table, spec Spec[P], fn func(service S, ctx context.Context, params *P) (R, error)) {
	if _, dup := t.methods[spec.Name]; dup {
		panic(fmt.Sprintf("rpc: method %s is added twice", spec.Name))
	}
	m := &Method{Name: spec.Name, Family: spec.Family, slot: t.slot(reflect.TypeFor[S]())}
	m.decode = func(raw []byte) (any, error) {
		params := new(P)
		if spec.Payload != nil {
			if n := len(raw) / 4 * 3; n >= bufpool.LeastSize {
				*spec.Payload(params) = bufpool.Take(bufpool.Size(n))
			}
		}
		if err := decodeParams(raw, params); err != nil {
			if m.served != nil {
				m.served(params)
			}
			if spec.ParamsError != nil {
				return nil, spec.ParamsError(err)
			}
			return nil, protocol.InvalidParams("%s: %v", spec.Name, err)
		}
		if spec.Payload != nil {
			fit(spec.Payload(params))
		}
		return params, nil
	}
	m.order = func(params any) Order {
		if spec.Order == nil {
			return Concurrent
		}
		return spec.Order(params.(*P))
	}
	m.serve = func(ctx context.Context, service, params any) (any, error) {
		return fn(service.(S), ctx, params.(*P))
	}
	if spec.Payload != nil {
		m.served = func(params any) { bufpool.Keep(*spec.Payload(params.(*P))) }
	}
	t.methods[spec.Name] = m
}

// OnArrival has fn called when a request of a method has come: on the reading goroutine,
// before anything that arrived later is looked at, and before the method's order has it wait.
// fn must not block. Its error refuses the request. The method must have been added, with
// the same S and P.
func OnArrival[S, P any](t *Table, name string, fn func(service S, params *P) error) {
	t.methods[name].arrive = func(service, params any) error { return fn(service.(S), params.(*P)) }
}

// fit moves a payload out of memory that is more than twice as large, as it is when another
// member is long: only the message is charged for.
func fit(payload *[]byte) {
	if room := *payload; cap(room) > 2*len(room) {
		*payload = append(make([]byte, 0, len(room)), room...)
		bufpool.Keep(room)
	}
}

func (t *Table) slot(service reflect.Type) int {
	slot, ok := t.slots[service]
	if !ok {
		slot = len(t.slots)
		t.slots[service] = slot
	}
	return slot
}

var nullParams = []byte("null")

func decodeParams(raw []byte, params any) error {
	if _, none := params.(*protocol.Empty); none {
		if !wire.IsEmptyParams(raw) {
			return fmt.Errorf("invalid params: the method takes none")
		}
		return nil
	}
	if raw == nil || bytes.Equal(raw, nullParams) {
		raw = nullParams
	}
	return wire.Unmarshal(raw, params)
}

// A Scope holds the services that the requests of one connection run on.
type Scope struct {
	table    *Table
	services []any
}

// NewScope returns a Scope without services. A method whose service is not bound is
// not found.
func (t *Table) NewScope() *Scope {
	return &Scope{table: t, services: make([]any, len(t.slots))}
}

// Bind adds a service. It panics when no method of the table wants one of its type.
// Bind must not run beside requests.
func (s *Scope) Bind(service any) {
	slot, ok := s.table.slots[reflect.TypeOf(service)]
	if !ok {
		panic(fmt.Sprintf("rpc: no method is served by a %T", service))
	}
	s.services[slot] = service
}
