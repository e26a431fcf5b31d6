//go:build e2e && linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/bench/target"
)

// One round against wsd alone: that every figure can be taken, not what it is.
func TestOneRound(t *testing.T) {
	path, err := target.WsdPath(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out, progress strings.Builder
	if err := run(t.Context(), []string{"--wsd", path, "--rounds", "1", "--json"}, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	var report struct {
		FloorMs float64
		Figures []row
	}
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatal(err)
	}
	if report.FloorMs <= 0 || len(report.Figures) != len(figures) {
		t.Errorf("floor %v, %d figures of %d", report.FloorMs, len(report.Figures), len(figures))
	}
	for _, f := range report.Figures {
		if f.Wsd == nil || *f.Wsd < 0 {
			t.Errorf("%s: %v", f.Name, f.Wsd)
		}
	}
}
