package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type inner struct {
	Name string `json:"name"`
}

type sample struct {
	Text  string            `json:"text"`
	Num   int64             `json:"num"`
	Size  *uint64           `json:"size" wire:"nullable"`
	Flag  bool              `json:"flag" wire:"optional"`
	Bytes []byte            `json:"bytes,omitempty" wire:"nullable"`
	List  []inner           `json:"list,omitempty" wire:"optional"`
	Map   map[string]string `json:"map,omitempty" wire:"optional"`
	Inner *inner            `json:"inner,omitempty" wire:"nullable"`
}

func TestUnmarshal(t *testing.T) {
	size := uint64(1<<64 - 1)
	for _, tc := range []struct {
		name, raw string
		want      sample
	}{
		{"required only", `{"text":"a","num":-5}`, sample{Text: "a", Num: -5}},
		{"nulls", `{"text":"a","num":0,"size":null,"bytes":null,"inner":null}`, sample{Text: "a"}},
		{
			"everything", ` { "map" : {"k":"v","\u0065":"\""} , "list":[ {"name":"x"} , {"name":""} ],"text":"\ud83d\ude00\n","num":9223372036854775807,"size":18446744073709551615,"flag":true,"bytes":"AP8=","inner":{"name":"y","more":[{"a":"]}"}]}}`,
			sample{Text: "😀\n", Num: 1<<63 - 1, Size: &size, Flag: true, Bytes: []byte{0, 255}, List: []inner{{"x"}, {""}}, Map: map[string]string{"k": "v", "e": `"`}, Inner: &inner{"y"}},
		},
		{"unknown and other case", `{"Text":7,"x":"\\\"","text":"a","num":1}`, sample{Text: "a", Num: 1}},
		{"escaped bytes", `{"text":"a","num":1,"bytes":"\u0041P8\u003d"}`, sample{Text: "a", Num: 1, Bytes: []byte{0, 255}}},
		{"escaped slash in bytes", `{"text":"a","num":1,"bytes":"AA\/\/"}`, sample{Text: "a", Num: 1, Bytes: []byte{0, 15, 255}}},
		{"empty bytes", `{"text":"a","num":1,"bytes":""}`, sample{Text: "a", Num: 1, Bytes: []byte{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			raw := []byte(strings.TrimSpace(tc.raw))
			var got sample
			if err := Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			for i := range raw {
				raw[i] = 'X' // nothing may point into the message
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An empty []byte lends its room; others, that somebody may hold, are left alone.
func TestUnmarshalIntoRoom(t *testing.T) {
	raw := []byte(`{"text":"a","num":1,"bytes":"AP8="}`)
	room := make([]byte, 0, 16)
	got := sample{Bytes: room}
	if err := Unmarshal(raw, &got); err != nil || !bytes.Equal(got.Bytes, []byte{0, 255}) || &got.Bytes[0] != &room[:1][0] {
		t.Errorf("got %v, %v", got.Bytes, err)
	}
	kept := got.Bytes
	kept[0] = 7
	if err := Unmarshal(raw, &got); err != nil || !bytes.Equal(got.Bytes, []byte{0, 255}) || kept[0] != 7 {
		t.Errorf("got %v, %v, and changed %v", got.Bytes, err, kept)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		`{"num":1}`:                               "missing field `text`",
		`{"text":null,"num":1}`:                   "invalid type: null, expected a string",
		`{"text":{},"num":1}`:                     "invalid type: map, expected a string",
		`{"text":"a","num":1.5}`:                  "invalid type: number `1.5`, expected int64",
		`{"text":"a","num":1,"size":-1}`:          "invalid type: number `-1`, expected u64",
		`{"text":"a","num":1,"flag":null}`:        "invalid type: null, expected a boolean",
		`{"text":"a","num":1,"flag":0}`:           "invalid type: number `0`, expected a boolean",
		`{"text":"a","num":1,"list":{}}`:          "invalid type: map, expected a sequence",
		`{"text":"a","num":1,"list":null}`:        "invalid type: null, expected a sequence",
		`{"text":"a","num":1,"list":[1]}`:         "invalid type: number `1`, expected struct inner",
		`{"text":"a","num":1,"map":[]}`:           "invalid type: sequence, expected a map",
		`{"text":"a","num":1,"bytes":"!"}`:        "Invalid symbol 33, offset 0.",
		`{"text":"a","num":1,"inner":{}}`:         "missing field `name`",
		`["a",1]`:                                 "invalid type: sequence, expected struct sample",
		`null`:                                    "invalid type: null, expected struct sample",
		`{"text":"a","num":"1"}`:                  "invalid type: string \"1\", expected int64",
		`{"text":"a","num":92233720368547758070}`: "invalid type: number `92233720368547758070`, expected int64",
	} {
		var got sample
		if err := Unmarshal([]byte(raw), &got); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", raw, err, want)
		}
	}
}

func TestBase64(t *testing.T) {
	for text, want := range map[string]string{
		"AAA":                                  "Invalid padding",
		"AA=A":                                 "Invalid symbol 61, offset 2.",
		"AA==AA==":                             "Invalid symbol 61, offset 2.",
		"A===":                                 "Invalid padding",
		"====":                                 "Invalid padding",
		"AB==":                                 "Invalid last symbol 66, offset 1.",
		"AAB=":                                 "Invalid last symbol 66, offset 2.",
		"AA\n==":                               "Invalid symbol 10, offset 2.",
		"AAAA\nAAA":                            "Invalid symbol 10, offset 4.",
		"AA-_":                                 "Invalid symbol 45, offset 2.",
		strings.Repeat("AAAA", 100) + "AA\r\n": "Invalid symbol 13, offset 402.",
	} {
		_, err := DecodeBase64(nil, []byte(text))
		if _, ok := errors.AsType[*Base64Error](err); !ok || err.Error() != want {
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "data")
		enc := AppendBase64([]byte("x"), data)
		if want := `x"` + base64.StdEncoding.EncodeToString(data) + `"`; string(enc) != want {
			rt.Fatalf("encoded %q", enc)
		}
		var dst []byte
		if size := rapid.IntRange(-1, 400).Draw(rt, "room"); size >= 0 {
			dst = make([]byte, size)
		}
		got, err := DecodeBase64(dst, enc[2:len(enc)-1])
		if err != nil || string(got) != string(data) {
			rt.Fatalf("decoded %x, %v", got, err)
		}
		if got == nil {
			rt.Fatal("decoded to nil")
		}
		if room := base64.StdEncoding.DecodedLen(len(enc) - 3); room > 0 && room <= len(dst) && &got[0] != &dst[0] {
			rt.Fatal("the memory that has room was not used")
		}
	})
}

// FuzzBase64 holds the fast decoder against the standard one.
func FuzzBase64(f *testing.F) {
	for _, s := range []string{"", "AA==", "AAA=", "AAAA", "AB==", "A\nA==", "====", strings.Repeat("abcd", 40) + "ab=="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := DecodeBase64(nil, text)
		want, wantErr := base64.StdEncoding.Strict().DecodeString(string(text))
		if strings.ContainsAny(string(text), "\r\n") {
			wantErr = errors.New("line break")
		}
		if (err == nil) != (wantErr == nil) || err == nil && string(got) != string(want) {
			t.Fatalf("%q: %x, %v; encoding/base64: %x, %v", text, got, err, want, wantErr)
		}
	})
}

func TestAppend(t *testing.T) {
	size := uint64(7)
	for _, tc := range []struct {
		name string
		v    any
		want string
	}{
		{"nil", nil, "null"},
		{"zero", sample{}, `{"text":"","num":0,"size":null,"flag":false}`},
		{
			"full", &sample{Text: "<é\x01\"\\\n\r\t\xff>", Num: -1, Size: &size, Flag: true, Bytes: []byte{1}, List: []inner{{"a"}, {"b"}}, Map: map[string]string{"b": "2", "a": "1"}, Inner: &inner{}},
			`{"text":"<é\u0001\"\\\n\r\t` + "\ufffd" + `>","num":-1,"size":7,"flag":true,"bytes":"AQ==","list":[{"name":"a"},{"name":"b"}],"map":{"a":"1","b":"2"},"inner":{"name":""}}`,
		},
		{"nil slices", struct {
			A []string          `json:"a"`
			B []byte            `json:"b"`
			C map[string]string `json:"c"`
		}{}, `{"a":[],"b":"","c":{}}`},
		{"interface", map[string]any{"a": 1.5, "b": uint8(3)}, `{"a":1.5,"b":3}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Append(nil, tc.v)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	if _, err := Append(nil, make(chan int)); err == nil {
		t.Error("a channel was encoded")
	}
}

// What Append writes, Unmarshal and encoding/json read back.
func TestRoundTrip(t *testing.T) {
	text := rapid.String()
	rapid.Check(t, func(rt *rapid.T) {
		want := sample{
			Text: text.Draw(rt, "text"), Num: rapid.Int64().Draw(rt, "num"), Flag: rapid.Bool().Draw(rt, "flag"),
			Bytes: rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(rt, "bytes"),
			Map:   rapid.MapOfN(text, text, 1, 5).Draw(rt, "map"),
			List:  []inner{{text.Draw(rt, "name")}}, Inner: &inner{text.Draw(rt, "inner")},
		}
		raw, err := Append(nil, want)
		if err != nil {
			rt.Fatal(err)
		}
		var std any
		if err := json.Unmarshal(raw, &std); err != nil {
			rt.Fatalf("%s: %v", raw, err)
		}
		msg, err := AppendRequest(nil, IntID(1), "m", want, false)
		if err != nil {
			rt.Fatal(err)
		}
		env, err := ParseEnvelope(msg, Limits{})
		if err != nil {
			rt.Fatalf("%s: %v", msg, err)
		}
		var got sample
		if err := Unmarshal(env.Params, &got); err != nil {
			rt.Fatalf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// own is an Appender, whose fields have no names in JSON.
type own struct{ Data []byte }

func (o own) AppendWire(dst []byte) ([]byte, error) { return AppendBase64(dst, o.Data), nil }

func TestSizeHint(t *testing.T) {
	for name, tc := range map[string]struct {
		v    any
		want int
	}{
		"nil": {nil, 0}, "nil pointer": {(*sample)(nil), 0}, "string": {"abc", 0}, "map": {map[string]any{"a": []byte("x")}, 0},
		"struct": {sample{Bytes: make([]byte, 7)}, 12}, "pointer": {&sample{Bytes: make([]byte, 9)}, 12}, "none": {inner{}, 0},
		"list": {sample{List: make([]inner, 100)}, 1900}, "appender": {own{}, 0}, "its pointer": {&own{}, 0},
	} {
		if got := SizeHint(tc.v); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
