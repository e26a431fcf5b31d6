package rpc_test

import (
	"errors"
	"testing"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/rpc"
)

func TestInvoke(t *testing.T) {
	table := rpc.NewTable()
	rpc.Handle(table, rpc.Spec[echoParams]{Name: "say", Family: "echo"}, echo.say)
	scope := table.NewScope()
	code := func(err error) protocol.Code {
		failure, _ := errors.AsType[*protocol.Error](err)
		if failure == nil {
			return 0
		}
		return failure.Code
	}
	if _, err := rpc.Invoke[echoParams, *echoParams](t.Context(), scope, "say", &echoParams{}); code(err) != protocol.CodeMethodNotFound {
		t.Errorf("nothing bound: %v", err)
	}
	scope.Bind(echo{})
	got, err := rpc.Invoke[echoParams, *echoParams](t.Context(), scope, "say", &echoParams{Text: "hi"})
	if err != nil || got.Text != "hi" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := rpc.Invoke[echoParams, *echoParams](t.Context(), scope, "say", &echoParams{Text: "fail"}); code(err) != protocol.CodePreconditionFailed {
		t.Errorf("the method's error: %v", err)
	}
	if _, err := rpc.Invoke[echoParams, *echoParams](t.Context(), scope, "shout", &echoParams{}); code(err) != protocol.CodeMethodNotFound {
		t.Errorf("no such method: %v", err)
	}
}
