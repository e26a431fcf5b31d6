package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	r := &report{Ways: []string{"direct", "reliable", "codex"}}
	for _, v := range []float64{0.3, 0.1, 0.2} {
		r.add("round trip", "direct", v)
	}
	r.add("round trip", "reliable", 0.15)
	r.add("round trip", "codex", 9)
	r.add("one-shot", "direct", 1)
	r.add("one-shot", "reliable", 8)
	idle := 40.0
	r.Idle, r.Executors = &idle, 10
	r.Curve = []point{{Streams: 1, Calls: 1000, Executor: 10, Relay: 5}}

	var out bytes.Buffer
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for _, want := range []struct {
		line string
		miss bool
	}{{"round trip", false}, {"one-shot", true}, {"10 idle executors", true}} {
		found := ""
		for _, l := range lines {
			if strings.HasPrefix(l, want.line) {
				found = l
			}
		}
		if found == "" || strings.Contains(found, "MISS") != want.miss {
			t.Errorf("%s: %q, want a miss: %v", want.line, found, want.miss)
		}
	}
	if !strings.Contains(out.String(), "0.20") {
		t.Error("the median of the rounds is missing")
	}

	out.Reset()
	if err := r.writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Values["one-shot"]["reliable"] != 8 || len(back.Curve) != 1 || *back.Idle != 40 {
		t.Errorf("JSON came back as %+v", back)
	}
}

func TestRunWantsAProgram(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), nil, &out, &out); err == nil || !strings.Contains(err.Error(), "--wsd") {
		t.Errorf("without a program: %v", err)
	}
	if err := run(t.Context(), []string{"--wsd", "x", "--only", "("}, &out, &out); err == nil {
		t.Error("a broken expression is taken")
	}
}
