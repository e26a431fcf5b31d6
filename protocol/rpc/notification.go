package rpc

import (
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/wsd-dev/wsd/protocol"
)

// notification is an entry of a Table for what clients send without an id.
type notification struct {
	slot int
	take func(service any, raw []byte) error
	bad  func(service any, raw []byte) // nil for nothing
}

// HandleNotification adds a notification that fn takes, on the S bound in the
// connection's Scope and on the reading goroutine, before anything that arrived later is
// looked at: it must not block. The client is told of its error. One added twice is a
// fault of this program, so it panics.
func HandleNotification[S, P any](t *Table, name string, fn func(service S, params *P) error) {
	if _, dup := t.notifications[name]; dup {
		panic(fmt.Sprintf("rpc: notification %s is added twice", name))
	}
	n := &notification{slot: t.slot(reflect.TypeFor[S]())}
	n.take = func(service any, raw []byte) error {
		params := new(P)
		if err := decodeParams(raw, params); err != nil {
			if n.bad != nil {
				n.bad(service, raw)
			}
			return protocol.InvalidParams("%s: %v", name, err)
		}
		return fn(service.(S), params)
	}
	t.notifications[name] = n
}

// OnBadNotification has fn called with the parameters of a notification that do not
// decode, nil for none, as what takes it is called with others. The notification must have
// been added, with the same S.
func OnBadNotification[S any](t *Table, name string, fn func(service S, raw []byte)) {
	t.notifications[name].bad = func(service any, raw []byte) { fn(service.(S), raw) }
}

// unreadable is an entry of a Table for messages that are none.
type unreadable struct {
	slot int
	take func(service any)
}

// OnUnreadable has fn called, on the S bound in the connection's Scope, when a message
// arrives that cannot be read: a request or a notification may be lost. It is called on the
// reading goroutine and must not block.
func OnUnreadable[S any](t *Table, fn func(service S)) {
	t.unreadable = append(t.unreadable, unreadable{
		slot: t.slot(reflect.TypeFor[S]()),
		take: func(service any) { fn(service.(S)) },
	})
}

// HandleUnreadable calls what OnUnreadable has added.
func (d *Dispatcher) HandleUnreadable() {
	for _, u := range d.table.unreadable {
		if service := d.scope.services[u.slot]; service != nil {
			u.take(service)
		}
	}
}

// Takes reports whether something takes a notification.
func (d *Dispatcher) Takes(method string) bool {
	n := d.table.notifications[method]
	return n != nil && d.scope.services[n.slot] != nil
}

// HandleNotification has a notification taken, by what Takes has promised.
func (d *Dispatcher) HandleNotification(method string, params []byte) (err error) {
	n := d.table.notifications[method]
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Logger.Error("notification panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
			err = protocol.Errorf(protocol.CodeInternal, "internal error while taking %s; the server's log has the details", method)
		}
	}()
	return n.take(d.scope.services[n.slot], params)
}
