package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/wsd-dev/wsd/bench/stats"

	"github.com/wsd-dev/wsd/bench/target"
)

// results holds the values of every round.
type results struct {
	values map[string]map[target.Kind][]float64
}

func (r *results) add(figure string, kind target.Kind, v float64) {
	if r.values == nil {
		r.values = map[string]map[target.Kind][]float64{}
	}
	if r.values[figure] == nil {
		r.values[figure] = map[target.Kind][]float64{}
	}
	r.values[figure][kind] = append(r.values[figure][kind], v)
}

// value is the figure over all rounds, and whether it was taken.
func (r *results) value(f figure, kind target.Kind) (float64, bool) {
	v := r.values[f.name][kind]
	if len(v) == 0 {
		return 0, false
	}
	if !f.total {
		return stats.Median(v), true
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v)), true
}

// floor is what the machine itself needs to spawn a program, in ms.
func (r *results) floor() float64 { return stats.Median(r.values["floor"][""]) }

// A row is a figure as it is reported.
type row struct {
	Name   string   `json:"name"`
	What   string   `json:"what"`
	Unit   string   `json:"unit"`
	Wsd    *float64 `json:"wsd"`
	Codex  *float64 `json:"codex"`
	Ratio  *float64 `json:"ratio"` // how many times better wsd is
	Wanted string   `json:"wanted"`
	Met    *bool    `json:"met"`
}

func (r *results) rows() []row {
	var rows []row
	for _, f := range figures {
		wsd, haveWsd := r.value(f, target.Wsd)
		peer, havePeer := r.value(f, target.Codex)
		if !haveWsd && !havePeer {
			continue
		}
		out := row{Name: f.name, What: f.what, Unit: f.unit, Wanted: f.goal.text}
		if haveWsd {
			out.Wsd = &wsd
		}
		if havePeer {
			out.Codex = &peer
		}
		if haveWsd && havePeer {
			ratio := wsd / peer
			if !f.higher {
				ratio = peer / wsd
			}
			met := f.goal.met(wsd, peer, r.floor())
			out.Ratio, out.Met = &ratio, &met
		}
		rows = append(rows, out)
	}
	return rows
}

func (r *results) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"floorMs": r.floor(), "figures": r.rows()})
}

func (r *results) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "figure\tunit\twsd\tcodex\tbetter by\twanted\t\twhat\n")
	for _, r := range r.rows() {
		mark := ""
		if r.Met != nil {
			mark = map[bool]string{true: "pass", false: "MISS"}[*r.Met]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Unit,
			stats.Number(r.Wsd, ""), stats.Number(r.Codex, ""), stats.Number(r.Ratio, " x"), r.Wanted, mark, r.What)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nfloor: %.2f ms to spawn /bin/true and wait for it, measured in between\n", r.floor())
	return err
}
