package execserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A matcher compares messages with patterns. A pattern is JSON in which strings of
// these forms stand for values that vary:
//
//	$any  $string  $int  $uuid    a value of that kind
//	$save:NAME                    any string, which $NAME stands for from then on
//	$errno:N                      a system error text with "(os error N)"
//	$parse                        the text of an unparsable message's error
//	$re:EXPR                      a string that EXPR matches as a whole
//
// Objects have exactly the members of the pattern, but for the key "...": then they may
// have more. A key that ends in + names an addition of wsd's, which the original does
// not send. An array whose first element is "$unordered" matches in any order.
type matcher struct {
	kind  string
	saved map[string]string
	// original means that the other end is not wsd.
	original bool
}

var (
	uuidShape  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	parseShape = map[string]*regexp.Regexp{
		kindWebSocket: regexp.MustCompile(`^failed to parse websocket JSON-RPC message from exec-server websocket 127\.0\.0\.1:\d+: .+`),
		kindUnix:      regexp.MustCompile(`^failed to parse websocket JSON-RPC message from exec-server websocket .*: .+`),
		kindStdio:     regexp.MustCompile(`^failed to parse JSON-RPC message from exec-server stdio: .+`),
		kindPair:      regexp.MustCompile(`^failed to parse JSON-RPC message: .+`),
	}
)

// match compares a message with a pattern, both as text.
func (m *matcher) match(pattern, message string) error {
	want, err := decodeJSON(pattern)
	if err != nil {
		return fmt.Errorf("the pattern is not JSON: %w", err)
	}
	got, err := decodeJSON(message)
	if err != nil {
		return fmt.Errorf("the message is not JSON: %w", err)
	}
	return m.value("", want, got)
}

func (m *matcher) value(at string, want, got any) error {
	switch want := want.(type) {
	case string:
		return m.text(at, want, got)
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: not an object", at)
		}
		return m.object(at, want, got)
	case []any:
		got, ok := got.([]any)
		if !ok {
			return fmt.Errorf("%s: not an array", at)
		}
		return m.array(at, want, got)
	}
	if want != got {
		return fmt.Errorf("%s: got %v, want %v", at, got, want)
	}
	return nil
}

func (m *matcher) object(at string, want, got map[string]any) error {
	left := maps.Clone(got)
	for key, pattern := range want {
		if key == "..." {
			continue
		}
		name, additive := strings.CutSuffix(key, "+")
		value, ok := left[name]
		switch {
		case !ok && additive && m.original:
			continue
		case !ok:
			return fmt.Errorf("%s.%s: absent", at, name)
		}
		delete(left, name)
		if err := m.value(at+"."+name, pattern, value); err != nil {
			return err
		}
	}
	if _, open := want["..."]; !open && len(left) > 0 {
		return fmt.Errorf("%s: unexpected members %v", at, slices.Sorted(maps.Keys(left)))
	}
	return nil
}

func (m *matcher) array(at string, want, got []any) error {
	if len(want) > 0 && want[0] == "$unordered" {
		return m.unordered(at, want[1:], got)
	}
	if len(want) != len(got) {
		return fmt.Errorf("%s: %d elements, want %d", at, len(got), len(want))
	}
	for i := range want {
		if err := m.value(fmt.Sprintf("%s[%d]", at, i), want[i], got[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) unordered(at string, want, got []any) error {
	if len(want) != len(got) {
		return fmt.Errorf("%s: %d elements, want %d", at, len(got), len(want))
	}
	left := slices.Clone(got)
	for _, pattern := range want {
		i := slices.IndexFunc(left, func(v any) bool { return m.value(at, pattern, v) == nil })
		if i < 0 {
			return fmt.Errorf("%s: nothing matches %v", at, pattern)
		}
		left = slices.Delete(left, i, i+1)
	}
	return nil
}

func (m *matcher) text(at, want string, got any) error {
	text, isText := got.(string)
	name, arg, _ := strings.Cut(want, ":")
	ok := isText
	switch name {
	case "$any":
		return nil
	case "$int":
		number, isNumber := got.(json.Number)
		_, err := number.Int64()
		ok = isNumber && err == nil
	case "$string":
	case "$uuid":
		ok = ok && uuidShape.MatchString(text)
	case "$save":
		m.saved[arg] = text
	case "$errno":
		ok = ok && strings.Contains(text, "(os error "+arg+")")
	case "$parse":
		ok = ok && parseShape[m.kind].MatchString(text)
	case "$re":
		expr, err := regexp.Compile("^(?s:" + arg + ")$")
		if err != nil {
			return err
		}
		ok = ok && expr.MatchString(text)
	default:
		ok = ok && text == want
	}
	if !ok {
		return fmt.Errorf("%s: got %v, want %s", at, got, want)
	}
	return nil
}

// decodeJSON decodes one JSON value and keeps numbers as they are written.
func decodeJSON(text string) (any, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

func TestMatcher(t *testing.T) {
	tests := []struct {
		name, pattern, message string
		original, want         bool
	}{
		{"equal", `{"id":1,"result":{}}`, `{"result":{},"id":1}`, false, true},
		{"number written otherwise", `{"id":1}`, `{"id":1.0}`, false, false},
		{"text for number", `{"id":1}`, `{"id":"1"}`, false, false},
		{"extra member", `{"id":1}`, `{"id":1,"x":2}`, false, false},
		{"extra member allowed", `{"id":1,"...":0}`, `{"id":1,"x":2}`, false, true},
		{"missing member", `{"id":1,"x":null}`, `{"id":1}`, false, false},
		{"null is a value", `{"x":null}`, `{"x":null}`, false, true},
		{"addition", `{"mode+":420}`, `{"mode":420}`, false, true},
		{"addition missing", `{"mode+":420}`, `{}`, false, false},
		{"addition of the original", `{"mode+":420}`, `{}`, true, true},
		{"errno", `"$errno:2"`, `"a: none (os error 2)"`, false, true},
		{"other errno", `"$errno:2"`, `"a: none (os error 20)"`, false, false},
		{"expression", `"$re:a.c"`, `"abc"`, false, true},
		{"expression matches a part", `"$re:b"`, `"abc"`, false, false},
		{"integer", `"$int"`, `-7`, false, true},
		{"not an integer", `"$int"`, `1.5`, false, false},
		{"uuid", `"$uuid"`, `"8519f864-29c3-4e67-9632-fc3ab38e457c"`, false, true},
		{"order", `[1,2]`, `[2,1]`, false, false},
		{"any order", `["$unordered",1,2]`, `[2,1]`, false, true},
		{"any order, one twice", `["$unordered",1,2]`, `[1,1]`, false, false},
		{"two values", `1`, `1 2`, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &matcher{kind: kindPair, saved: map[string]string{}, original: test.original}
			if err := m.match(test.pattern, test.message); (err == nil) != test.want {
				t.Errorf("match(%s, %s) = %v", test.pattern, test.message, err)
			}
		})
	}
}
