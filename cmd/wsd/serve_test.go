package main

import (
	"strings"
	"testing"
	"time"
)

func TestDialable(t *testing.T) {
	for in, want := range map[string]string{
		"ws://127.0.0.1:5":  "ws://127.0.0.1:5",
		"ws://0.0.0.0:5":    "ws://127.0.0.1:5",
		"wss://[::]:5":      "wss://[::1]:5",
		"ws://10.0.0.0:5":   "ws://10.0.0.0:5",
		"unix:///a/0.0.0.0": "unix:///a/0.0.0.0",
	} {
		if got := dialable(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestSessionGrace(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: -1, time.Second: time.Second} {
		if got := (&serveOptions{grace: given}).sessionGrace(); got != want {
			t.Errorf("--session-grace %v: %v, want %v", given, got, want)
		}
	}
}

// The default log of a server is for a person who watches it; a harness that starts
// one sees warnings only.
func TestLogOptions(t *testing.T) {
	for _, tc := range []struct {
		level, format string
		want          string
	}{
		{"info", "text", "level=WARN msg=w"},
		{"debug", "json", `"level":"DEBUG","msg":"d"`},
		{"error", "text", ""},
	} {
		o := &logOptions{level: tc.level, format: tc.format}
		if err := o.check(""); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		log := o.logger(&out)
		log.Debug("d")
		log.Warn("w")
		if got := out.String(); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("%+v: %q", o, got)
		}
	}
}
