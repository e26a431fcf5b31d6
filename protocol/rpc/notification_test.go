package rpc

import (
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

type listener struct{ heard []string }

func (l *listener) hear(p *protocol.ProcessParams) error {
	if p.ProcessID == "bad" {
		return protocol.Errorf(protocol.CodeInvalidRequest, "bad")
	}
	if p.ProcessID == "panic" {
		panic("at the disco")
	}
	l.heard = append(l.heard, p.ProcessID)
	return nil
}

func TestHandleNotification(t *testing.T) {
	table := NewTable()
	HandleNotification(table, "hear", (*listener).hear)
	scope := table.NewScope()
	d := NewDispatcher(scope, DispatcherConfig{})
	if d.Takes("hear") {
		t.Error("taken by nobody")
	}
	l := new(listener)
	scope.Bind(l)
	if !d.Takes("hear") || d.Takes("other") {
		t.Error("what is taken is not what was added")
	}
	if names := table.Names(); len(names) != 0 {
		t.Errorf("methods %q", names)
	}
	for raw, want := range map[string]string{
		`{"processId":"a"}`:     ``,
		`{"processId":"bad"}`:   `{"code":-32600,"message":"bad"}`,
		`{"processId":"panic"}`: `{"code":-32603,"message":"internal error while taking hear; the server's log has the details"}`,
		`{}`:                    "{\"code\":-32602,\"message\":\"hear: missing field `processId`\"}",
	} {
		err := d.HandleNotification("hear", []byte(raw))
		got := ""
		if err != nil {
			b, _ := wire.Append(nil, WireError(err))
			got = string(b)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
	if len(l.heard) != 1 || l.heard[0] != "a" {
		t.Errorf("heard %q", l.heard)
	}
	defer func() {
		if recover() == nil {
			t.Error("a notification was added twice")
		}
	}()
	HandleNotification(table, "hear", (*listener).hear)
}
