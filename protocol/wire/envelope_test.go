package wire

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnvelope(t *testing.T) {
	limits := Limits{Depth: 126, Values: 1000}
	for _, tc := range []struct {
		name, msg string
		want      Envelope
	}{
		{"request", `{"id":1,"method":"m","params":{"a":[1,2]}}`, Envelope{Kind: Request, ID: IntID(1), Method: "m", Params: []byte(`{"a":[1,2]}`)}},
		{"blanks", " {\n\"method\" :\t\"m\" , \"id\" : 2 }\r\n", Envelope{Kind: Request, ID: IntID(2), Method: "m"}},
		{"notification", `{"method":"m"}`, Envelope{Kind: Notification, Method: "m"}},
		{"escaped names", `{"me\u0074hod":"\u006d"}`, Envelope{Kind: Notification, Method: "m"}},
		{"result", `{"id":3,"result":null}`, Envelope{Kind: Response, ID: IntID(3), Result: []byte("null")}},
		{"error", `{"id":3,"error":{"code":1}}`, Envelope{Kind: Response, ID: IntID(3), Error: []byte(`{"code":1}`)}},
		{"null error beside a result", `{"id":3,"error":null,"result":1}`, Envelope{Kind: Response, ID: IntID(3), Result: []byte("1")}},
		{"method and result is a request", `{"id":1,"method":"m","result":1}`, Envelope{Kind: Request, ID: IntID(1), Method: "m"}},
		{"version 2.0", `{"jsonrpc":"2.0","id":1,"method":"m"}`, Envelope{Kind: Request, ID: IntID(1), Method: "m", Version2: true}},
		{"any version", `{"jsonrpc":[1.0],"id":1,"method":"m"}`, Envelope{Kind: Request, ID: IntID(1), Method: "m"}},
		{"trace", `{"id":1,"method":"m","trace":{"traceparent":"p","tracestate":null}}`, Envelope{Kind: Request, ID: IntID(1), Method: "m", Trace: TraceContext{Traceparent: "p"}}},
		{"null trace", `{"id":1,"method":"m","trace":null}`, Envelope{Kind: Request, ID: IntID(1), Method: "m"}},
		{"bad trace of a notification", `{"method":"m","trace":7}`, Envelope{Kind: Notification, Method: "m"}},
		{"unknown members", `{"x":{"id":9},"id":1,"method":"m"}`, Envelope{Kind: Request, ID: IntID(1), Method: "m"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseEnvelope([]byte(tc.msg), limits)
			if err != nil {
				t.Fatal(err)
			}
			if got.Result != nil && tc.want.Kind == Request {
				t.Errorf("a request has a result: %q", got.Result)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(ID{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// C-017: ids come back as they came, or are refused.
func TestC017IDs(t *testing.T) {
	for _, id := range []string{`9007199254740993`, `-9223372036854775808`, `9223372036854775807`, `0`, `-1`, `"1"`, `1`, `""`, `"a\u0000b"`} {
		env, err := ParseEnvelope([]byte(`{"method":"m","id":`+id+`}`), Limits{})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if got := env.ID.String(); got != id {
			t.Errorf("%s came back as %s", id, got)
		}
	}
	if IntID(1) == StringID("1") {
		t.Error("1 and \"1\" are one id")
	}
	for _, id := range []string{`18446744073709551616`, `9223372036854775808`, `1.5`, `1.0`, `1e3`, `-0`, `null`, `true`, `{}`, `[1]`, `1,"id":2`} {
		env, err := ParseEnvelope([]byte(`{"method":"m","id":`+id+`}`), Limits{})
		if err == nil {
			t.Errorf("%s: accepted as %v", id, env.ID)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, msg := range map[string]string{
		"nothing":                  ``,
		"blanks":                   " \n",
		"unfinished":               `{`,
		"bad key":                  `{oops`,
		"single quotes":            `{'id':1}`,
		"trailing comma":           `{"id":1,"method":"m",}`,
		"two values":               `{"id":1,"method":"m"} {}`,
		"empty object":             `{}`,
		"id alone":                 `{"id":5}`,
		"array":                    `[]`,
		"batch":                    `[{"id":6,"method":"m"}]`,
		"null":                     `null`,
		"string":                   `"x"`,
		"method is a number":       `{"id":1,"method":7}`,
		"error is a string":        `{"id":1,"error":"x"}`,
		"result without an id":     `{"result":1}`,
		"trace of a request":       `{"id":1,"method":"m","trace":7}`,
		"duplicate at the top":     `{"id":1,"method":"m","method":"n"}`,
		"duplicate, escaped":       `{"id":1,"method":"m","\u006dethod":"n"}`,
		"duplicate deep inside":    `{"id":1,"method":"m","params":[{"a":{"b":1,"b":2}}]}`,
		"lone surrogate":           `{"id":1,"method":"\ud800"}`,
		"surrogates swapped":       `{"id":1,"method":"\udc00\ud800"}`,
		"broken UTF-8 in a string": "{\"id\":1,\"method\":\"a\xffb\"}",
		"broken UTF-8 outside":     "{\"id\":1,\xff\"method\":\"a\"}",
		"control character":        "{\"id\":1,\"method\":\"a\nb\"}",
		"bad escape":               `{"id":1,"method":"\x"}`,
		"short hex escape":         `{"id":1,"method":"\u12"}`,
		"leading zero":             `{"id":01,"method":"m"}`,
		"plus sign":                `{"id":+1,"method":"m"}`,
		"number without digits":    `{"id":-,"method":"m"}`,
		"fraction without digits":  `{"id":1,"method":"m","params":{"a":1.}}`,
		"literal cut":              `{"id":1,"method":"m","params":nul`,
		"nested too deep":          strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"127 levels":               `{"id":1,"method":"m","params":` + strings.Repeat("[", 126) + strings.Repeat("]", 126) + `}`,
		"too many values":          `{"id":1,"method":"m","params":[` + strings.Repeat("1,", 300_000) + `1]}`,
	} {
		t.Run(name, func(t *testing.T) {
			env, err := ParseEnvelope([]byte(msg), Limits{Depth: 126, Values: 262_144})
			if err == nil {
				t.Fatalf("accepted: %+v", env)
			}
			_, syntax := errors.AsType[*SyntaxError](err)
			_, shape := errors.AsType[*ShapeError](err)
			if !syntax && !shape {
				t.Errorf("error of type %T", err)
			}
		})
	}
	if _, err := ParseEnvelope([]byte(`{"id":1,"method":"m","params":`+strings.Repeat("[", 125)+strings.Repeat("]", 125)+`}`), Limits{Depth: 126}); err != nil {
		t.Errorf("126 levels: %v", err)
	}
}

func TestDuplicatesAmongManyKeys(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"id":1,"method":"m"`)
	for i := range 100 {
		b.WriteString(`,"k` + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + `":{"a":1,"b":2}`)
	}
	if _, err := ParseEnvelope([]byte(b.String()+"}"), Limits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ParseEnvelope([]byte(b.String()+`,"kcxx":0}`), Limits{}); err == nil || !strings.Contains(err.Error(), "duplicate JSON object key `kcxx`") {
		t.Errorf("got %v", err)
	}
}

func TestShapeErrorCarriesTheID(t *testing.T) {
	_, err := ParseEnvelope([]byte(`{"id":"five"}`), Limits{})
	if shape, ok := errors.AsType[*ShapeError](err); !ok || shape.ID != StringID("five") {
		t.Errorf("got %#v", err)
	}
}

func TestIsEmptyParams(t *testing.T) {
	for raw, want := range map[string]bool{"": true, "null": true, "{}": true, "{ \n }": true, "[]": false, `{"a":1}`: false, "1": false} {
		var b []byte
		if raw != "" {
			b = []byte(raw)
		}
		if got := IsEmptyParams(b); got != want {
			t.Errorf("%q: %v", raw, got)
		}
	}
}

// FuzzParseEnvelope checks that what is accepted is JSON by encoding/json too, and
// that its parts survive being written again.
func FuzzParseEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"m","params":{"a":"\ud83d\ude00é"}}`, `{"jsonrpc":"2.0","id":"x","result":[1.5e-3,true,null]}`,
		`{"id":-1,"error":{"code":-32600,"message":"x","data":{}}}`, `{"method":"m","trace":{"traceparent":"00"}}`, `[{}]`, `{"a":{"a":{"a":1}}}`,
		`{"id":1,"method":"` + strings.Repeat(`\\\"`, 20) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		env, err := ParseEnvelope(msg, Limits{Depth: 126, Values: 262_144})
		if err != nil {
			return
		}
		if !json.Valid(msg) {
			t.Fatalf("accepted what is not JSON: %q", msg)
		}
		var again []byte
		switch {
		case env.Error != nil:
			again, err = AppendError(nil, env.ID, rawJSON(env.Error), env.Version2)
		case env.Kind == Response:
			again, err = AppendResult(nil, env.ID, rawJSON(env.Result), env.Version2)
		default:
			var params any
			if env.Params != nil {
				params = rawJSON(env.Params)
			}
			again, err = AppendRequest(nil, env.ID, env.Method, params, env.Version2)
		}
		if err != nil {
			t.Fatal(err)
		}
		second, err := ParseEnvelope(again, Limits{})
		if err != nil {
			t.Fatalf("%q was written as %q: %v", msg, again, err)
		}
		env.Trace = TraceContext{} // not written
		if diff := cmp.Diff(env, second, cmp.AllowUnexported(ID{})); diff != "" {
			t.Errorf("%q: %s", msg, diff)
		}
	})
}

type rawJSON []byte

func (r rawJSON) AppendWire(dst []byte) ([]byte, error) { return append(dst, r...), nil }

func BenchmarkParseEnvelope(b *testing.B) {
	for name, msg := range map[string]string{
		"small": `{"id":123,"method":"fs/getMetadata","params":{"path":"file:///srv/demo/a","sandbox":null}}`,
		"1MiB":  `{"id":123,"method":"fs/writeFile","params":{"path":"file:///srv/demo/a","dataBase64":"` + strings.Repeat("QUJDRA==", 1<<17) + `"}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			raw := []byte(msg)
			for b.Loop() {
				if _, err := ParseEnvelope(raw, Limits{Depth: 126, Values: 262_144}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
