package main

import (
	"strings"
	"testing"

	"github.com/wsd-dev/wsd/client"
)

// The last lines are those of tail(1), however the output was cut into events.
func TestLineTail(t *testing.T) {
	for _, text := range []string{"", "\n", "a", "a\n", "a\nb", "a\nb\n", "\n\n\n", "a\n\nb\n\n", strings.Repeat("line\n", 50), strings.Repeat("x", 100)} {
		for most := range 8 {
			lines := strings.SplitAfter(text, "\n")
			if lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			want := strings.Join(lines[max(len(lines)-most, 0):], "")
			for size := 1; size < 7; size++ {
				tail := lineTail{most: most}
				for rest := text; rest != ""; {
					n := min(size, len(rest))
					tail.add(&client.RunEvent{Stream: "stdout", Data: []byte(rest[:n])})
					rest = rest[n:]
				}
				got := ""
				for _, e := range tail.last() {
					got += string(e.Data)
				}
				if got != want {
					t.Errorf("the last %d lines of %.60q in events of %d: %q, want %q", most, text, size, got, want)
				}
				if most < 5 && len(tail.events) > 5*(most+2)+7 && len(lines) > 20 {
					t.Errorf("%d events are kept for %d lines", len(tail.events), most)
				}
			}
		}
	}
}
