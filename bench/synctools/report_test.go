package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wsd-dev/wsd/bench/target"
)

func TestMedianCost(t *testing.T) {
	one := func(n int64) cost {
		return cost{
			Wall:  time.Duration(n),
			Sides: [2]target.Usage{{CPU: time.Duration(n), Disk: 2 * n, Calls: 3 * n, Peak: 4 * n}, {CPU: time.Duration(10 * n)}},
			Store: [2]int64{5 * n, 6 * n},
		}
	}
	// Each quantity for itself.
	odd := one(2)
	odd.Wall = 99
	want := one(2)
	want.Wall = 3
	if diff := cmp.Diff(want, median([]cost{one(3), odd, one(1)})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(cost{}, median(nil)); diff != "" {
		t.Error(diff)
	}
}

// sample has a tree with two cases, of which a tool has failed in one.
func sample() (*results, *tree) {
	files := &tree{name: "two files"}
	r := &results{}
	r.size(files, &listing{entries: map[string]string{"a": "", "b": "", "d": ""}, paths: []string{"a", "b"}, bytes: 10e6})
	tools := map[string]*tool{}
	for _, name := range columns {
		tools[name] = &tool{name: name}
	}
	for range 3 {
		r.add(files, coldPush, coldPush, tools["wsd"], cost{
			Wall:  500 * time.Millisecond,
			Sides: [2]target.Usage{{CPU: 100 * time.Millisecond, Disk: 12e6, Peak: 1 << 20}, {CPU: 200 * time.Millisecond, Disk: 13e6, Peak: 2 << 20}},
			Store: [2]int64{1e6, 2e6},
		})
	}
	r.add(files, coldPush, coldPush, tools["mutagen"], cost{Wall: time.Second, Sides: [2]target.Usage{{CPU: 600 * time.Millisecond, Peak: 6 << 20}}})
	r.add(files, "delete", "delete of 2 files", tools["wsd"], cost{Wall: 7 * time.Millisecond})
	r.note("mutagen has halted")
	w := r.watched(tools["wsd"])
	w.There, w.Here = []time.Duration{3e6, 4e6, 50e6}, []time.Duration{1e6, 1e6, 1e6}
	w.Usage = target.Usage{CPU: 12 * time.Millisecond}
	return r, files
}

func TestTables(t *testing.T) {
	r, files := sample()
	var b strings.Builder
	if err := r.writeTables(&b, []*tree{files, {name: "never made"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(b.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{
		"two files: 2 files, 3 entries, 10.0 MB",
		"wsd mutagen rsync unison wsd/mutagen wsd/rsync wsd/tree rounds",
		"time, ms\ncold push 500 1000 - - 0.50 - 3\ndelete of 2 files 7.00 - - - - - 1\n",
		"CPU of all processes, ms\ncold push 300 600 - - 0.50 - 3\n",
		"cold push 12.0 + 13.0 0.00 - - - - 1.20 + 1.30 3\n",
		"cold push 1.00 + 2.00 6.00 - - 0.50 - 3\n",
		"cold push 1.00 + 2.00 0.00 - - - - 0.10 + 0.20 3\n",
		"here to there, ms, p50 4.00 -",
		"here to there, ms, p95 50.0 -",
		"there to here, ms, p50 1.00 -",
		"CPU of all processes, ms a file 2.00 -",
		"files each way 3\n",
		"note: mutagen has halted",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(text, "never made") {
		t.Error("a tree that was not made has a table")
	}
}

func TestJSON(t *testing.T) {
	r, files := sample()
	var b strings.Builder
	if err := r.writeJSON(&b, []*tree{files}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Trees []struct {
			Tree  string
			Bytes int64
			Cases []struct {
				Case   string
				Rounds map[string][]cost
			}
		}
		Watch map[string]watched
		Notes []string
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Trees) != 1 || got.Trees[0].Bytes != 10e6 || len(got.Trees[0].Cases) != 2 || len(got.Trees[0].Cases[0].Rounds["wsd"]) != 3 {
		t.Errorf("trees: %+v", got.Trees)
	}
	if len(got.Watch["wsd"].There) != 3 || len(got.Notes) != 1 {
		t.Errorf("watch: %+v, notes: %q", got.Watch, got.Notes)
	}
}

func TestAligned(t *testing.T) {
	got := aligned([][]string{{"", "a", "bbbb"}, {"a heading that is longer than all"}, {"x", "10 × 2", ""}})
	if want := "        a  bbbb\na heading that is longer than all\nx  10 × 2\n"; got != want {
		t.Errorf("aligned:\n%q, want\n%q", got, want)
	}
}

func TestRatio(t *testing.T) {
	one, two, none := 1.0, 2.0, 0.0
	for _, c := range []struct {
		a, b *float64
		want string
	}{{&one, &two, "0.50"}, {&one, nil, "-"}, {nil, &two, "-"}, {&one, &none, "-"}} {
		if got := ratio(c.a, c.b); got != c.want {
			t.Errorf("ratio = %q, want %q", got, c.want)
		}
	}
}
