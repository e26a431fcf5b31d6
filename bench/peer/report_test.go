package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/stats"

	"github.com/wsd-dev/wsd/bench/target"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []time.Duration
		want time.Duration
	}{{nil, 0}, {[]time.Duration{5}, 5}, {[]time.Duration{9, 1, 5}, 5}, {[]time.Duration{4, 1, 2, 9}, 3}} {
		if got := stats.Median(tt.in); got != tt.want {
			t.Errorf("stats.Median(%v) = %v", tt.in, got)
		}
	}
}

// Every figure is taken by one measure, and the other way round.
func TestFiguresAndMeasures(t *testing.T) {
	taken := map[string]int{}
	for _, m := range measures {
		for _, name := range m.figures {
			taken[name]++
		}
	}
	for _, f := range figures {
		if taken[f.name] != 1 {
			t.Errorf("%s is taken by %d measures", f.name, taken[f.name])
		}
		delete(taken, f.name)
	}
	for name := range taken {
		t.Errorf("%s is taken and not reported", name)
	}
}

func sample() *results {
	r := &results{}
	r.add("floor", "", 1)
	for _, v := range []float64{1.8, 30, 1.9} { // the median counts
		r.add("one-shot", target.Wsd, v)
	}
	r.add("one-shot", target.Codex, 19)
	for _, v := range []float64{2, 8} { // the mean counts
		r.add("one-shot cpu", target.Wsd, v)
	}
	r.add("one-shot cpu", target.Codex, 10)
	r.add("starts", target.Wsd, 400)
	r.add("starts", target.Codex, 100)
	r.add("getMetadata", target.Wsd, 1.04)
	r.add("getMetadata", target.Codex, 1)
	r.add("blocks", target.Codex, 500)
	return r
}

func TestRows(t *testing.T) {
	want := map[string]struct {
		wsd, ratio float64
		met        bool
	}{
		"one-shot":     {1.9, 10, true},
		"one-shot cpu": {5, 2, false}, // more than 4 ms
		"starts":       {400, 4, false},
		"getMetadata":  {1.04, 1 / 1.04, true}, // within the noise
	}
	for _, r := range sample().rows() {
		w, ok := want[r.Name]
		if !ok {
			if r.Name != "blocks" || r.Wsd != nil || r.Met != nil {
				t.Errorf("row %+v", r)
			}
			continue
		}
		delete(want, r.Name)
		if *r.Wsd != w.wsd || *r.Ratio < w.ratio*0.999 || *r.Ratio > w.ratio*1.001 || *r.Met != w.met {
			t.Errorf("%s: wsd %v, ratio %v, met %v; want %+v", r.Name, *r.Wsd, *r.Ratio, *r.Met, w)
		}
	}
	if len(want) > 0 {
		t.Errorf("no rows for %v", want)
	}
}

func TestWrite(t *testing.T) {
	var table strings.Builder
	if err := sample().writeTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"10.0 x", "<= 2 x floor", "pass", "MISS", "floor: 1.00 ms"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	var text strings.Builder
	if err := sample().writeJSON(&text); err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		FloorMs float64
		Figures []row
	}
	if err := json.Unmarshal([]byte(text.String()), &parsed); err != nil || parsed.FloorMs != 1 || len(parsed.Figures) != 5 {
		t.Errorf("%v: %s", err, text.String())
	}
}

func TestUsageErrors(t *testing.T) {
	var out strings.Builder
	for _, args := range [][]string{{}, {"--only", "("}, {"--nonsense"}} {
		if err := run(t.Context(), args, &out, &out); err == nil {
			t.Errorf("%v runs", args)
		}
	}
}
