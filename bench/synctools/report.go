package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wsd-dev/wsd/bench/stats"
)

// results are what a run has measured.
type results struct {
	rows    []*row
	sizes   map[*tree]*listing // of each tree as it was made
	watches map[string]*watched
	notes   []string
}

// A row is one case of one tree.
type row struct {
	tree       *tree
	name, what string
	costs      map[string][]cost // by the name of the tool, one a round
}

func (r *results) add(t *tree, name, what string, tool *tool, c cost) {
	for _, row := range r.rows {
		if row.tree == t && row.name == name {
			row.costs[tool.name] = append(row.costs[tool.name], c)
			return
		}
	}
	r.rows = append(r.rows, &row{tree: t, name: name, what: what, costs: map[string][]cost{tool.name: {c}}})
}

func (r *results) size(t *tree, l *listing) {
	if r.sizes == nil {
		r.sizes = map[*tree]*listing{}
	}
	r.sizes[t] = l
}

func (r *results) watched(t *tool) *watched {
	if r.watches == nil {
		r.watches = map[string]*watched{}
	}
	if r.watches[t.name] == nil {
		r.watches[t.name] = &watched{}
	}
	return r.watches[t.name]
}

func (r *results) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// median is, of each quantity, the middle of all rounds.
func median(costs []cost) (m cost) {
	of := func(get func(*cost) float64) float64 {
		values := make([]float64, len(costs))
		for i := range costs {
			values[i] = get(&costs[i])
		}
		return stats.Median(values)
	}
	m.Wall = time.Duration(of(func(c *cost) float64 { return float64(c.Wall) }))
	for i := range m.Sides {
		m.Sides[i].CPU = time.Duration(of(func(c *cost) float64 { return float64(c.Sides[i].CPU) }))
		m.Sides[i].Disk = int64(of(func(c *cost) float64 { return float64(c.Sides[i].Disk) }))
		m.Sides[i].Calls = int64(of(func(c *cost) float64 { return float64(c.Sides[i].Calls) }))
		m.Sides[i].Peak = int64(of(func(c *cost) float64 { return float64(c.Sides[i].Peak) }))
		m.Store[i] = int64(of(func(c *cost) float64 { return float64(c.Store[i]) }))
	}
	return m
}

// A quantity is a part of a table.
type quantity struct {
	name string
	of   func(c cost) [2]float64 // here and there
	// apart says that the two sides are shown, and which share of the tree each is: for the
	// first push (share) or always.
	apart, share, always bool
}

var quantities = []quantity{
	{name: "time, ms", of: func(c cost) [2]float64 { return [2]float64{stats.Milliseconds(c.Wall)} }},
	{name: "CPU of all processes, ms", of: func(c cost) [2]float64 {
		return [2]float64{stats.Milliseconds(c.Sides[0].CPU), stats.Milliseconds(c.Sides[1].CPU)}
	}},
	{name: "written to files, MB (write_bytes)", apart: true, share: true, of: func(c cost) [2]float64 {
		return [2]float64{float64(c.Sides[0].Disk) / 1e6, float64(c.Sides[1].Disk) / 1e6}
	}},
	{name: "given to write calls, sockets too, MB (wchar)", apart: true, share: true, of: func(c cost) [2]float64 {
		return [2]float64{float64(c.Sides[0].Calls) / 1e6, float64(c.Sides[1].Calls) / 1e6}
	}},
	{name: "peak memory, MiB", apart: true, of: func(c cost) [2]float64 {
		return [2]float64{float64(c.Sides[0].Peak) / (1 << 20), float64(c.Sides[1].Peak) / (1 << 20)}
	}},
	{name: "store beside the tree, MB", apart: true, always: true, of: func(c cost) [2]float64 {
		return [2]float64{float64(c.Store[0]) / 1e6, float64(c.Store[1]) / 1e6}
	}},
}

// columns are the tools in the order of the tables. The first one is compared with others.
var columns = []string{"wsd", "mutagen", "rsync", "unison"}

var compared = []string{"mutagen", "rsync"}

func (r *results) writeTables(w io.Writer, trees []*tree) error {
	var b strings.Builder
	for _, t := range trees {
		if r.sizes[t] != nil {
			r.treeTable(&b, t)
		}
	}
	r.watchTable(&b)
	for _, n := range r.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *results) treeTable(b *strings.Builder, t *tree) {
	size := r.sizes[t]
	fmt.Fprintf(b, "%s: %d files, %d entries, %.1f MB\n", t.name, len(size.paths), len(size.entries), float64(size.bytes)/1e6)
	head := append([]string{""}, columns...)
	for _, c := range compared {
		head = append(head, columns[0]+"/"+c)
	}
	table := [][]string{append(head, columns[0]+"/tree", "rounds")}
	for _, q := range quantities {
		table = append(table, []string{q.name})
		for _, row := range r.rows {
			if row.tree == t {
				table = append(table, row.line(q, float64(size.bytes)/1e6))
			}
		}
	}
	b.WriteString(aligned(table))
	b.WriteByte('\n')
}

// line is a row's of one quantity.
func (row *row) line(q quantity, treeMB float64) []string {
	line := []string{"  " + row.what}
	sums := map[string]*float64{}
	share := ""
	for _, tool := range columns {
		costs := row.costs[tool]
		if len(costs) == 0 {
			line = append(line, "-")
			continue
		}
		v := q.of(median(costs))
		sum := v[0] + v[1]
		sums[tool] = &sum
		// A tool of which all is on one side has no "there".
		two := q.apart && costs[0].Sides[1].Peak > 0
		line = append(line, sides(v, two))
		if tool == columns[0] && (q.always || q.share && row.name == coldPush) {
			share = sides([2]float64{v[0] / treeMB, v[1] / treeMB}, two)
		}
	}
	for _, tool := range compared {
		line = append(line, ratio(sums[columns[0]], sums[tool]))
	}
	return append(line, share, fmt.Sprint(len(row.costs[columns[0]])))
}

// sides prints what is here and there, or all of it.
func sides(v [2]float64, two bool) string {
	if two {
		return stats.Number(&v[0], "") + " + " + stats.Number(&v[1], "")
	}
	sum := v[0] + v[1]
	return stats.Number(&sum, "")
}

// ratio is a over b, a dash where one is not known or b is nothing.
func ratio(a, b *float64) string {
	if a == nil || b == nil || *b == 0 {
		return "-"
	}
	q := *a / *b
	return stats.Number(&q, "")
}

// watchTable shows how long one file takes.
func (r *results) watchTable(b *strings.Builder) {
	if len(r.watches) == 0 {
		return
	}
	fmt.Fprintf(b, "one file end to end, both sides watched\n")
	head, tools := []string{""}, []string{}
	for _, c := range columns {
		if w := r.watches[c]; w != nil && len(w.There) > 0 {
			tools, head = append(tools, c), append(head, c)
		}
	}
	table := [][]string{append(head, columns[0]+"/"+compared[0])}
	for _, line := range []struct {
		name string
		of   func(w *watched) float64
	}{
		{"here to there, ms, p50", func(w *watched) float64 { return stats.Milliseconds(stats.Median(w.There)) }},
		{"here to there, ms, p95", func(w *watched) float64 { return stats.Milliseconds(stats.Quantile(w.There, 0.95)) }},
		{"there to here, ms, p50", func(w *watched) float64 { return stats.Milliseconds(stats.Median(w.Here)) }},
		{"there to here, ms, p95", func(w *watched) float64 { return stats.Milliseconds(stats.Quantile(w.Here, 0.95)) }},
		{"CPU of all processes, ms a file", func(w *watched) float64 { return stats.Milliseconds(w.Usage.CPU) / w.files() }},
		{"written to files, KB a file", func(w *watched) float64 { return float64(w.Usage.Disk) / 1e3 / w.files() }},
		{"peak memory, MiB", func(w *watched) float64 { return float64(w.Usage.Peak) / (1 << 20) }},
	} {
		cells, values := []string{line.name}, map[string]*float64{}
		for _, tool := range tools {
			v := line.of(r.watches[tool])
			values[tool] = &v
			cells = append(cells, stats.Number(&v, ""))
		}
		table = append(table, append(cells, ratio(values[columns[0]], values[compared[0]])))
	}
	taken := []string{"files each way"}
	for _, tool := range tools {
		taken = append(taken, fmt.Sprint(len(r.watches[tool].There)))
	}
	b.WriteString(aligned(append(table, taken)))
	b.WriteByte('\n')
}

// files is how many files came, both ways.
func (w *watched) files() float64 { return float64(len(w.There) + len(w.Here)) }

// aligned puts cells below each other, the first of a line to the left. A line of one cell
// is a heading and may be as long as it likes.
func aligned(table [][]string) string {
	var widths []int
	for _, line := range table {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if len(line) > 1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var b strings.Builder
	for _, line := range table {
		text := fmt.Sprintf("%-*s", widths[0], line[0])
		for i, cell := range line[1:] {
			text += fmt.Sprintf("  %*s", widths[i+1], cell)
		}
		b.WriteString(strings.TrimRight(text, " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// writeJSON prints every round of everything.
func (r *results) writeJSON(w io.Writer, trees []*tree) error {
	type oneCase struct {
		Name  string            `json:"case"`
		What  string            `json:"what"`
		Costs map[string][]cost `json:"rounds"`
	}
	type oneTree struct {
		Name    string    `json:"tree"`
		Files   int       `json:"files"`
		Entries int       `json:"entries"`
		Bytes   int64     `json:"bytes"`
		Cases   []oneCase `json:"cases"`
	}
	out := struct {
		Trees []oneTree           `json:"trees"`
		Watch map[string]*watched `json:"watch"`
		Notes []string            `json:"notes"`
	}{Watch: r.watches, Notes: r.notes}
	for _, t := range trees {
		size := r.sizes[t]
		if size == nil {
			continue
		}
		one := oneTree{t.name, len(size.paths), len(size.entries), size.bytes, nil}
		for _, row := range r.rows {
			if row.tree == t {
				one.Cases = append(one.Cases, oneCase{row.name, row.what, row.costs})
			}
		}
		out.Trees = append(out.Trees, one)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(out)
}
