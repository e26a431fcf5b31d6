package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/protocol"
	"github.com/wsd-dev/wsd/protocol/wire"
)

// The forms of sync.md section 2, with hashes in digits.
var entryForms = []string{
	`{"kind":"dir","rev":7,"path":"/workspace/src","mode":493,"mtime":1795814700123}`,
	`{"kind":"file","rev":9,"path":"/workspace/src/a.txt","mode":420,"mtime":1795814700200,"size":5,"chunks":[{"hash":"8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8","size":5}]}`,
	`{"kind":"file","rev":10,"path":"/workspace/src/empty","mode":0,"mtime":0,"size":0,"chunks":[]}`,
	`{"kind":"symlink","rev":11,"path":"/workspace/l","mode":511,"mtime":-1,"target":"src/a.txt"}`,
	`{"kind":"delete","rev":12,"path":"/workspace/old"}`,
	`{"kind":"delete","rev":12,"path":"/workspace/\u001f\"","prior":"133f59f26825ffdb38f9d7774807cb47b82beed7aba84ef8cdf775909ae68979"}`,
}

func TestChangeEntryForms(t *testing.T) {
	for _, form := range entryForms {
		var e, again protocol.ChangeEntry
		if err := wire.Unmarshal([]byte(form), &e); err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if err := json.Unmarshal([]byte(form), &again); err != nil || !cmp.Equal(e, again) {
			t.Errorf("%s: encoding/json reads it otherwise: %v", form, err)
		}
		if got, err := wire.Append(nil, e); err != nil || string(got) != form {
			t.Errorf("%s is written as %s, %v", form, got, err)
		}
		if got, err := json.Marshal(e); err != nil || !equalJSON(t, got, []byte(form)) {
			t.Errorf("%s is written by encoding/json as %s, %v", form, got, err)
		}
	}
}

func TestCursorForms(t *testing.T) {
	for in, want := range map[string]string{
		`{"rev":3,"path":null}`:          `{"rev":3,"path":null}`,
		`{"rev":3}`:                      `{"rev":3,"path":null}`,
		`{"rev":3,"path":""}`:            `{"rev":3,"path":""}`,
		`{"path":"/a","rev":4,"more":1}`: `{"rev":4,"path":"/a"}`,
	} {
		var c protocol.Cursor
		if err := wire.Unmarshal([]byte(in), &c); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if got, err := json.Marshal(c); err != nil || string(got) != want {
			t.Errorf("%s is written as %s, %v", in, got, err)
		}
	}
}

func TestChangeEntryTimes(t *testing.T) {
	for in, want := range map[string]int64{"1.9": 1, "-1.5": -2, "1e3": 1000, "-0": 0, "9007199254740991": 1<<53 - 1} {
		for name, decode := range map[string]func([]byte, any) error{"wire": wire.Unmarshal, "encoding/json": json.Unmarshal} {
			var e protocol.ChangeEntry
			if err := decode([]byte(`{"kind":"dir","rev":1,"path":"/","mtime":`+in+`}`), &e); err != nil || int64(*e.MTime) != want {
				t.Errorf("%s: %s: %v, %v", name, in, e.MTime, err)
			}
		}
	}
}

func TestChangeEntryIsStrictAboutTypes(t *testing.T) {
	for _, form := range []string{
		`{"kind":"dir","rev":1.5,"path":"/a"}`,
		`{"kind":"dir","rev":"1","path":"/a"}`,
		`{"kind":"dir","rev":1e3,"path":"/a"}`,
		`{"kind":"dir","rev":null,"path":"/a"}`,
		`{"kind":"dir","rev":1}`,
		`{"kind":"dir","rev":1,"path":["/a"]}`,
		`{"kind":"dir","rev":1,"path":"/a","mode":"0755"}`,
		`{"kind":"file","rev":1,"path":"/a","chunks":{}}`,
		`{"kind":"file","rev":1,"path":"/a","chunks":[{"hash":"00"}]}`,
		`{"kind":"dir","rev":1,"path":"/a","mtime":"1"}`,
		`{"kind":"dir","rev":1,"path":"/a","mtime":1e300}`,
		`{"kind":"file","rev":9223372036854775808,"path":"/a"}`,
		`[]`,
	} {
		if err := wire.Unmarshal([]byte(form), new(protocol.ChangeEntry)); err == nil {
			t.Errorf("%s was accepted", form)
		}
	}
}

func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}
