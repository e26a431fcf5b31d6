package capnweb

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type hash [4]byte

type inner struct {
	Depth int `json:"depth"`
}

type record struct {
	inner
	Kind    string            `json:"kind"`
	Size    *int64            `json:"size,omitempty"`
	Hash    hash              `json:"hash"`
	Chunks  []inner           `json:"chunks"`
	Labels  map[string]string `json:"labels,omitempty"`
	When    time.Time         `json:"when,omitzero"`
	Skipped int               `json:"-"`
	Any     any               `json:"any,omitempty"`
	private int
}

type celsius float64

func (c celsius) MarshalCapnweb() (any, error) { return fmt.Sprint(float64(c), "C"), nil }

func (c *celsius) UnmarshalCapnweb(v any) error {
	s, ok := v.(string)
	if !ok {
		return errors.New("no text")
	}
	_, err := fmt.Sscanf(s, "%f", (*float64)(c))
	return err
}

func TestMarshal(t *testing.T) {
	size := int64(5)
	for _, tt := range []struct {
		v    any
		want string
	}{
		{nil, `null`},
		{Undefined{}, `["undefined"]`},
		{(*int)(nil), `null`},
		{uint8(3), `3`},
		{1e300, `1e+300`},
		{1e20, `100000000000000000000`},
		{math.Copysign(0, -1), `0`},
		{float32(0.5), `0.5`},
		{"a\"\\\n\u2028é\xff", "\"a\\\"\\\\\\u000a\u2028é\ufffd\""},
		{[]int(nil), `[[]]`},
		{[]string{"a"}, `[["a"]]`},
		{[2][]int{{1}, nil}, `[[[[1]],[[]]]]`},
		{[]byte{}, `["bytes",""]`},
		{hash{1, 2, 3, 4}, `["bytes","AQIDBA"]`},
		{map[string]int{"b": 1, "a": 2, "toJSON": 3}, `{"a":2,"b":1}`},
		{time.UnixMilli(-5), `["date",-5]`},
		{new(big.Int).Lsh(big.NewInt(1), 70), `["bigint","1180591620717411303424"]`},
		{record{inner: inner{2}, Kind: "file", Size: &size, private: 1}, `{"kind":"file","size":5,"hash":["bytes","AAAAAA"],"chunks":[[]],"depth":2}`},
		{&Error{Message: "m"}, `["error","Error","m"]`},
		{&Error{Name: "N", Message: "m", Code: "C", Stack: "s"}, `["error","N","m",null,{"code":"C"}]`},
		{errors.New("secret"), `["error","Error","internal error"]`},
		{celsius(21.5), `"21.5C"`},
		{[]celsius{1}, `[["1C"]]`},
		{TypedArray{"Int16Array", []byte{1, 0}}, `["bytes","AQA","Int16Array"]`},
		{(*Stub)(nil), `null`},
		{Stream[int]{}, `["undefined"]`},
	} {
		got, err := Marshal(tt.v)
		if err != nil || string(got) != tt.want {
			t.Errorf("%#v: %s, %v; want %s", tt.v, got, err, tt.want)
		}
	}
}

func TestUnmarshal(t *testing.T) {
	size := int64(5)
	var rec record
	err := Unmarshal([]byte(`{"kind":"file","size":5,"hash":["bytes","AQIDBA=="],"chunks":[[{"depth":1},{}]],"labels":{"a":"b"},"when":["date",7],"depth":2,"other":[[1]],"any":[[1,{"x":["undefined"]}]]}`), &rec)
	want := record{
		inner: inner{2}, Kind: "file", Size: &size, Hash: hash{1, 2, 3, 4}, Chunks: []inner{{1}, {}},
		Labels: map[string]string{"a": "b"}, When: time.UnixMilli(7).UTC(), Any: []any{1.0, Object{{"x", Undefined{}}}},
	}
	if diff := cmp.Diff(want, rec, cmp.AllowUnexported(record{})); err != nil || diff != "" {
		t.Error(err, diff)
	}

	check := func(text string, dst, want any) {
		t.Helper()
		if err := Unmarshal([]byte(text), dst); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, dst, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
	ptr := func(v any) any { return &v }
	u16, i64, f, c, n, str := []uint16{1, 513}, int64(-5), 1.0, celsius(3), 7, "kept"
	check(`["bytes","AQABAg","Uint16Array"]`, new([]uint16), &u16)
	check(`["bytes","AQABAg","Uint16Array"]`, new([]byte), &[]byte{1, 0, 1, 2})
	check(`["bigint","-5"]`, new(int64), &i64)
	check(`["bigint","-5"]`, new(*big.Int), func() any { b := big.NewInt(-5); return &b }())
	check(`1.0`, new(float64), &f)
	check(`"3C"`, new(celsius), &c)
	check(`["undefined"]`, &n, func() any { n := 7; return &n }())
	check(`null`, &str, func() any { s := "kept"; return &s }())
	check(`["date",null]`, new(time.Time), new(time.Time))
	check(`["date",9e15]`, new(any), ptr(InvalidDate{}))
	check(`[[1,2]]`, new([2]int), &[2]int{1, 2})
	check(`{"a":1}`, new(map[string]*int), func() any { one := 1; return &map[string]*int{"a": &one} }())
	check(`1e999`, new(any), ptr(math.Inf(1)))
	check(" [ [ 1 , { \"a\" : null } ] ] ", new(any), ptr([]any{1.0, Object{{"a", nil}}}))
}

func TestUnmarshalMisfits(t *testing.T) {
	for _, tt := range []struct {
		text string
		dst  any
		want string
	}{
		{`"x"`, new(int), "a string where int is wanted"},
		{`1.5`, new(int), "1.5 is not in the range of int"},
		{`300`, new(uint8), "300 is not in the range of uint8"},
		{`-1`, new(uint), "-1 is not in the range of uint"},
		{`9007199254740993`, new(int64), "9.007199254740992e+15 is not in the range of int64"},
		{`{"chunks":[[{"depth":"x"}]]}`, new(record), "chunks[0].depth: a string where int is wanted"},
		{`{"hash":["bytes","AA"]}`, new(record), "hash: 1 bytes where 4 are wanted"},
		{`{"labels":{"k":1}}`, new(record), "labels.k: a number where string is wanted"},
		{`[[1]]`, new(record), "an array where capnweb.record is wanted"},
		{`{}`, new([]int), "an object where []int is wanted"},
		{`[[1,2]]`, new([1]int), "2 items where 1 are wanted"},
		{`["bytes","AA"]`, new(string), "bytes where string is wanted"},
		{`["bytes","AAA","Int16Array"]`, new([]int32), "Int16Array where []int32 is wanted"},
		{`["bigint","99999999999999999999"]`, new(int64), "a bigint that does not fit int64"},
		{`5`, new(Stream[int]), "a number where a stream is wanted"},
		{`5`, record{}, "capnweb: capnweb.record is no pointer to decode into"},
		{`["export",-1]`, new(any), "TypeError: objects, calls and streams cannot be received without a session"},
	} {
		if err := Unmarshal([]byte(tt.text), tt.dst); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// Names that come often do not make objects slow, and the last of two counts.
func TestLargeObject(t *testing.T) {
	text := []byte{'{'}
	for i := range 100_000 {
		text = fmt.Appendf(text, `"k%d":%d,`, i%50_000, i)
	}
	text[len(text)-1] = '}'
	var m map[string]int
	if err := Unmarshal(text, &m); err != nil || len(m) != 50_000 || m["k7"] != 50_007 {
		t.Errorf("%v, %d members, %d", err, len(m), m["k7"])
	}
}

func TestHasStreams(t *testing.T) {
	type node struct{ Next *node }
	for name, tt := range map[string]struct{ m, want bool }{
		"bare":    {Func0[Stream[int]](nil).Streams, true},
		"in":      {Func0[run](nil).Streams, true},
		"pointer": {Func0[*run](nil).Streams, true},
		"list":    {Func0[[]run](nil).Streams, true},
		"none":    {Func0[record](nil).Streams, false},
		"any":     {Func0[any](nil).Streams, false},
		"cycle":   {Func0[node](nil).Streams, false},
	} {
		if tt.m != tt.want {
			t.Errorf("%s: %v", name, tt.m)
		}
	}
}
