package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/wsd-dev/wsd/bench/stats"
)

// A line is one figure.
type line struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Beside string  `json:"beside,omitempty"` // what else was measured, or is known
	Wanted string  `json:"wanted,omitempty"`
	Met    bool    `json:"met"`
}

// A point is what one change costs in a tree of some size.
type point struct {
	Entries int     `json:"entries"`
	Push    float64 `json:"pushMs"`   // one changed file pushed
	Fetch   float64 `json:"fetchMs"`  // one changed on disk, settled and fetched
	Settle  float64 `json:"settleMs"` // nothing changed
	RSS     float64 `json:"rssMiB"`
}

type report struct {
	Lines []line  `json:"figures"`
	Curve []point `json:"curve"`
}

// atLeast adds a figure that wants to be large, atMost one that wants to be small.
func (r *report) atLeast(name string, v float64, unit, beside string, wanted float64) {
	r.Lines = append(r.Lines, line{name, v, unit, beside, fmt.Sprintf(">= %.4g", wanted), v >= wanted})
}

func (r *report) atMost(name string, v float64, unit, beside string, wanted float64) {
	r.Lines = append(r.Lines, line{name, v, unit, beside, fmt.Sprintf("<= %.4g", wanted), v <= wanted})
}

// plain adds a figure of which nothing is wanted.
func (r *report) plain(name string, v float64, unit, beside string) {
	r.Lines = append(r.Lines, line{Name: name, Value: v, Unit: unit, Beside: beside, Met: true})
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func (r *report) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "figure\tvalue\tunit\twanted\tbeside\n")
	for _, l := range r.Lines {
		mark := ""
		if !l.Met {
			mark = " MISS"
		}
		fmt.Fprintf(t, "%s\t%s%s\t%s\t%s\t%s\n", l.Name, stats.Number(&l.Value, ""), mark, l.Unit, l.Wanted, l.Beside)
	}
	if err := t.Flush(); err != nil || len(r.Curve) == 0 {
		return err
	}
	fmt.Fprint(w, "\none change as the tree grows\n")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "entries\tpushed ms\tseen and fetched ms\tnothing changed ms\trss MiB\t\n")
	for _, p := range r.Curve {
		fmt.Fprintf(t, "%d\t%.2f\t%.2f\t%.2f\t%.1f\t\n", p.Entries, p.Push, p.Fetch, p.Settle, p.RSS)
	}
	return t.Flush()
}
