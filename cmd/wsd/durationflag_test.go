package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "300ms": 300 * time.Millisecond, "1h30m": 90 * time.Minute, "720h": 720 * time.Hour, "30d": 720 * time.Hour,
		"1d12h": 36 * time.Hour, "2d0s": 48 * time.Hour, "65535d": 65535 * 24 * time.Hour, "-5s": -5 * time.Second,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "30 d", "1.5d", "-1d", "1d-2h", "1dd", "1d1d", "1d24h", "65536d", "1w", "1h1d", "3000000h"} {
		if got, err := parseDuration(text); err == nil || !strings.Contains(err.Error(), "such as 300ms, 10s, 5m, 1h30m or 30d") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// Each flag of each command that takes a time takes days as well.
func TestDurationFlagsTakeDays(t *testing.T) {
	found := 0
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "duration" {
				return
			}
			found++
			if err := f.Value.Set("30d"); err != nil {
				t.Errorf("%s --%s: %v", cmd.CommandPath(), f.Name, err)
			}
		})
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look((&app{}).newRoot())
	if found < 8 {
		t.Errorf("there are %d such flags", found)
	}
}
