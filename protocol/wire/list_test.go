package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	for raw, want := range map[string][]string{
		`[]`:                           nil,
		"[ \n]":                        nil,
		`[1]`:                          {"1"},
		` [ "a,]" , {"b":[1,2]} ,[] ]`: {`"a,]"`, `{"b":[1,2]}`, `[]`},
		`[null,true,-1.5e3,"\\\""]`:    {"null", "true", "-1.5e3", `"\\\""`},
	} {
		msg := []byte(`{"id":1,"method":"m","params":{"list":` + raw + `}}`)
		env, err := ParseEnvelope(msg, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			List List `json:"list"`
		}
		var borrowed struct {
			List BorrowedList `json:"list"`
		}
		if err := Unmarshal(env.Params, &borrowed); err != nil {
			t.Fatal(err)
		}
		if text, err := Append(nil, borrowed); err != nil || string(text) != `{"list":`+strings.TrimSpace(raw)+`}` {
			t.Errorf("%s: borrowed and given on it is %s, %v", raw, text, err)
		}
		if err := Unmarshal(env.Params, &got); err != nil {
			t.Fatal(err)
		}
		for i := range msg {
			msg[i] = 'X' // nothing may point into the message
		}
		var elements []string
		for e := got.List.Elements(); ; {
			element, ok := e.Next()
			if !ok {
				break
			}
			elements = append(elements, string(element))
		}
		if !slices.Equal(elements, want) {
			t.Errorf("%s: %q, want %q", raw, elements, want)
		}
		if _, err := Append(nil, got); err != nil {
			t.Error(err)
		}
	}
	var l List
	if err := Unmarshal([]byte(`{}`), &l); err == nil {
		t.Error("an object is a list")
	}
	if out, err := Append(nil, List(nil)); err != nil || string(out) != "[]" {
		t.Errorf("no list: %s, %v", out, err)
	}
	if e := List(nil).Elements(); e.rest != nil {
		t.Error("no list has elements")
	}
}

func TestListJoin(t *testing.T) {
	for _, tt := range []struct{ a, b, want string }{
		{"", "", ""},
		{"[]", "", "[]"},
		{"", "[1]", "[1]"},
		{"[ ]", "[ ]", "[ ]"},
		{"[1]", "[]", "[1]"},
		{"[]", "[1]", "[1]"},
		{"[1]", "[2]", "[1,2]"},
		{"[ 1 ]", "[ [2] , 3 ]", "[ 1 ,[2] , 3 ]"},
	} {
		got := List(tt.a).Join(List(tt.b))
		if string(got) != tt.want {
			t.Errorf("%q and %q: %q, want %q", tt.a, tt.b, got, tt.want)
		}
		if len(got) > 0 {
			if _, err := ParseEnvelope(append(append([]byte(`{"id":1,"result":`), got...), '}'), Limits{}); err != nil {
				t.Errorf("%s: %v", got, err)
			}
		}
	}
}
