package process_test

import (
	"testing"

	"github.com/wsd-dev/wsd/process"
	"github.com/wsd-dev/wsd/process/logtest"
)

func TestMemoryLog(t *testing.T) {
	logtest.Run(t, func(limit process.Retention) (process.LogStore, error) {
		return process.NewMemoryLog(limit), nil
	})
}

// TestMemoryLogDefaults keeps the wire's window: 1 MiB and 50,000 chunks.
func TestMemoryLogDefaults(t *testing.T) {
	for _, c := range []struct {
		name           string
		chunks, size   int
		first, through uint64
	}{
		{"3 MiB in 8 KiB chunks", 384, 8192, 257, 384},
		{"one-byte chunks", 56_231, 1, 6_232, 56_231},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := process.NewMemoryLog(process.Retention{})
			for range c.chunks {
				if _, err := log.Append(process.Event{Kind: process.KindOutput, Data: make([]byte, c.size)}); err != nil {
					t.Fatal(err)
				}
			}
			page, err := log.Read(nil, 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			if got := page.Events[0].Seq; got != c.first {
				t.Errorf("first retained is %d, want %d", got, c.first)
			}
			if got := page.Events[len(page.Events)-1].Seq; got != c.through {
				t.Errorf("last retained is %d, want %d", got, c.through)
			}
		})
	}
}
