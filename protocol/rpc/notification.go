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
}

// HandleNotification adds a notification that fn takes, on the S bound in the
// connection's Scope and on the reading goroutine, before anything that arrived later is
// looked at: it must not block. The client is told of its error. One added twice is a
// fault of this program, so it panics.
func HandleNotification[S, P any](t *Table, name string, fn func(service S, params *P) error) {
	if _, dup := t.notifications[name]; dup {
		panic(fmt.Sprintf("rpc: notification %s is added twice", name))
	}
	t.notifications[name] = &notification{
		slot: t.slot(reflect.TypeFor[S]()),
		take: func(service any, raw []byte) error {
			params := new(P)
			if err := decodeParams(raw, params); err != nil {
				return protocol.Errorf(protocol.CodeInvalidParams, "%s: %v", name, err)
			}
			return fn(service.(S), params)
		},
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
