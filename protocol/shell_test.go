package protocol_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

func TestExecEventForms(t *testing.T) {
	for form, want := range map[string]protocol.ExecEvent{
		`{"id":"r","seq":1,"name":"stdout","value":"aGk="}`:       {ID: "r", Seq: 1, Name: "stdout", Data: []byte("hi")},
		`{"id":"r","seq":2,"name":"stderr","value":""}`:           {ID: "r", Seq: 2, Name: "stderr", Data: []byte{}},
		`{"id":"r","seq":3,"name":"exit","value":-1,"code":-1}`:   {ID: "r", Seq: 3, Name: "exit", Code: -1},
		`{"id":"r","seq":4,"name":"exit","value":130,"code":130}`: {ID: "r", Seq: 4, Name: "exit", Code: 130},
	} {
		for _, room := range [][]byte{nil, make([]byte, 1), make([]byte, 100)} {
			got := protocol.ExecEvent{Data: room}
			if err := wire.Unmarshal([]byte(form), &got); err != nil || !cmp.Equal(got, want) {
				t.Errorf("%s is read as %v, %v", form, got, err)
			}
			if len(got.Data) > 0 && len(room) == 100 && &got.Data[0] != &room[0] {
				t.Errorf("%s: the memory of the last event was not used", form)
			}
		}
		if got, err := wire.Append(nil, want); err != nil || string(got) != form {
			t.Errorf("%s is written as %s, %v", form, got, err)
		}
	}
}

func TestExecEventFaults(t *testing.T) {
	for form, want := range map[string]string{
		`{"id":"r","seq":1,"name":"stdout","value":7}`:             "an event's value does not go with its name",
		`{"id":"r","seq":1,"value":"aGk=","name":"exit","code":0}`: "an event's value does not go with its name",
		`{"id":"r","seq":1,"name":"stdout","value":"aGk"}`:         "Invalid padding",
		`{"id":"r","seq":1,"name":"exit","value":null,"code":0}`:   "invalid type: null, expected int",
		`{"id":"r","seq":1,"name":"exit","code":0}`:                "missing field `value`",
		`{"id":"r","seq":-1,"name":"stdout","value":"aGk="}`:       "invalid type: number `-1`, expected u64",
		`["r",1,"stdout","aGk="]`:                                  "invalid type: sequence, expected struct execEvent",
	} {
		var got protocol.ExecEvent
		if err := wire.Unmarshal([]byte(form), &got); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", form, err, want)
		}
	}
}
