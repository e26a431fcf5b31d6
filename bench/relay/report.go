package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/wsd-dev/wsd/bench/stats"
)

// A figure is a line of the report.
type figure struct {
	name, unit, what string
	wanted           string
	// met says whether a way's value is as wanted, given the direct way's; nil where
	// nothing is.
	met func(value, direct float64) bool
}

var figures = []figure{
	{"round trip", "ms", "environment/status, p50", "<= 0.2 and <= direct + 0.1", func(v, direct float64) bool { return v <= 0.2 && v <= direct+0.1 }},
	{"one-shot", "ms", "start of `true` until closed, p50", "<= 7", func(v, _ float64) bool { return v <= 7 }},
	{"stdout", "MB/s", "128 MiB of a child's output", ">= 120", func(v, _ float64) bool { return v >= 120 }},
	{"executor cpu", "ms/MB", "of that output, without the child", "", nil},
	{"relay cpu", "ms/MB", "of that output", "", nil},
}

// ours are the ways that something is wanted of.
var ours = map[string]bool{"reliable": true, "codex profile": true}

// maxIdle is how much of the relay's memory an idle executor may cost, in KiB.
const maxIdle = 32

// report is what was measured.
type report struct {
	Ways      []string                      `json:"ways"`
	Values    map[string]map[string]float64 `json:"figures"`
	Curve     []point                       `json:"curve,omitempty"`
	Executors int                           `json:"idleExecutors,omitempty"`
	Idle      *float64                      `json:"idleExecutorKiB,omitempty"`

	rounds map[string]map[string][]float64
}

func (r *report) add(figure, way string, v float64) {
	if r.Values == nil {
		r.Values, r.rounds = map[string]map[string]float64{}, map[string]map[string][]float64{}
	}
	if r.rounds[figure] == nil {
		r.rounds[figure], r.Values[figure] = map[string][]float64{}, map[string]float64{}
	}
	r.rounds[figure][way] = append(r.rounds[figure][way], v)
	r.Values[figure][way] = stats.Median(r.rounds[figure][way])
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "figure\tunit")
	for _, way := range r.Ways {
		fmt.Fprintf(t, "\t%s", way)
	}
	fmt.Fprint(t, "\twanted of ours\twhat\n")
	for _, f := range figures {
		values, ok := r.Values[f.name]
		if !ok {
			continue
		}
		fmt.Fprintf(t, "%s\t%s", f.name, f.unit)
		for _, way := range r.Ways {
			v, ok := values[way]
			if !ok {
				fmt.Fprint(t, "\t-")
				continue
			}
			mark := ""
			if ours[way] && f.met != nil && !f.met(v, values["direct"]) {
				mark = " MISS"
			}
			fmt.Fprintf(t, "\t%s%s", stats.Number(&v, ""), mark)
		}
		fmt.Fprintf(t, "\t%s\t%s\n", f.wanted, f.what)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Idle != nil {
		mark := ""
		if *r.Idle > maxIdle {
			mark = " MISS"
		}
		fmt.Fprintf(w, "\n%d idle executors: %s KiB of the relay's memory each%s (wanted <= %d)\n", r.Executors, stats.Number(r.Idle, ""), mark, maxIdle)
	}
	return r.writeCurve(w)
}

func (r *report) writeCurve(w io.Writer) error {
	if len(r.Curve) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nround trips of the reliable way, over many streams at once\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "streams\ta second\texecutor cpu µs\trelay cpu µs\t\n")
	for _, p := range r.Curve {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.0f\t\n", p.Streams, p.Calls, p.Executor, p.Relay)
	}
	return t.Flush()
}
