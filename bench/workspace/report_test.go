package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	r := &report{Curve: []point{{Entries: 1000, Push: 1.5}}}
	r.atLeast("push", 99, "MiB/s", "", 100)
	r.atMost("rss", 60, "MiB", "reference 298", 60)
	r.plain("disk", 2, "times", "")
	var b strings.Builder
	if err := r.writeTable(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"99.0 MISS", ">= 100", "reference 298", "1000"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Count(text, "MISS") != 1 {
		t.Errorf("the figures that are as wanted are missed:\n%s", text)
	}
}
