//go:build e2e

package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/wsd-dev/wsd/bench/target"
)

// TestOnce takes all figures of small trees once, of wsd and of the tools that are there.
func TestOnce(t *testing.T) {
	path, err := target.WsdPath(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: t.TempDir(), begin: time.Now(), progress: io.Discard, scale: scale{changes: 50, samples: 1, limit: time.Minute, budget: 5 * time.Minute}}
	if err := b.findTools(t.Context(), path, ""); err != nil {
		t.Fatal(err)
	}
	files := &tree{name: "files", make: equal(300), moved: "all", rounds: 1}
	modules := &tree{name: "modules", make: nodeModules(300), moved: scope, rounds: 2}
	b.trees, b.observed = []*tree{files, modules}, files
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := b.writeTables(&text, b.trees); err != nil {
		t.Fatal(err)
	}
	for _, n := range b.notes {
		// How the others fare is not for this test to say.
		if t.Log(n); strings.Contains(n, ": wsd: ") {
			t.Error("wsd has failed")
		}
	}
	for _, tree := range b.trees {
		cases := 0
		for _, row := range b.rows {
			if row.tree == tree && len(row.costs["wsd"]) == tree.rounds {
				cases++
			}
		}
		if cases != len(changes)+1 {
			t.Errorf("%d cases of %s were measured, want %d", cases, tree.name, len(changes)+1)
		}
	}
	if w := b.watches["wsd"]; w == nil || len(w.There) != 1 || len(w.Here) != 1 {
		t.Errorf("watched: %+v", w)
	}
	if t.Failed() {
		t.Log(text.String())
	}
}
